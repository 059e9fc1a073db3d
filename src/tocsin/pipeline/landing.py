"""Segments in, bronze files out: what one task does with the segments that it is given.

Theory of operation. A segment is decompressed, its lines are told apart by kind, and each kind is decoded by a decoder
of its own, made from the event's struct: types, ranges and defaults of fields that came later are checked and filled in
there. What does not pass is quarantined line by line. The rest becomes columns, and the columns a Parquet file, with
one row group per frequent kind, so that whoever wants some kinds skips the others.

This is reading and writing, and as such it is done where the data is, without a detour through Spark's rows, which was
measured to take several times as long; and Spark's JSON reader cannot say which line is wrong and why. A file counts
only once the driver has put it into a manifest, so a task that dies or runs twice leaves nothing but garbage.
"""

import gc
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import astuple

from tocsin import zstd
from tocsin.pipeline.manifest import DataFile, Interval, intervals_of, overlap
from tocsin.pipeline.schemas import DOCUMENTS, EVENT, KINDS, QUARANTINE, Column, columns_of
from tocsin.pipeline.silver.message_life import WORDS

__all__ = ["Assignment", "Ingested", "ingest_segment", "segment_name"]

#: Where the kind begins in a line as the hub writes it.
_PREFIX = len('{"kind":"')
_KINDS = frozenset(name.encode() for name in KINDS)
_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
#: The last microsecond that a timestamp can say.
_AT_MAX = 253_402_300_799_999_999
#: Largest sequence number; a fold packs another 16 bits beside it.
_SEQ_MAX = (1 << 46) - 1
#: A kind with fewer rows shares a row group with others like it.
_GROUP_MIN = 5000
_NAME = re.compile(r"project=([^/]+)/date=(\d{4}-\d{2}-\d{2})/(\d{20})\.ndjson\.zst")

_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}

Seqs = npt.NDArray[np.int64]


class Assignment(msgspec.Struct, frozen=True):
    """One segment for a task."""

    #: The landing zone.
    landing: str
    #: The segment, below it.
    segment: str
    #: The warehouse.
    warehouse: str
    #: Which batch it becomes a part of.
    batch: str
    #: Sequence numbers that bronze has already.
    covered: list[Interval]
    text_max: int
    lines_max: int
    words_max: int


class Ingested(msgspec.Struct):
    """What became of a segment."""

    segment: str
    project: str
    #: Compressed size.
    bytes: int
    lines: int = 0
    events: int = 0
    duplicates: int = 0
    quarantined: int = 0
    #: Sequence numbers of its events.
    seqs: list[Interval] = []
    files: list[DataFile] = []
    quarantine: list[DataFile] = []
    #: Events of each kind.
    kinds: dict[str, int] = {}
    #: Words by `kind.field`, for `message_life`.
    words: dict[str, list[str]] = {}


def segment_name(path: str) -> tuple[str, str, int] | None:
    """Return the project, day and first sequence number that a segment's path says; None where it is no segment's."""
    match = _NAME.search(path)
    return None if match is None else (match[1], match[2], int(match[3]))


class _Rejected(msgspec.Struct):
    line: int
    reason: str
    detail: str
    text: bytes


class _Lot(msgspec.Struct):
    """The events of one kind, as columns."""

    kind: str
    columns: list[Any]
    seqs: Seqs
    ats: Seqs


def ingest_segment(task: Assignment) -> Ingested:
    """Read one segment, write its bronze files, and say what became of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return _Reader(task).ingest()
    finally:
        if enabled:
            gc.enable()


class _Reader:
    """One segment on its way."""

    def __init__(self, task: Assignment) -> None:
        self._task = task
        named = segment_name(task.segment)
        self._project = named[0] if named else "unknown"
        self._path = Path(task.landing) / task.segment
        self._rejected: list[_Rejected] = []
        self._result = Ingested(task.segment, self._project, self._path.stat().st_size)

    def ingest(self) -> Ingested:
        result = self._result
        lots = self._decoded(self._lines())
        lots = self._without_duplicates(lots)
        if lots:
            result.seqs = intervals_of(np.concatenate([lot.seqs for lot in lots]))
            self._write_events(lots)
        if self._rejected:
            self._write_quarantine()
        return result

    def _lines(self) -> list[bytes]:
        try:
            with zstd.open(self._path, "rb") as reader:
                lines = reader.read().splitlines()
        except (zstd.ZstdError, EOFError, MemoryError) as error:
            self._rejected.append(_Rejected(0, "unreadable", f"not zstd, or cut off: {error}", b""))
            return []
        self._result.lines = len(lines)
        return lines

    def _decoded(self, lines: list[bytes]) -> list[_Lot]:
        """Sort lines by kind and decode each kind."""
        groups: dict[bytes, list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            groups[line[_PREFIX : line.find(b'"', _PREFIX)]].append(number)
        for name in [name for name in groups if name not in _KINDS]:
            for number in groups.pop(name):
                groups[_kind_of(lines[number])].append(number)
        lots: list[_Lot] = []
        for name, numbers in sorted(groups.items()):
            kind = name.decode("utf-8", "replace")
            if kind in KINDS:
                lot = self._lot(kind, lines, numbers)
                if lot is not None:
                    lots.append(lot)
                continue
            reason = "unknown_kind" if kind else "malformed"
            detail = f"there is no event {kind!r:.80}" if kind else "not a JSON object with a kind"
            for number in numbers:
                self._reject(lines, number, reason, detail)
        return lots

    def _lot(self, kind: str, lines: list[bytes], numbers: list[int]) -> _Lot | None:
        decode, fields = _decoder(kind, self._project).decode, _fields(kind)
        try:
            rows = [astuple(decode(lines[number])) for number in numbers]
        except (msgspec.DecodeError, UnicodeDecodeError):
            rows, numbers = self._one_by_one(decode, lines, numbers)
        if not rows:
            return None
        columns: list[Any] = list(zip(*rows, strict=True))
        for place in _numeric(kind):
            columns[place] = np.fromiter(columns[place], dtype=np.int64, count=len(numbers))
        if KINDS[kind] in _ABOUT_MESSAGES:
            messages, seqs = columns[fields.index("message")], columns[1]
            early = np.flatnonzero(messages >= seqs)
            for place in early.tolist():
                detail = f"about message {messages[place]}, which was not accepted yet at {seqs[place]}"
                self._reject(lines, numbers[place], "impossible", detail)
            if len(early):
                keep = np.flatnonzero(messages < seqs)
                columns = _kept(columns, keep)
                if not len(keep):
                    return None
        return _Lot(kind, columns, columns[1], columns[2])

    def _one_by_one(
        self, decode: Callable[[bytes], Any], lines: list[bytes], numbers: list[int]
    ) -> tuple[list[tuple[Any, ...]], list[int]]:
        """Decode lines of which some are wrong, and say which."""
        rows: list[tuple[Any, ...]] = []
        good: list[int] = []
        for number in numbers:
            try:
                rows.append(astuple(decode(lines[number])))
                good.append(number)
            except msgspec.ValidationError as error:
                self._reject(lines, number, "impossible", str(error))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                self._reject(lines, number, "malformed", str(error))
        return rows, good

    def _reject(self, lines: list[bytes], number: int, reason: str, detail: str) -> None:
        self._result.quarantined += 1
        if len(self._rejected) < self._task.lines_max:
            text = lines[number][: self._task.text_max]
            self._rejected.append(_Rejected(number + 1, reason, detail, text))

    def _without_duplicates(self, lots: list[_Lot]) -> list[_Lot]:
        """Leave out numbers that bronze has, or that came before in this very segment."""
        if not lots:
            return lots
        seqs = np.concatenate([lot.seqs for lot in lots])
        drop = overlap(seqs, self._task.covered)
        if not (np.diff(np.sort(seqs)) == 0).any() and not drop.any():
            return lots
        order = np.argsort(seqs, kind="stable")
        drop[order[1:]] |= seqs[order[1:]] == seqs[order[:-1]]
        self._result.duplicates = int(drop.sum())
        kept: list[_Lot] = []
        start = 0
        for lot in lots:
            keep = np.flatnonzero(~drop[start : start + len(lot.seqs)])
            start += len(lot.seqs)
            if len(keep):
                columns = _kept(lot.columns, keep)
                kept.append(_Lot(lot.kind, columns, columns[1], columns[2]))
        return kept

    def _write_events(self, lots: list[_Lot]) -> None:
        result = self._result
        for lot in lots:
            result.kinds[lot.kind] = len(lot.seqs)
            result.events += len(lot.seqs)
            self._note_words(lot)
        days = {day for lot in lots for day in _days(lot.ats)}
        for day in sorted(days):
            tables: list[pa.Table] = []
            low, high, last_at = _SEQ_MAX, 0, 0
            for lot in lots:
                table = _arrow(lot)
                here = lot.ats // _DAY_US == day
                seqs, ats = lot.seqs, lot.ats
                if not here.all():
                    if not here.any():
                        continue
                    table, seqs, ats = table.filter(pa.array(here)), seqs[here], ats[here]
                if len(seqs) > 1 and (np.diff(seqs) < 0).any():
                    table = table.take(pa.array(np.argsort(seqs, kind="stable")))
                tables.append(table)
                low, high = min(low, int(seqs.min())), max(high, int(seqs.max()))
                last_at = max(last_at, int(ats.max()))
            name = f"{(_EPOCH + timedelta(days=day)).isoformat()}"
            path = self._target("event", f"date={name}/{low:020d}-{secrets.token_hex(4)}.parquet")
            _write(Path(self._task.warehouse) / path, tables)
            rows = sum(table.num_rows for table in tables)
            size = (Path(self._task.warehouse) / path).stat().st_size
            result.files.append(DataFile(path, self._project, name, rows, size, low, high, last_at))

    def _note_words(self, lot: _Lot) -> None:
        fields = _fields(lot.kind)
        for kind, field in WORDS:
            if kind == lot.kind:
                words = sorted(set(lot.columns[fields.index(field)]))[: self._task.words_max]
                self._result.words[f"{kind}.{field}"] = words

    def _write_quarantine(self) -> None:
        rows = self._rejected
        self._result.quarantined = max(self._result.quarantined, len(rows))
        columns = [
            pa.array([self._task.segment] * len(rows)),
            pa.array([row.line for row in rows], pa.int64()),
            pa.array([row.reason for row in rows]),
            pa.array([row.detail for row in rows]),
            pa.array([row.text.decode("utf-8", "replace") for row in rows]),
        ]
        path = self._target("quarantine", f"{secrets.token_hex(8)}.parquet")
        target = Path(self._task.warehouse) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        names = [column.name for column in QUARANTINE if column.name != "project"]
        pq.write_table(pa.table(columns, names=names), target, compression="zstd")
        today = datetime.now(UTC)
        stamp = int(today.timestamp() * 1_000_000)
        self._result.quarantine.append(
            DataFile(path, self._project, None, len(rows), target.stat().st_size, 0, 0, stamp)
        )

    def _target(self, table: str, rest: str) -> str:
        return f"{table}/batch={self._task.batch}/project={self._project}/{rest}"


def _kept(columns: list[Any], keep: npt.NDArray[np.intp]) -> list[Any]:
    """Return some rows of columns."""
    places = keep.tolist()
    return [
        column[keep] if isinstance(column, np.ndarray) else tuple(column[place] for place in places)
        for column in columns
    ]


def _days(ats: Seqs) -> list[int]:
    """Return the days that times are in, counted from the epoch."""
    low, high = int(ats.min()) // _DAY_US, int(ats.max()) // _DAY_US
    return [low] if low == high else np.unique(ats // _DAY_US).tolist()


def _kind_of(line: bytes) -> bytes:
    """Return the kind of a line, wherever it says so; empty where it does not."""
    try:
        kind = msgspec.json.decode(line).get("kind")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return b""
    return kind.encode() if isinstance(kind, str) else b""


def _bounded(name: str, hint: Any) -> Any:
    """Return the type that a field must have in a segment: its own, with what its name says of its range."""
    if hint is bytes:
        return str
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Literal[tuple(str(item.value) for item in hint)]
    if hint is int:
        if name in ("requested", "priority", "level", "old_level", "new_level"):
            return Annotated[int, msgspec.Meta(ge=0, le=4)]
        if name in ("message", "offer"):
            return Annotated[int, msgspec.Meta(ge=1, le=_SEQ_MAX)]
        if name.endswith("_at"):
            return Annotated[int, msgspec.Meta(ge=0, le=_AT_MAX)]
        return Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    return hint


#: Kinds that name a message by its number.
_ABOUT_MESSAGES = frozenset(kind for kind in KINDS.values() if get_type_hints(kind).get("message") is int)
_DECODERS: dict[tuple[str, str], msgspec.json.Decoder[Any]] = {}
_ABSENT = msgspec.Raw(b"null")


def _fields(kind: str) -> list[str]:
    """Return what a decoded record of a kind has, in order."""
    return ["project", "seq", "at", *(field for field in columns_of(KINDS[kind]) if field != "at")]


def _numeric(kind: str) -> list[int]:
    """Return which fields of a decoded record are numbers in every event: they become arrays at once."""
    hints = get_type_hints(KINDS[kind])
    return [place for place, field in enumerate(_fields(kind)) if field == "seq" or hints.get(field) is int]


def _decoder(kind: str, project: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a kind's records in a project; a field that came later has its default."""
    found = _DECODERS.get((kind, project))
    if found is not None:
        return found
    hints = get_type_hints(KINDS[kind])
    fields: list[Any] = [
        ("project", Literal[project]),
        ("seq", Annotated[int, msgspec.Meta(ge=1, le=_SEQ_MAX)]),
        ("at", Annotated[int, msgspec.Meta(ge=0, le=_AT_MAX)]),
    ]
    for info in msgspec.structs.fields(KINDS[kind]):
        if info.name == "at":
            continue
        if info.name in DOCUMENTS:
            fields.append((info.name, msgspec.Raw, _ABSENT))
        elif info.required:
            fields.append((info.name, _bounded(info.name, hints[info.name])))
        else:
            fields.append((info.name, _bounded(info.name, hints[info.name]), info.default))
    record = msgspec.defstruct(kind, fields, gc=False, kw_only=True, tag_field="kind", tag=kind)
    found = _DECODERS[kind, project] = msgspec.json.Decoder(record)
    return found


def _file_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema(
        [(column.name, _ARROW[column.type]) for column in columns if column.name not in ("project", "date")]
    )


_SCHEMA = _file_schema(EVENT)
_DICTIONARY = [name for name in _SCHEMA.names if _SCHEMA.field(name).type == pa.string() and name != "message_id"]
_STATISTICS = ["seq", "at", "kind", "message"]


def _arrow(lot: _Lot) -> pa.Table:
    """Return a lot as the columns of `event`."""
    columns = columns_of(KINDS[lot.kind])
    said = {columns.get(field, field): values for field, values in zip(_fields(lot.kind), lot.columns, strict=True)}
    arrays = []
    for field in _SCHEMA:
        values = said.get(field.name)
        if field.name == "kind":
            array = pa.repeat(pa.scalar(lot.kind), len(lot.seqs))
        elif values is None:
            array = pa.nulls(len(lot.seqs), field.type)
        elif field.name in DOCUMENTS:
            known = any(value is not _ABSENT for value in values)
            array = pa.array([_text(value) for value in values] if known else [None] * len(values), field.type)
        else:
            array = pa.array(values, field.type)
        arrays.append(array)
    return pa.table(arrays, schema=_SCHEMA)


def _text(value: msgspec.Raw) -> str | None:
    text = bytes(value).decode()
    return None if text == "null" else text


def _write(path: Path, tables: list[pa.Table]) -> None:
    """Write lots in the order of their kinds, frequent ones as row groups of their own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"compression": "zstd", "use_dictionary": _DICTIONARY, "write_statistics": _STATISTICS}
    few = [table for table in tables if table.num_rows < _GROUP_MIN]
    with pq.ParquetWriter(path, _SCHEMA, **options) as writer:
        for table in tables:
            if table.num_rows >= _GROUP_MIN:
                writer.write_table(table)
        if few:
            writer.write_table(pa.concat_tables(few))

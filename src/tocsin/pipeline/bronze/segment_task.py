"""The task that ingests one segment: read, decode, quarantine, leave out duplicates, write bronze files.

Theory of operation. A segment is decompressed and its lines are grouped by kind. Each kind is decoded by its own
decoder (`event_decoder`), which checks types and ranges. Lines that fail are quarantined one by one. The other lines
become columns (`event_columns`), and the columns a Parquet file (`event_files`).

The task reads and writes files itself instead of passing rows through Spark, which was measured to take several times
as long; and Spark's JSON reader does not report which line is wrong and why. A file counts only once the driver has
committed it, so a task that dies or runs twice leaves only files that vacuum deletes.
"""

import gc
import hashlib
import io
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from tocsin import zstd
from tocsin.pipeline.bronze.event_columns import EventColumns
from tocsin.pipeline.bronze.event_decoder import (
    KINDS_ABOUT_MESSAGES,
    decoder_of,
    fields_of,
    integer_fields,
    kind_of,
)
from tocsin.pipeline.bronze.event_files import BronzeTarget, RejectedLine
from tocsin.pipeline.bronze.landing_zone import segment_name
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.intervals import Interval, intervals_of, overlap
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.tables.schemas import KINDS

__all__ = ["ANY_KIND", "Assignment", "Ingested", "ingest_segment"]

#: Offset of the kind in a line as the hub writes it.
_PREFIX = len('{"kind":"')
#: Unknown kinds that are recorded of one segment, and their length; more are recorded as `ANY_KIND`.
_UNKNOWN_MAX = 32
_KIND_CHARS = 80
#: Stands for all other kinds.
ANY_KIND = "*"


class Assignment(msgspec.Struct, frozen=True):
    """One segment for a task."""

    #: Path or URL of the landing zone.
    landing: str
    #: Path of the segment, below the landing zone.
    segment: str
    #: Path or URL of the warehouse.
    warehouse: str
    #: Sequence numbers that are already in bronze.
    covered: list[Interval]
    #: Bytes of a rejected line that are kept.
    text_max: int
    #: Rejected lines that are kept; the others are only counted.
    lines_max: int
    #: Digest of a file that need not be read again; empty if there is none.
    checksum: str = ""


class Ingested(msgspec.Struct):
    """Result of ingesting one segment."""

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
    #: Files of `event` that were written.
    files: list[DataFile] = []
    #: Files of `quarantine` that were written.
    quarantine: list[DataFile] = []
    #: Number of events by kind.
    kinds: dict[str, int] = {}
    #: Latest `at` of its events, microseconds since the epoch.
    last_at: int = 0
    #: Digest of the file.
    checksum: str = ""
    #: Kinds of its lines that are not known.
    unknown_kinds: list[str] = []
    #: Whether the file has the digest of the assignment, and was not read.
    same: bool = False


def ingest_segment(task: Assignment) -> Ingested:
    """Read one segment and write its bronze files."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return _SegmentTask(task).ingest()
    finally:
        if enabled:
            gc.enable()


class _SegmentTask:
    """The state of one segment's ingestion."""

    def __init__(self, task: Assignment) -> None:
        self._task = task
        named = segment_name(task.segment)
        self._project = named[0] if named else "unknown"
        self._target = BronzeTarget(task.warehouse, self._project)
        self._rejected: list[RejectedLine] = []
        self._content = Storage(task.landing).read(task.segment)
        digest = hashlib.blake2b(self._content, digest_size=16).hexdigest()
        self._result = Ingested(task.segment, self._project, len(self._content), checksum=digest)

    def ingest(self) -> Ingested:
        result = self._result
        if result.checksum == self._task.checksum:
            result.same = True
            return result
        kinds = self._without_duplicates(self._decoded(self._lines()))
        if kinds:
            result.seqs = intervals_of(np.concatenate([kind.seqs for kind in kinds]))
            for kind in kinds:
                result.kinds[kind.kind] = len(kind.seqs)
                result.events += len(kind.seqs)
                result.last_at = max(result.last_at, int(kind.ats.max()))
            result.files += self._target.write_events(kinds)
        if self._rejected:
            result.quarantined = max(result.quarantined, len(self._rejected))
            result.quarantine.append(self._target.write_quarantine(self._task.segment, self._rejected))
        return result

    def _lines(self) -> list[bytes]:
        try:
            with zstd.open(io.BytesIO(self._content), "rb") as reader:
                lines = reader.read().splitlines()
        except (zstd.ZstdError, EOFError, MemoryError) as error:
            self._rejected.append(RejectedLine(0, "unreadable", f"not zstd, or truncated: {error}", b""))
            return []
        self._result.lines = len(lines)
        return lines

    def _decoded(self, lines: list[bytes]) -> list[EventColumns]:
        """Group lines by kind and decode each kind."""
        groups: dict[bytes, list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            groups[line[_PREFIX : line.find(b'"', _PREFIX)]].append(number)
        for name in [name for name in groups if name.decode("utf-8", "replace") not in KINDS]:
            for number in groups.pop(name):
                groups[kind_of(lines[number])].append(number)
        kinds: list[EventColumns] = []
        for name, numbers in sorted(groups.items()):
            kind = name.decode("utf-8", "replace")
            if kind in KINDS:
                decoded = self._decode_kind(kind, lines, numbers)
                if decoded is not None:
                    kinds.append(decoded)
                continue
            reason = "unknown_kind" if kind else "malformed"
            if kind and len(self._result.unknown_kinds) < _UNKNOWN_MAX:
                full = len(self._result.unknown_kinds) == _UNKNOWN_MAX - 1
                self._result.unknown_kinds.append(ANY_KIND if full else kind[:_KIND_CHARS])
            detail = f"there is no event {kind!r:.80}" if kind else "not a JSON object with a kind"
            for number in numbers:
                self._reject(lines, number, reason, detail)
        return kinds

    def _decode_kind(self, kind: str, lines: list[bytes], numbers: list[int]) -> EventColumns | None:
        decode, fields = decoder_of(kind, self._project).decode, fields_of(kind)
        try:
            rows = [astuple(decode(lines[number])) for number in numbers]
        except (msgspec.DecodeError, UnicodeDecodeError):
            rows, numbers = self._decode_each(decode, lines, numbers)
        if not rows:
            return None
        columns: list[Any] = list(zip(*rows, strict=True))
        for place in integer_fields(kind):
            columns[place] = np.fromiter(columns[place], dtype=np.int64, count=len(numbers))
        decoded = EventColumns(kind, columns)
        if kind in KINDS_ABOUT_MESSAGES:
            messages, seqs = columns[fields.index("message")], decoded.seqs
            early = np.flatnonzero(messages >= seqs)
            for place in early.tolist():
                detail = f"about message {messages[place]}, which was not accepted yet at {seqs[place]}"
                self._reject(lines, numbers[place], "impossible", detail)
            if len(early):
                keep = np.flatnonzero(messages < seqs)
                return decoded.rows(keep) if len(keep) else None
        return decoded

    def _decode_each(
        self, decode: Callable[[bytes], Any], lines: list[bytes], numbers: list[int]
    ) -> tuple[list[tuple[Any, ...]], list[int]]:
        """Decode lines one by one and reject those that fail; return the records and their line numbers."""
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
            self._rejected.append(RejectedLine(number + 1, reason, detail, text))

    def _without_duplicates(self, kinds: list[EventColumns]) -> list[EventColumns]:
        """Drop events whose number is in bronze already, or earlier in this segment."""
        if not kinds:
            return kinds
        seqs = np.concatenate([kind.seqs for kind in kinds])
        drop = overlap(seqs, self._task.covered)
        if not (np.diff(np.sort(seqs)) == 0).any() and not drop.any():
            return kinds
        order = np.argsort(seqs, kind="stable")
        drop[order[1:]] |= seqs[order[1:]] == seqs[order[:-1]]
        self._result.duplicates = int(drop.sum())
        kept: list[EventColumns] = []
        start = 0
        for kind in kinds:
            keep = np.flatnonzero(~drop[start : start + len(kind.seqs)])
            start += len(kind.seqs)
            if len(keep):
                kept.append(kind.rows(keep))
        return kept

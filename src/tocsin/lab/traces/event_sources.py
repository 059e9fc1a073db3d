"""Sources of recorded events: the pipeline's tables, segments, a journal in SQLite, or a PostgreSQL database.

Events are read one project at a time and in order, so that a task on any worker with access to the files or the
database can read them. A hub may serve the project meanwhile: nothing is locked or changed.
"""

import hashlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import apsw
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin import zstd
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.journal.base import Group, checked
from tocsin.journal.log import events_of
from tocsin.pipeline.bronze.landing_zone import segment_name
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import load_settings
from tocsin.pipeline.tables.schemas import DOCUMENTS, EVENT, KINDS, columns_of

__all__ = ["Source", "find_source", "is_database", "read_events"]

_GROUPS = "SELECT first_seq, last_seq, at, epoch, events, checksum FROM journal ORDER BY first_seq"
_JOURNAL = "journal.db"
#: Placeholder for a payload that a file does not contain.
_NO_CONTENT = b"{}"


class Source(msgspec.Struct, frozen=True):
    """The place of one project's events."""

    project: str
    #: `tables`, `segments`, `journal` or `database`.
    kind: str
    #: Path of the warehouse, the landing zone or the journal's file, or address of the database.
    root: str
    #: Paths of the files below it, in order.
    files: tuple[str, ...]
    #: Fingerprint of the events.
    version: str
    #: First event that is there, where that is known without reading.
    first_seq: int = 1
    #: Last event to read; 0 for all.
    last_seq: int = 0


def find_source(events: Path | str, projects: list[str] | None = None) -> list[Source]:
    """Return the projects of a data directory, a warehouse, a landing zone, a journal or a database."""
    if is_database(str(events)):
        found, place = _database(str(events)), "the database"
    else:
        # An address of another kind may contain a password.
        folder, place = (
            Path(events),
            str(events) if "://" not in str(events) else f"{str(events).partition(':')[0]}://…",
        )
        found = _tables(folder) or _segments(folder) or _journal(folder)
    if not found:
        raise refusal(
            "E_LAB_002",
            f"there are no events in {place}: give a data directory, a warehouse, a folder of segments, a journal or"
            " a database (postgresql://…)",
        )
    known = {source.project: source for source in found}
    if missing := [name for name in projects or [] if name not in known]:
        raise refusal("E_LAB_002", f"there is no project {missing[0]}; known projects: {', '.join(sorted(known))}")
    chosen = [known[name] for name in projects or sorted(known)]
    for source in chosen:
        if source.first_seq > 1:
            raise refusal(
                "E_LAB_002",
                f"{source.project}: events 1 to {source.first_seq - 1} were pruned from the database, so later events"
                " cannot be replayed; replay the project's segments or tables",
            )
    return chosen


def is_database(events: str) -> bool:
    """Return whether an address is that of a PostgreSQL database."""
    return events.startswith(("postgresql://", "postgres://"))


def _tables(events: Path) -> list[Source]:
    root = events / "warehouse" if (events / "warehouse" / "release").is_dir() else events
    if not (root / "release").is_dir():
        return []
    state = Warehouse(root, load_settings(), {"event": EVENT}).current()
    by_project: dict[str, list[DataFile]] = {}
    for file in state.files("event"):
        by_project.setdefault(file.project, []).append(file)
    return [
        Source(
            project,
            "tables",
            str(root.absolute()),
            tuple(file.path for file in sorted(files, key=lambda file: (file.date or "", file.low))),
            _version(f"{file.path} {file.rows}" for file in files),
        )
        for project, files in by_project.items()
    ]


def _segments(events: Path) -> list[Source]:
    root = events / "segments" if (events / "segments").is_dir() else events
    by_project: dict[str, list[tuple[int, Path]]] = {}
    for path in root.glob("project=*/date=*/*.ndjson.zst"):
        named = segment_name(path.relative_to(root).as_posix())
        if named is not None:
            by_project.setdefault(named[0], []).append((named[2], path))
    return [
        Source(
            project,
            "segments",
            str(root.absolute()),
            tuple(path.relative_to(root).as_posix() for _, path in sorted(paths)),
            _version(f"{path.relative_to(root)} {path.stat().st_size}" for _, path in paths),
        )
        for project, paths in by_project.items()
    ]


def _journal(events: Path) -> list[Source]:
    path = events / _JOURNAL if events.is_dir() else events
    if path.name != _JOURNAL or not path.is_file():
        return []
    stamp = path.stat()
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    version = _version([f"{stamp.st_size} {stamp.st_mtime_ns} {size}"])
    return [Source(path.absolute().parent.name, "journal", str(path.absolute()), (), version)]


def _database(address: str) -> list[Source]:
    from tocsin.journal.postgres.reading import read_only, stored_projects

    with read_only(address, "lab") as ask:
        return [
            Source(
                one.project,
                "database",
                address,
                (),
                _version([f"{one.last_seq} {one.checksum}"]),
                one.pruned_seq + 1,
                one.last_seq,
            )
            for one in stored_projects(ask)
        ]


def _version(parts: Any) -> str:
    return hashlib.blake2b("\n".join(sorted(parts)).encode(), digest_size=12).hexdigest()


def read_events(source: Source) -> Iterator[tuple[int, Event]]:
    """Yield a project's events, numbered and in order; a gap is an error, because the state after it is unknown."""
    expected = 1
    for seq, event in _READERS[source.kind](source):
        if seq < expected:
            continue
        if seq != expected:
            raise refusal(
                "E_LAB_002",
                f"{source.project}: events {expected} to {seq - 1} are missing, so later events cannot be replayed",
            )
        expected += 1
        yield seq, event


def _from_segments(source: Source) -> Iterator[tuple[int, Event]]:
    decode = msgspec.json.Decoder().decode
    for name in source.files:
        with zstd.open(Path(source.root, name)) as file:
            lines = file.read().splitlines()
        for line in lines:
            record = decode(line)
            kind = KINDS.get(record.pop("kind", ""))
            if kind is not None:
                yield record["seq"], _event_of(kind, record)


def _event_of(kind: type, record: dict[str, Any]) -> Event:
    for name in DOCUMENTS:
        if name in _names(kind):
            content = record.get(name)
            record[name] = _NO_CONTENT if content is None else msgspec.json.encode(content)
    del record["project"], record["seq"]
    fields = {name: convert(record[name]) for name, convert in _converters(kind) if name in record}
    event: Event = kind(**fields)
    return event


def _from_tables(source: Source) -> Iterator[tuple[int, Event]]:
    """Read the `event` table day by day; the files of one day may overlap in their sequence numbers."""
    days: dict[str, list[str]] = {}
    for name in source.files:
        days.setdefault(next(part for part in name.split("/") if part.startswith("date=")), []).append(name)
    late: list[tuple[int, Event]] = []
    for day in sorted(days):
        numbered = late
        for name in days[day]:
            numbered += _bronze(Path(source.root, name))
        numbered.sort(key=lambda item: item[0])
        late = []
        yield from numbered


def _bronze(path: Path) -> list[tuple[int, Event]]:
    table = pq.read_table(path, partitioning=None)
    found: list[tuple[int, Event]] = []
    for kind in pa.compute.unique(table["kind"]).to_pylist():
        rows = table.filter(pa.compute.equal(table["kind"], kind))
        columns = columns_of(KINDS[kind])
        converters = dict(_converters(KINDS[kind]))
        names = [name for name in _names(KINDS[kind]) if columns[name] in table.column_names]
        values = [_column(rows[columns[name]].to_pylist(), name, converters[name]) for name in names]
        make = KINDS[kind]
        seqs = rows["seq"].to_pylist()
        if names == _names(make):
            found += zip(seqs, map(make, *values), strict=True)
        else:
            found += [
                (seq, make(**dict(zip(names, row, strict=True)))) for seq, *row in zip(seqs, *values, strict=True)
            ]
    return found


def _names(kind: type) -> list[str]:
    return [name for name, _ in _converters(kind)]


def _column(values: list[Any], name: str, convert: Callable[[Any], Any]) -> list[Any]:
    if name in DOCUMENTS:
        return [_NO_CONTENT if value is None else value.encode() for value in values]
    return [convert(value) for value in values]


def _as_is(value: Any) -> Any:
    return value


_CONVERTERS: dict[type, tuple[tuple[str, Callable[[Any], Any]], ...]] = {}


def _converters(kind: type) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return, for each field of a kind, the function that converts a stored value."""
    if kind not in _CONVERTERS:
        _CONVERTERS[kind] = tuple((name, _converter(name, hint)) for name, hint in get_type_hints(kind).items())
    return _CONVERTERS[kind]


def _converter(name: str, hint: Any) -> Callable[[Any], Any]:
    if name in DOCUMENTS or hint in (str, bool):
        return _as_is
    if hint is int:
        return int
    if hint is float:
        return float
    if hint is bytes:
        return b64decode
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if getattr(hint, "__origin__", None) is tuple:
        return tuple
    (inner,) = (part for part in get_args(hint) if part is not type(None))
    convert = _converter(name, inner)
    return lambda value: None if value is None else convert(value)


def _from_journal(source: Source) -> Iterator[tuple[int, Event]]:
    connection = apsw.Connection(source.root, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        groups = (Group(*row) for row in connection.execute(_GROUPS))
        for group in checked(groups, 0, source.root):
            yield from enumerate(events_of(group), group.first_seq)
    finally:
        connection.close()


def _from_database(source: Source) -> Iterator[tuple[int, Event]]:
    """Read up to the event that was the last when the source was found; later ones belong to another version of it."""
    from tocsin.journal.postgres.reading import read_only, stored_groups

    with read_only(source.root, f"lab {source.project}") as ask:
        for group in stored_groups(ask, source.project, 0):
            if group.first_seq > source.last_seq:
                return
            yield from enumerate(events_of(group), group.first_seq)


_READERS: dict[str, Callable[[Source], Iterator[tuple[int, Event]]]] = {
    "tables": _from_tables,
    "segments": _from_segments,
    "journal": _from_journal,
    "database": _from_database,
}

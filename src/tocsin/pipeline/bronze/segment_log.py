"""The table `segment`: which segments are in bronze, and what was found in them."""

from collections.abc import Iterable, Mapping

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.pipeline.bronze.landing_zone import segment_name
from tocsin.pipeline.bronze.segment_task import ANY_KIND
from tocsin.pipeline.lake.column_types import arrow_type
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.intervals import Interval
from tocsin.pipeline.lake.parquet_writer import new_path, write_arrow
from tocsin.pipeline.lake.storage import StoredFile
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.tables.schemas import KINDS, SEGMENT

__all__ = ["SegmentMark", "changed_at", "ingested_segments", "new_segments", "replace_marks", "rereadable"]

_STORED = tuple(column for column in SEGMENT if column.name not in ("project", "date"))


class SegmentMark(msgspec.Struct, frozen=True):
    """Record of a segment that is in bronze."""

    segment: str
    bytes: int
    events: int
    quarantined: int
    duplicates: int
    #: Last sequence number in it; 0 if it has no events.
    last_seq: int
    #: Sequence numbers of its events in bronze: first and last of each range, in turn.
    seqs: list[int] = []
    #: Digest of the file; empty if it was not recorded.
    checksum: str = ""
    #: Time of the file's last change, microseconds since the epoch; null if not known.
    changed_at: int | None = None
    #: Kinds of its lines that were not known.
    unknown_kinds: list[str] = []

    @property
    def intervals(self) -> list[Interval]:
        """Return the sequence numbers of its events as intervals."""
        return list(zip(self.seqs[::2], self.seqs[1::2], strict=True))

    def fits(self, file: StoredFile) -> bool:
        """Return whether a file looks as it did when it was read; its content is not compared."""
        seen = changed_at(file)
        return self.bytes == file.bytes and (None in (seen, self.changed_at) or seen == self.changed_at)


def changed_at(file: StoredFile) -> int | None:
    """Return the time of a file's last change, microseconds since the epoch."""
    return None if file.changed_at is None else round(file.changed_at * 1_000_000)


def new_segments(landed: Mapping[str, StoredFile], known: Mapping[str, SegmentMark]) -> dict[str, StoredFile]:
    """Return the segments that are not in bronze, or that look different from what was read."""
    return {name: file for name, file in landed.items() if name not in known or not known[name].fits(file)}


def rereadable(marks: Mapping[str, SegmentMark], *, rejected: bool = False) -> list[str]:
    """Return the segments with lines of kinds that are known by now; with `rejected`, all that had rejected lines."""
    return [
        name
        for name, mark in marks.items()
        if (rejected and mark.quarantined) or any(kind in KINDS or kind == ANY_KIND for kind in mark.unknown_kinds)
    ]


def ingested_segments(
    warehouse: Warehouse, state: Snapshot, names: Iterable[str] | None = None
) -> dict[str, SegmentMark]:
    """Return the segments that are in bronze, or those among some names; only the days of those names are read."""
    days = None if names is None else {_day_of(name) for name in names}
    marks: dict[str, SegmentMark] = {}
    for file in state.files("segment"):
        if days is None or (file.project, file.date) in days:
            marks |= {mark.segment: mark for mark in _read_marks(warehouse, file)}
    return marks


def _read_marks(warehouse: Warehouse, file: DataFile) -> list[SegmentMark]:
    with warehouse.storage.open(file.path) as content:
        rows = pq.read_table(content).to_pylist()
    names = [column.name for column in _STORED]
    return [
        msgspec.convert({name: row[name] for name in names if row.get(name) is not None}, SegmentMark) for row in rows
    ]


def replace_marks(warehouse: Warehouse, state: Snapshot, marks: Mapping[str, SegmentMark]) -> list[DataFile]:
    """Return the files of the table with some marks, which replace those of the same segments."""
    parts: dict[tuple[str, str], list[SegmentMark]] = {}
    for name, mark in marks.items():
        parts.setdefault(_day_of(name), []).append(mark)
    files = []
    for file in state.files("segment"):
        part = parts.get((file.project, str(file.date)))
        before = [] if part is None else _read_marks(warehouse, file)
        if part is None or not any(mark.segment in marks for mark in before):
            files.append(file)
        else:
            part += [mark for mark in before if mark.segment not in marks]
    for (project, date), some in sorted(parts.items()):
        path = new_path("segment", {"project": project, "date": date})
        content = pa.table({c.name: pa.array([getattr(m, c.name) for m in some], arrow_type(c.type)) for c in _STORED})
        files.append(DataFile(path, project, date, len(some), write_arrow(warehouse.storage, path, content)))
    return files


def _day_of(name: str) -> tuple[str, str]:
    """Return the project and day of a segment."""
    named = segment_name(name)
    return ("unknown", "1970-01-01") if named is None else named[:2]

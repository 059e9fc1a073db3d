"""Parquet files of the bronze tables `event` and `quarantine`.

Events are written per day and sorted by kind and sequence number. A file has the columns of its kinds only. A frequent
kind has a row group of its own, so that a reader of some kinds skips the others.
"""

from collections.abc import Sequence
from datetime import date, timedelta

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.pipeline.bronze.event_columns import EVENT_SCHEMA, EventColumns, Integers, schema_of
from tocsin.pipeline.bronze.event_decoder import SEQ_MAX
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.parquet_writer import new_path, write_arrow
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.tables.schemas import QUARANTINE

__all__ = ["BronzeTarget", "RejectedLine", "write_row_groups"]

_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
#: A kind with fewer rows shares a row group with others like it.
_GROUP_MIN = 5000
_DICTIONARY = [
    name for name in EVENT_SCHEMA.names if EVENT_SCHEMA.field(name).type == pa.string() and name != "message_id"
]
_STATISTICS = ["seq", "at", "kind", "message"]


class RejectedLine(msgspec.Struct):
    """A line of a segment that is not a valid event."""

    #: Line number, from 1; 0 for the whole file.
    line: int
    #: Reason code of the `quarantine` table.
    reason: str
    #: The reason as a sentence.
    detail: str
    #: The line, cut to the configured length.
    text: bytes


class BronzeTarget(msgspec.Struct, frozen=True):
    """Where the files of one segment are written."""

    #: Path or URL of the warehouse.
    warehouse: str
    project: str

    def write_events(self, kinds: Sequence[EventColumns]) -> list[DataFile]:
        """Write events, one file per day."""
        return [self._write_day(day, kinds) for day in sorted({day for kind in kinds for day in _days(kind.ats)})]

    def _write_day(self, day: int, kinds: Sequence[EventColumns]) -> DataFile:
        tables: list[pa.Table] = []
        low, high = SEQ_MAX, 0
        of_day = [(kind, kind.ats // _DAY_US == day) for kind in kinds]
        schema = schema_of(kind.kind for kind, here in of_day if here.any())
        for kind, here in of_day:
            if not here.any():
                continue
            table = kind.to_arrow(schema)
            seqs = kind.seqs
            if not here.all():
                table, seqs = table.filter(pa.array(here)), seqs[here]
            if len(seqs) > 1 and (np.diff(seqs) < 0).any():
                table = table.take(pa.array(np.argsort(seqs, kind="stable")))
            tables.append(table)
            low, high = min(low, int(seqs.min())), max(high, int(seqs.max()))
        name = (_EPOCH + timedelta(days=day)).isoformat()
        path = new_path("event", {"project": self.project, "date": name})
        storage = Storage(self.warehouse)
        write_row_groups(storage, path, schema, tables)
        rows = sum(table.num_rows for table in tables)
        return DataFile(path, self.project, name, rows, storage.size(path) or 0, low, high)

    def write_quarantine(self, segment: str, rejected: Sequence[RejectedLine]) -> DataFile:
        """Write the rejected lines of a segment as a file of `quarantine`."""
        columns = [
            pa.array([segment] * len(rejected)),
            pa.array([row.line for row in rejected], pa.int64()),
            pa.array([row.reason for row in rejected]),
            pa.array([row.detail for row in rejected]),
            pa.array([row.text.decode("utf-8", "replace") for row in rejected]),
        ]
        path = new_path("quarantine", {"project": self.project})
        names = [column.name for column in QUARANTINE if column.name != "project"]
        size = write_arrow(Storage(self.warehouse), path, pa.table(columns, names=names))
        return DataFile(path, self.project, None, len(rejected), size)


def _days(ats: Integers) -> list[int]:
    """Return the days of some times, counted from the epoch."""
    low, high = int(ats.min()) // _DAY_US, int(ats.max()) // _DAY_US
    return [low] if low == high else np.unique(ats // _DAY_US).tolist()


def write_row_groups(storage: Storage, path: str, schema: pa.Schema, tables: list[pa.Table]) -> None:
    """Write one table per kind: each frequent kind as a row group, the others together as the last one."""
    texts = [name for name in _DICTIONARY if name in schema.names]
    ranges = [name for name in _STATISTICS if name in schema.names]
    options = {"compression": "zstd", "use_dictionary": texts, "write_statistics": ranges}
    few = [table for table in tables if table.num_rows < _GROUP_MIN]
    with storage.create(path) as out, pq.ParquetWriter(out, schema, **options) as writer:
        for table in tables:
            if table.num_rows >= _GROUP_MIN:
                writer.write_table(table)
        if few:
            writer.write_table(pa.concat_tables(few))

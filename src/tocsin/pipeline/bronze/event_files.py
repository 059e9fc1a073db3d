"""Parquet files of the bronze tables `event` and `quarantine`.

Events are written per day and sorted by kind and sequence number. A file has the columns of its kinds only. A frequent
kind has a row group of its own, so that a reader of some kinds skips the others.
"""

import secrets
import time
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.pipeline.bronze.event_columns import EVENT_SCHEMA, EventColumns, Integers, schema_of
from tocsin.pipeline.bronze.event_decoder import SEQ_MAX
from tocsin.pipeline.lake.manifest import DataFile
from tocsin.pipeline.tables.schemas import QUARANTINE

__all__ = ["BronzeTarget", "RejectedLine"]

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

    #: Path of the warehouse.
    warehouse: str
    #: Batch that the files become part of.
    batch: str
    project: str

    def write_events(self, kinds: Sequence[EventColumns]) -> list[DataFile]:
        """Write events, one file per day."""
        return [self._write_day(day, kinds) for day in sorted({day for kind in kinds for day in _days(kind.ats)})]

    def _write_day(self, day: int, kinds: Sequence[EventColumns]) -> DataFile:
        tables: list[pa.Table] = []
        low, high, last_at = SEQ_MAX, 0, 0
        of_day = [(kind, kind.ats // _DAY_US == day) for kind in kinds]
        schema = schema_of(kind.kind for kind, here in of_day if here.any())
        for kind, here in of_day:
            if not here.any():
                continue
            table = kind.to_arrow(schema)
            seqs, ats = kind.seqs, kind.ats
            if not here.all():
                table, seqs, ats = table.filter(pa.array(here)), seqs[here], ats[here]
            if len(seqs) > 1 and (np.diff(seqs) < 0).any():
                table = table.take(pa.array(np.argsort(seqs, kind="stable")))
            tables.append(table)
            low, high = min(low, int(seqs.min())), max(high, int(seqs.max()))
            last_at = max(last_at, int(ats.max()))
        name = (_EPOCH + timedelta(days=day)).isoformat()
        path = self._path("event", f"date={name}/{low:020d}-{secrets.token_hex(4)}.parquet")
        target = Path(self.warehouse) / path
        _write_row_groups(target, schema, tables)
        rows = sum(table.num_rows for table in tables)
        return DataFile(path, self.project, name, rows, target.stat().st_size, low, high, last_at)

    def write_quarantine(self, segment: str, rejected: Sequence[RejectedLine]) -> DataFile:
        """Write the rejected lines of a segment as a file of `quarantine`."""
        columns = [
            pa.array([segment] * len(rejected)),
            pa.array([row.line for row in rejected], pa.int64()),
            pa.array([row.reason for row in rejected]),
            pa.array([row.detail for row in rejected]),
            pa.array([row.text.decode("utf-8", "replace") for row in rejected]),
        ]
        path = self._path("quarantine", f"{secrets.token_hex(8)}.parquet")
        target = Path(self.warehouse) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        names = [column.name for column in QUARANTINE if column.name != "project"]
        pq.write_table(pa.table(columns, names=names), target, compression="zstd")
        now_us = time.time_ns() // 1000
        return DataFile(path, self.project, None, len(rejected), target.stat().st_size, 0, 0, now_us)

    def _path(self, table: str, rest: str) -> str:
        return f"{table}/batch={self.batch}/project={self.project}/{rest}"


def _days(ats: Integers) -> list[int]:
    """Return the days of some times, counted from the epoch."""
    low, high = int(ats.min()) // _DAY_US, int(ats.max()) // _DAY_US
    return [low] if low == high else np.unique(ats // _DAY_US).tolist()


def _write_row_groups(path: Path, schema: pa.Schema, tables: list[pa.Table]) -> None:
    """Write one table per kind: each frequent kind as a row group, the others together as the last one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [name for name in _DICTIONARY if name in schema.names]
    ranges = [name for name in _STATISTICS if name in schema.names]
    options = {"compression": "zstd", "use_dictionary": texts, "write_statistics": ranges}
    few = [table for table in tables if table.num_rows < _GROUP_MIN]
    with pq.ParquetWriter(path, schema, **options) as writer:
        for table in tables:
            if table.num_rows >= _GROUP_MIN:
                writer.write_table(table)
        if few:
            writer.write_table(pa.concat_tables(few))

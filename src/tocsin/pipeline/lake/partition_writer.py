"""Rows in, files of a table out: what one task does with the rows of a table that it is given.

Theory of operation. Spark's own writer goes through Hadoop's local file system. Without Hadoop's native library, which
the pip package lacks, that starts a process (`chmod`) for every file and folder that it makes, which small tables feel
most. It also sorts rows by part before it writes them. A task that gets its rows as Arrow needs neither: it lays them
aside by part, and writes a row group whenever enough are together.

A file's name is nobody else's, and it counts only once the driver has put what the task reports into a manifest; so a
task that dies or runs twice leaves nothing but garbage. Nothing here knows what a table means.
"""

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tocsin.core.errors import InvariantViolation
from tocsin.pipeline.lake.manifest import DataFile

__all__ = ["Target", "write_rows"]


class Target(msgspec.Struct, frozen=True):
    """Where rows go."""

    #: The warehouse.
    warehouse: str
    #: The table's folder in it.
    table: str
    #: Which batch the files become a part of.
    batch: str
    #: Columns that make the parts; a file has the others.
    partitions: tuple[str, ...]
    #: The column by which files can be told apart, and the one that says the last time that they speak of.
    ranges: tuple[str, str] | None
    #: Rows of one file.
    file_rows_max: int
    #: Bytes of rows that wait for more of their part, in one task.
    waiting_bytes_max: int


def write_rows(target: Target, batches: Iterable[pa.RecordBatch]) -> Iterator[DataFile]:
    """Write rows part by part, and say which files that made."""
    parts: dict[tuple[Any, ...], _Part] = {}
    for batch in batches:
        for key, rows in _by_part(pa.Table.from_batches([batch]), target.partitions):
            part = parts.get(key)
            if part is None:
                part = parts[key] = _Part(target, dict(zip(target.partitions, key, strict=True)))
            part.add(rows)
        while sum(part.waiting_bytes for part in parts.values()) > target.waiting_bytes_max:
            max(parts.values(), key=lambda part: part.waiting_bytes).flush()
    for part in parts.values():
        yield from part.close()


def _by_part(table: pa.Table, names: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Tell the rows of each part apart."""
    if not table.num_rows:
        return
    keys = table.select(names).group_by(list(names)).aggregate([]).to_pylist()
    rest = table.drop_columns(list(names))
    for key in keys:
        values = tuple(key[name] for name in names)
        if None in values:
            raise InvariantViolation(f"a row that belongs to no part: {key}")
        if len(keys) == 1:
            yield values, rest
            continue
        here = None
        for name in names:
            equal = pc.equal(table[name], pa.scalar(key[name], table[name].type))
            here = equal if here is None else pc.and_(here, equal)
        yield values, rest.filter(here)


class _Part:
    """The rows of one part: some wait, some are in a file that is open, some in files that are done."""

    def __init__(self, target: Target, values: dict[str, Any]) -> None:
        self._target = target
        self._values = values
        self._waiting: list[pa.Table] = []
        self.waiting_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._path = ""
        self._rows = 0
        self._bounds: list[tuple[int, int, int]] = []
        self._done: list[DataFile] = []

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self.waiting_bytes += rows.nbytes

    def flush(self) -> None:
        """Write what waits as a row group."""
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        self._waiting, self.waiting_bytes = [], 0
        for start in range(0, rows.num_rows, self._target.file_rows_max):
            self._append(rows.slice(start, self._target.file_rows_max))

    def _append(self, rows: pa.Table) -> None:
        if self._writer is not None and self._rows + rows.num_rows > self._target.file_rows_max:
            self._finish()
        if self._writer is None:
            folder = "/".join(f"{name}={_escaped(value)}" for name, value in self._values.items())
            name = f"{secrets.token_hex(8)}.parquet"
            self._path = f"{self._target.table}/batch={self._target.batch}/{folder}/{name}"
            place = Path(self._target.warehouse) / self._path
            place.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(place, rows.schema, compression="zstd", store_schema=False)
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows += rows.num_rows
        if self._target.ranges is not None:
            ordered, timed = (rows[name] for name in self._target.ranges)
            self._bounds.append((*_bounds(ordered), _bounds(timed)[1]))

    def _finish(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        place = Path(self._target.warehouse) / self._path
        lows, highs, times = zip(*self._bounds, strict=True) if self._bounds else ((0,), (0,), (0,))
        date = self._values.get("date")
        self._done.append(
            DataFile(
                self._path,
                str(self._values["project"]),
                None if date is None else str(date),
                self._rows,
                place.stat().st_size,
                min(lows),
                max(highs),
                max(times),
                bool(self._values.get("hot", False)),
            )
        )
        self._rows, self._bounds = 0, []

    def close(self) -> list[DataFile]:
        """Write what is left, and say which files there are."""
        self.flush()
        self._finish()
        return self._done


def _bounds(column: pa.ChunkedArray) -> tuple[int, int]:
    """Return the least and greatest value; stamps as microseconds, 0 where there is none."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found = pc.min_max(column).as_py()
    return found["min"] or 0, found["max"] or 0


def _escaped(value: object) -> str:
    """Return a value as a folder's name says it, as Spark reads it back."""
    return str(value).lower() if isinstance(value, bool) else quote(str(value), safe="")

"""The task that writes rows of a table as Parquet files, one folder per partition.

Theory of operation. Spark's own writer uses Hadoop's local file system. Without Hadoop's native library, which the pip
package lacks, that starts a process (`chmod`) for every file and folder, which is slow for small tables. It also sorts
rows by partition before it writes them. A task that gets its rows as Arrow needs neither: it buffers them by partition
and writes a row group whenever enough are buffered.

File names are unique, and a file becomes part of the table only when the driver commits a manifest that names it; so a
task that dies or runs twice leaves only garbage files.
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
    """Where and how rows are written."""

    #: Path of the warehouse.
    warehouse: str
    #: Name of the table, which is its folder.
    table: str
    #: Batch that the files belong to.
    batch: str
    #: Partition columns; they are in the folder's name, not in the file.
    partitions: tuple[str, ...]
    #: Columns whose range is recorded per file: the number, and the time whose maximum is recorded.
    ranges: tuple[str, str] | None
    #: Largest number of rows in one file.
    file_rows_max: int
    #: Bytes of rows that one task buffers.
    waiting_bytes_max: int


def write_rows(target: Target, batches: Iterable[pa.RecordBatch]) -> Iterator[DataFile]:
    """Write rows by partition and return the files."""
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
    """Split rows by partition."""
    if not table.num_rows:
        return
    keys = table.select(names).group_by(list(names)).aggregate([]).to_pylist()
    rest = table.drop_columns(list(names))
    for key in keys:
        values = tuple(key[name] for name in names)
        if None in values:
            raise InvariantViolation(f"a partition column is null: {key}")
        if len(keys) == 1:
            yield values, rest
            continue
        here = None
        for name in names:
            equal = pc.equal(table[name], pa.scalar(key[name], table[name].type))
            here = equal if here is None else pc.and_(here, equal)
        yield values, rest.filter(here)


class _Part:
    """The rows of one partition: buffered, in the open file, or in finished files."""

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
        """Write the buffered rows as a row group."""
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
        """Write the remaining rows and return all files."""
        self.flush()
        self._finish()
        return self._done


def _bounds(column: pa.ChunkedArray) -> tuple[int, int]:
    """Return the smallest and largest value; times in microseconds, 0 if there is none."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found = pc.min_max(column).as_py()
    return found["min"] or 0, found["max"] or 0


def _escaped(value: object) -> str:
    """Return a partition value as Spark expects it in a folder's name."""
    return str(value).lower() if isinstance(value, bool) else quote(str(value), safe="")

"""Writer of the extract: gold tables and advice as plain files beside the tables, for readers without Spark.

Its format and reader are in `tocsin.extract`. Tables are read with Arrow, file by file as the manifest names them; only
advice needs a Spark job. The extract has a lock of its own, so that a run or a stream can go on meanwhile, and an index
is never replaced by an older one.
"""

import fcntl
import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tocsin import zstd
from tocsin.core.errors import TocsinError
from tocsin.extract import FOLDER, INDEX, Column, Index, Part, Piece, Reach, Table, read_index
from tocsin.pipeline.advice import Advice, advise_on
from tocsin.pipeline.catalogue import DERIVED
from tocsin.pipeline.lake.intervals import gaps_of
from tocsin.pipeline.lake.manifest import DataFile, Manifest
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["Extractor", "write_extract"]

Adviser = Callable[[str], Sequence[Advice]]
_GOLD = tuple(table for table in DERIVED if table.layer == "gold")


def write_extract(warehouse: Warehouse, adviser: Adviser) -> Index:
    """Update the extract to the newest state of the tables; `adviser` returns a project's advice."""
    folder = warehouse.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        manifest, before = warehouse.current(), _known(folder)
        if before is not None and before.version >= manifest.version:
            return before
        index = Index(
            version=manifest.version,
            written_at=manifest.written_at,
            tables={table.name: _extracted(warehouse, folder, manifest, table.name) for table in _GOLD},
            reach={
                name: Reach(mark.covered[-1][1] if mark.covered else 0, mark.last_at, len(gaps_of(mark.covered)))
                for name, mark in sorted(manifest.projects.items())
            },
            advice={
                name: [msgspec.convert(msgspec.to_builtins(piece), Piece) for piece in adviser(name)]
                for name in sorted(manifest.projects)
            },
        )
        _write(folder / INDEX, msgspec.json.encode(index))
        _tidy(folder, index, before)
        return index


class Extractor:
    """Updates the extract of a warehouse while a stream runs, at most every `extract_every_s` seconds."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._read = functools.partial(warehouse.table, spark)
        self._due = 0.0

    def write(self) -> Index:
        """Update the extract now."""
        index = write_extract(self._warehouse, self._advice)
        self._due = time.monotonic() + self._warehouse.settings.extract_every_s
        return index

    def _advice(self, project: str) -> Sequence[Advice]:
        """Return a project's advice; none if its policy cannot be read, which `tocsin pipeline advise` reports."""
        try:
            return advise_on(self._read, project)
        except TocsinError:
            return []

    def keep_up(self) -> None:
        """Update the extract if it is due."""
        if time.monotonic() >= self._due:
            self.write()


def _known(folder: Path) -> Index | None:
    """Return the existing index; None if there is none or it has another format."""
    try:
        return read_index(folder)
    except msgspec.DecodeError:
        return None


def _extracted(warehouse: Warehouse, folder: Path, manifest: Manifest, name: str) -> Table:
    (table,) = (known for known in _GOLD if known.name == name)
    columns = [Column(column.name, column.type, column.about) for column in table.columns]
    by_part: dict[tuple[str, str | None], list[DataFile]] = {}
    for file in manifest.files(name):
        by_part.setdefault((file.project, file.date), []).append(file)
    parts = [
        _part(warehouse, folder, name, columns, project, date, files)
        for (project, date), files in sorted(by_part.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]
    return Table(table.about, columns, parts)


def _part(
    warehouse: Warehouse,
    folder: Path,
    name: str,
    columns: list[Column],
    project: str,
    date: str | None,
    files: list[DataFile],
) -> Part:
    """Write one part, unless its file exists already."""
    most = warehouse.settings.extract_rows_max
    made_of = repr((name, [(c.name, c.type) for c in columns], sorted(file.path for file in files), most))
    file = f"{name}-{hashlib.blake2b(made_of.encode(), digest_size=12).hexdigest()}.ndjson.zst"
    rows = sum(item.rows for item in files)
    if not (folder / file).exists():
        partition = {"project": project, "date": date}
        found = [row for item in files for row in _rows(warehouse.root / item.path, columns, partition)]
        ordered = [place for place, column in enumerate(columns) if "<" not in column.type]
        found.sort(
            key=lambda row: [(row[place] is None, "" if row[place] is None else row[place]) for place in ordered]
        )
        encode = msgspec.json.Encoder().encode
        text = b"".join(encode(row) + b"\n" for row in found[:most])
        _write(folder / file, zstd.compress(text))
    return Part(project, date, file, rows, min(rows, most))


def _rows(path: Path, columns: list[Column], partition: dict[str, str | None]) -> Iterator[list[Any]]:
    """Read the rows of one data file; partition columns are not in the file and are passed as `partition`."""
    table = pq.ParquetFile(path).read()
    there = set(table.column_names)
    held = [
        table.column(column.name).to_pylist() if column.name in there else [partition.get(column.name)] * table.num_rows
        for column in columns
    ]
    for values in zip(*held, strict=True):
        yield [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """Return a value for JSON; times as ISO 8601 in UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat()
    return value.isoformat() if hasattr(value, "isoformat") else value


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def _tidy(folder: Path, index: Index, before: Index | None) -> None:
    """Delete files that neither this index nor the previous one names; readers may still use the previous one."""
    named = {part.file for known in (index, before) if known for table in known.tables.values() for part in table.parts}
    for path in folder.glob("*.ndjson.zst"):
        if path.name not in named:
            path.unlink(missing_ok=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

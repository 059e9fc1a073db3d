"""The warehouse: reading and writing tables as Parquet files below one folder.

A table's files are below `<warehouse>/<table>/batch=…/project=…/date=…/`, so that any tool can open them; but only the
files that the newest manifest names are part of the table. This module handles files and manifests; the tables and
their columns are given by the caller (`tocsin.pipeline.catalogue`).
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tocsin.pipeline.errors import WarehouseBusy
from tocsin.pipeline.lake.manifest import DataFile, Manifest, Manifests
from tocsin.pipeline.lake.partition_writer import Target, write_rows
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import Column, struct_of

__all__ = ["Warehouse"]

#: Columns whose range is recorded per file: the number, and the time whose maximum is recorded.
_RANGES = {"event": ("seq", "at"), "message_life": ("message", "last_at")}
_LOCK_POLL_S = 0.2
_FILE = msgspec.json.Decoder(DataFile)


class Warehouse:
    """All tables, below one folder that every worker can read and write."""

    def __init__(self, root: Path, settings: Settings, columns: Mapping[str, tuple[Column, ...]]) -> None:
        self.root = root.absolute()
        self.settings = settings
        #: The columns of each table, by its name.
        self.columns = columns
        self.manifests = Manifests(self.root, settings.manifests_max)

    def current(self) -> Manifest:
        """Return the newest manifest."""
        return self.manifests.current()

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Read a table in its newest state."""
        return self.read(spark, name, self.current().files(name))

    def read(
        self, spark: SparkSession, name: str, files: Iterable[DataFile], columns: tuple[Column, ...] | None = None
    ) -> DataFrame:
        """Read files of a table; `columns` replaces the table's known columns."""
        schema = struct_of(columns or self.columns[name])
        paths = [str(self.root / file.path) for file in files]
        if not paths:
            return spark.createDataFrame([], schema)
        reader = spark.read.schema(schema).option("basePath", str(self.root / name))
        return reader.parquet(*paths).select(*schema.names)

    def write(self, frame: DataFrame, name: str, batch: str, *partitions: str) -> list[DataFile]:
        """Write rows as files of a table and return the files, which a manifest must name to become part of it."""
        settings = self.settings
        target = Target(
            str(self.root), name, batch, partitions, _RANGES.get(name), settings.file_rows_max,
            settings.waiting_bytes_max,
        )  # fmt: skip

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for file in write_rows(target, batches):
                yield pa.RecordBatch.from_arrays([pa.array([msgspec.json.encode(file)], pa.binary())], ["file"])

        rows = frame.mapInArrow(work, "file binary").collect()
        return sorted((_FILE.decode(bytes(row.file)) for row in rows), key=lambda file: file.path)

    def new_batch(self, version: int) -> str:
        """Return a unique name for a batch."""
        return f"{version:012d}-{secrets.token_hex(4)}"

    @contextmanager
    def writing(self, *, wait_s: float | None = None) -> Iterator[None]:
        """Hold the writer lock. The operating system releases it when the process ends, so it needs no cleanup."""
        self.root.mkdir(parents=True, exist_ok=True)
        deadline = None if wait_s is None else time.monotonic() + wait_s
        with (self.root / "_writer.lock").open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if deadline is not None and time.monotonic() >= deadline:
                        raise WarehouseBusy(f"another run or stream is writing to {self.root}") from None
                    time.sleep(_LOCK_POLL_S)
            yield

    def every_file(self) -> Iterator[Path]:
        """Return all data files on disk, whether a manifest names them or not."""
        for name in self.columns:
            for folder, _, names in os.walk(self.root / name):
                yield from (Path(folder) / file for file in names)

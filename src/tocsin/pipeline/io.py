"""The warehouse: the one place where tables are read and written. It knows files and manifests, and no table's meaning.

A table lies below `<warehouse>/<table>/batch=…/project=…/date=…/`, so that any tool can look at it; but only the files
that the newest manifest names count.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tocsin.pipeline.catalogue import DERIVED, SOURCES
from tocsin.pipeline.errors import WarehouseBusy
from tocsin.pipeline.manifest import DataFile, Manifest, Manifests
from tocsin.pipeline.schemas import Column, struct_of
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.writing import Target, write_rows

__all__ = ["COLUMNS", "Warehouse"]

#: The columns of every table.
COLUMNS: dict[str, tuple[Column, ...]] = {
    **{source.name: source.columns for source in SOURCES},
    **{table.name: table.columns for table in DERIVED},
}
#: By which column files of a table can be told apart, and which says the last time that they speak of.
_RANGES = {"event": ("seq", "at"), "message_life": ("message", "last_at")}
_LOCK_POLL_S = 0.2
_FILE = msgspec.json.Decoder(DataFile)


class Warehouse:
    """All tables, below one folder that every worker sees."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.root = root.absolute()
        self.settings = settings
        self.manifests = Manifests(self.root, settings.manifests_max)

    def current(self) -> Manifest:
        """Return the newest state."""
        return self.manifests.current()

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Read a table as the newest manifest has it."""
        return self.read(spark, name, self.current().files(name))

    def read(
        self, spark: SparkSession, name: str, files: Iterable[DataFile], columns: tuple[Column, ...] | None = None
    ) -> DataFrame:
        """Read files of a table, with exactly its columns."""
        schema = struct_of(columns or COLUMNS[name])
        paths = [str(self.root / file.path) for file in files]
        if not paths:
            return spark.createDataFrame([], schema)
        reader = spark.read.schema(schema).option("basePath", str(self.root / name))
        return reader.parquet(*paths).select(*schema.names)

    def write(self, frame: DataFrame, name: str, batch: str, *partitions: str) -> list[DataFile]:
        """Write rows as files of a table, and return them; they count once a manifest names them."""
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
        """Return a name for a batch that nobody else uses."""
        return f"{version:012d}-{secrets.token_hex(4)}"

    @contextmanager
    def writing(self, *, wait_s: float | None = None) -> Iterator[None]:
        """Be the only writer. A kill lets go of it; so it needs no cleaning up."""
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
        """Return all data files that are there, whether they count or not."""
        for name in COLUMNS:
            for folder, _, names in os.walk(self.root / name):
                yield from (Path(folder) / file for file in names)

"""The warehouse: the files of all tables below one folder, and the lock of their writer.

A table's files are below `<warehouse>/<table>/batch=…/project=…/date=…/`, so that any tool can open them; but only the
files that the newest manifest names are part of the table. This module handles files and manifests; the tables and
their columns are given by the caller (`tocsin.pipeline.catalogue`).
"""

import fcntl
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tocsin.pipeline.errors import WarehouseBusy
from tocsin.pipeline.lake.manifest import DataFile, Manifest, Manifests
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import Column

__all__ = ["Warehouse"]

_LOCK_POLL_S = 0.2


class Warehouse:
    """All tables, below one folder that every worker can read and write."""

    def __init__(self, root: Path, settings: Settings, columns: Mapping[str, tuple[Column, ...]]) -> None:
        self.root = root.absolute()
        self.settings = settings
        #: The columns of each table, by its name.
        self.columns = columns
        self.manifests = Manifests(self.root, settings.manifests_max)
        #: Folder for temporary files of readers.
        self.scratch = Path(tempfile.gettempdir())

    def current(self) -> Manifest:
        """Return the newest manifest."""
        return self.manifests.current()

    def first_policy(self, occurrences: list[DataFile]) -> str | None:
        """Return the first day in files of `occurrence` on which a policy was adopted."""
        days = [
            str(file.date)
            for file in occurrences
            if pc.any(pc.equal(pq.ParquetFile(self.root / file.path).read(["kind"])["kind"], "PolicyAdopted")).as_py()
        ]
        return min(days, default=None)

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

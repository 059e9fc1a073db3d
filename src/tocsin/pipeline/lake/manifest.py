"""Manifests: the data files of every table and the segments that they were made from, one JSON file per version.

Theory of operation. Data files are written first, under unique names, and are not part of any table yet. Then a
manifest that names them is written under the next version's name, by a hard link that fails if that version exists.
This is the commit, of all tables at once. The newest manifest is the current state; a data file that it does not name
is garbage, left by a batch that was killed or replaced by a later one. So a kill at any moment leaves the state before
or the state after, a reader sees one consistent state, and of two writers of one version the second gets an error.
"""

import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.pipeline.errors import CommitLost, WarehouseDamaged
from tocsin.pipeline.lake.intervals import Interval

__all__ = [
    "Batch",
    "DataFile",
    "Manifest",
    "Manifests",
    "ProjectMark",
    "SegmentMark",
    "chunks_of",
]


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """One Parquet file of a table."""

    #: Path below the warehouse.
    path: str
    project: str
    #: The day, if the table is partitioned by day.
    date: str | None
    rows: int
    bytes: int
    #: Lowest and highest `seq` of `event`, or `message` of `message_life`; 0 in other tables.
    low: int
    high: int
    #: Latest time in its rows, microseconds since the epoch; 0 in tables without such a column.
    last_at: int
    #: Whether it holds messages that are open or may change, which later batches have to merge.
    hot: bool = False


def chunks_of(files: list[DataFile], rows_max: int) -> list[list[DataFile]]:
    """Split files, in the order of their numbers, into chunks of a number of rows; a file is never split."""
    chunks: list[list[DataFile]] = []
    filled = 0
    for file in sorted(files, key=lambda file: (file.low, file.path)):
        if not chunks or filled + file.rows > rows_max:
            chunks.append([])
            filled = 0
        chunks[-1].append(file)
        filled += file.rows
    return chunks


class SegmentMark(msgspec.Struct, frozen=True, array_like=True):
    """Record of a segment that is in bronze."""

    bytes: int
    events: int
    quarantined: int
    duplicates: int
    #: Last sequence number in it; 0 if it has no events.
    last_seq: int


class ProjectMark(msgspec.Struct):
    """Progress of one project."""

    #: Sequence numbers that are in bronze, or that retention has dropped from it.
    covered: list[Interval] = []
    #: Events that retention has dropped.
    retired: int = 0
    #: Messages that retention has dropped from `message_life`.
    retired_messages: int = 0
    #: Latest `at` in bronze, microseconds since the epoch.
    last_at: int = 0


class Batch(msgspec.Struct):
    """Summary of one commit, for `status`."""

    version: int
    #: `ingest`, `refresh`, `compact` or `retention`.
    what: str
    #: Time of the commit, microseconds since the epoch.
    at: int
    #: Duration of the batch.
    seconds: float
    segments: int = 0
    events: int = 0
    #: Rows written, by table.
    rows: dict[str, int] = {}
    #: CPU time of the tasks, by table, seconds.
    cpu_s: dict[str, float] = {}


class Manifest(msgspec.Struct):
    """One state of the warehouse."""

    #: Number of commits; 0 for an empty warehouse.
    version: Annotated[int, Meta(ge=0)] = 0
    #: Time of the commit, microseconds since the epoch.
    written_at: int = 0
    #: Data files by table.
    tables: dict[str, list[DataFile]] = {}
    #: Ingested segments by path below the landing zone.
    segments: dict[str, SegmentMark] = {}
    #: Files of `event` that the other tables do not include yet, with the kinds in them.
    pending: dict[str, list[str]] = {}
    projects: dict[str, ProjectMark] = {}
    #: Digest of the definition that each derived table was made with.
    made_as: dict[str, str] = {}
    #: The most recent commits, oldest first.
    batches: list[Batch] = []

    def files(self, table: str) -> list[DataFile]:
        """Return the files of a table."""
        return self.tables.get(table, [])

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(file.rows for file in self.files(table))


class Manifests:
    """The manifests of a warehouse, in its folder `_manifests`."""

    def __init__(self, warehouse: Path, keep: int) -> None:
        self._warehouse = warehouse
        self._folder = warehouse / "_manifests"
        self._keep = keep

    def versions(self) -> list[int]:
        """Return the versions that exist, oldest first."""
        if not self._folder.is_dir():
            return []
        return sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdigit())

    def current(self) -> Manifest:
        """Read the newest manifest; an empty one if there is none."""
        versions = self.versions()
        return self.read(versions[-1]) if versions else Manifest()

    def read(self, version: int) -> Manifest:
        """Read the manifest of a version."""
        path = self._path(version)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Manifest)
        except msgspec.DecodeError as error:
            raise WarehouseDamaged(f"{path.name} is not a valid manifest: {error}") from None

    def commit(self, manifest: Manifest, written: Iterable[DataFile]) -> None:
        """Commit a manifest; `written` are the data files that it is the first to name."""
        folders = set()
        for file in written:
            path = self._warehouse / file.path
            _sync(path)
            folders.add(path.parent)
        for folder in folders:
            _sync(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        manifest.written_at = time.time_ns() // 1000
        temporary = self._folder / f".writing-{secrets.token_hex(6)}"
        with temporary.open("wb") as out:
            out.write(msgspec.json.encode(manifest))
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(temporary, self._path(manifest.version))
        except FileExistsError:
            raise CommitLost(f"version {manifest.version} was committed by another writer") from None
        finally:
            temporary.unlink(missing_ok=True)
        _sync(self._folder)
        for version in self.versions()[: -self._keep]:
            self._path(version).unlink(missing_ok=True)

    def _path(self, version: int) -> Path:
        return self._folder / f"{version:012d}.json"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

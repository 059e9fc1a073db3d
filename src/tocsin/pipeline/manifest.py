"""The manifest: which files the tables consist of, and what they were made from. One file is one state of it all.

Theory of operation. Data files are written first, under names that nobody else uses, and count for nothing. Then a
manifest that names them is written whole under the next version's name, by a link that refuses to replace another: that
is the commit, of all tables at once. The newest manifest is the truth; a file that it does not name is garbage, left by
a batch that was killed or replaced by a later one. So a kill at any moment leaves the state before or the state after,
a reader sees one consistent state, and whoever loses the race for a version finds out before anything counts.
"""

import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from tocsin.pipeline.errors import CommitLost, WarehouseDamaged

__all__ = [
    "Batch",
    "DataFile",
    "Interval",
    "Manifest",
    "Manifests",
    "ProjectMark",
    "SegmentMark",
    "count_of",
    "gaps_of",
    "intervals_of",
    "joined",
    "overlap",
]

#: From and to, both included.
Interval = tuple[int, int]


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """One Parquet file of a table."""

    #: Below the warehouse.
    path: str
    project: str
    #: The day, where the table is kept by day.
    date: str | None
    rows: int
    bytes: int
    #: Lowest and highest `seq` of `event`, or `message` of `message_life`; 0 in other tables.
    low: int
    high: int
    #: The last time that a row speaks of, microseconds since the epoch; 0 where the table does not say.
    last_at: int
    #: Whether it holds messages that are still open, which later batches will ask for.
    hot: bool = False


class SegmentMark(msgspec.Struct, frozen=True, array_like=True):
    """A segment that is in bronze."""

    bytes: int
    events: int
    quarantined: int
    duplicates: int
    #: The last sequence number in it; 0 where it has none.
    last_seq: int


class ProjectMark(msgspec.Struct):
    """What is known of a project."""

    #: Sequence numbers that are in bronze, or were until retention dropped them.
    covered: list[Interval] = []
    #: Events that retention has dropped.
    retired: int = 0
    #: Messages that retention has dropped from `message_life`.
    retired_messages: int = 0
    #: The latest `at` in bronze.
    last_at: int = 0


class Batch(msgspec.Struct):
    """What one commit did, for `status`."""

    version: int
    #: `ingest`, `refresh`, `compact` or `retention`.
    what: str
    at: int
    seconds: float
    segments: int = 0
    events: int = 0
    #: Rows written, by table.
    rows: dict[str, int] = {}


class Manifest(msgspec.Struct):
    """One state of the warehouse."""

    #: Counts the commits, from 0 for the empty warehouse.
    version: Annotated[int, Meta(ge=0)] = 0
    written_at: int = 0
    tables: dict[str, list[DataFile]] = {}
    segments: dict[str, SegmentMark] = {}
    #: Files of `event` that the other tables do not know of yet, with the kinds in them.
    pending: dict[str, list[str]] = {}
    projects: dict[str, ProjectMark] = {}
    #: Words that occur, by `kind.field`.
    words: dict[str, list[str]] = {}
    #: The columns that each derived table was made with, as a digest.
    made_as: dict[str, str] = {}
    batches: list[Batch] = []

    def files(self, table: str) -> list[DataFile]:
        """Return the files of a table."""
        return self.tables.get(table, [])

    def rows(self, table: str) -> int:
        """Return how many rows a table has."""
        return sum(file.rows for file in self.files(table))


class Manifests:
    """The manifests of a warehouse, in its folder `_manifests`."""

    def __init__(self, warehouse: Path, keep: int) -> None:
        self._warehouse = warehouse
        self._folder = warehouse / "_manifests"
        self._keep = keep

    def versions(self) -> list[int]:
        """Return the versions that are there, oldest first."""
        if not self._folder.is_dir():
            return []
        return sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdigit())

    def current(self) -> Manifest:
        """Read the newest."""
        versions = self.versions()
        return self.read(versions[-1]) if versions else Manifest()

    def read(self, version: int) -> Manifest:
        """Read one."""
        path = self._path(version)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Manifest)
        except msgspec.DecodeError as error:
            raise WarehouseDamaged(f"{path.name}: {error}") from None

    def commit(self, manifest: Manifest, written: Iterable[DataFile]) -> None:
        """Make a manifest the next version, with the files that it is the first to name."""
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
            raise CommitLost(f"version {manifest.version} was committed by somebody else") from None
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


def intervals_of(seqs: npt.NDArray[np.int64]) -> list[Interval]:
    """Return numbers as intervals, in order."""
    if not len(seqs):
        return []
    ordered = np.sort(seqs)
    ordered = ordered[np.concatenate(([True], np.diff(ordered) > 0))]
    breaks = np.flatnonzero(np.diff(ordered) > 1)
    lows = ordered[np.concatenate(([0], breaks + 1))]
    highs = ordered[np.concatenate((breaks, [len(ordered) - 1]))]
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals in order, those that touch as one."""
    result: list[Interval] = []
    for low, high in sorted(intervals):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def overlap(seqs: npt.NDArray[np.int64], intervals: list[Interval]) -> npt.NDArray[np.bool_]:
    """Tell which numbers lie in intervals, which are in order and apart."""
    if not intervals:
        return np.zeros(len(seqs), dtype=np.bool_)
    lows = np.array([low for low, _ in intervals])
    highs = np.array([high for _, high in intervals])
    place = np.searchsorted(lows, seqs, side="right") - 1
    return np.asarray((place >= 0) & (seqs <= highs[np.maximum(place, 0)]), dtype=np.bool_)


def count_of(intervals: Iterable[Interval]) -> int:
    """Count the numbers in intervals."""
    return sum(high - low + 1 for low, high in intervals)


def gaps_of(intervals: list[Interval]) -> list[Interval]:
    """Return what is missing from 1 to the end."""
    gaps: list[Interval] = []
    expected = 1
    for low, high in intervals:
        if low > expected:
            gaps.append((expected, low - 1))
        expected = high + 1
    return gaps

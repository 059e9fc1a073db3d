"""A disk that fails under SQLite in the ways in which disks fail, and a store of the simulator on it.

Every write goes to a real file. The disk remembers what a write replaced until the file is synced, so that a power cut
can take back any part of what was not synced: nothing, some writes, all of them, half of one. Beyond that it can be
full, drop writes that it had acknowledged as synced, and flip bits.
"""

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from tests.ids import SeededIds
from tests.simulation.journals import JournalStore
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.state import IdSource
from tocsin.journal.errors import CommitFailed, JournalDamaged, JournalError, JournalUnavailable, TablesDamaged
from tocsin.journal.recovery import rebuild, reopen
from tocsin.journal.sqlite import SqliteJournal

__all__ = ["FAULTS", "Disk", "DiskStore", "PowerCut"]

_names = (f"simulated{number}" for number in itertools.count())

#: What can happen at a point at which something is written.
FAULTS = ("full", "cut", "torn", "dropped")


class PowerCut(apsw.IOError):
    """The machine has no power: nothing is written any more."""


class _Write:
    """One write that has not been synced: where, and what it replaced."""

    def __init__(self, file: str, offset: int, old: bytes, new: bytes, size: int) -> None:
        self.file, self.offset, self.old, self.new, self.size = file, offset, old, new, size

    def take_back(self, torn: int = 0) -> None:
        """Restore what was there, from the `torn`-th byte on; the file shrinks again if the write had extended it."""
        with Path(self.file).open("r+b") as file:
            file.seek(self.offset + torn)
            file.write(self.old[torn:])
            if not torn and self.offset + len(self.new) > self.size:
                file.truncate(max(self.size, self.offset + len(self.old)))


class Disk(apsw.VFS):
    """Passes everything on to the default file system, and fails at a chosen point."""

    def __init__(self) -> None:
        self.name = next(_names)
        #: Called at each write and sync with what is done and the file; it may raise.
        self.point: Callable[[str, str], None] | None = None
        self.dead = False
        self.unsynced: list[_Write] = []
        #: Writes that were synced by the last sync.
        self.synced: list[_Write] = []
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if self.dead:
            raise PowerCut("no power")
        self.unsynced = [write for write in self.unsynced if write.file != filename]
        self.synced = [write for write in self.synced if write.file != filename]
        super().xDelete(filename, syncdir)


class _DiskFile(apsw.VFSFile):
    """One file of it."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._file = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        #: SQLite's temporary files have no name, and are gone after a power cut.
        self._named = name is not None
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        disk = self._disk
        if disk.dead:
            raise PowerCut("no power")
        size = self.xFileSize()
        old = self.xRead(min(len(data), size - offset), offset) if offset < size else b""
        write = _Write(self._file, offset, old, bytes(data), size)
        if disk.point is not None:
            disk.point("write", self._file)
        if self._named:
            disk.unsynced.append(write)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        disk = self._disk
        if disk.dead:
            raise PowerCut("no power")
        if disk.point is not None:
            disk.point("sync", self._file)
        super().xSync(flags)
        disk.synced = [write for write in disk.unsynced if write.file == self._file]
        disk.unsynced = [write for write in disk.unsynced if write.file != self._file]

    def xTruncate(self, size: int) -> None:  # noqa: N802
        if self._disk.dead:
            raise PowerCut("no power")
        super().xTruncate(size)


class DiskStore:
    """A project on such a disk; what is stored is checked against the faults that were injected."""

    def __init__(self, path: Path, rng: random.Random, rate: float = 0.0) -> None:
        self._path, self._rng = path, rng
        #: Share of the commits and projections that a fault strikes.
        self.rate = rate
        #: Whether the last work that was to be struck had a point to strike at.
        self.reached = False
        self.disk = Disk()
        #: The store that is open at present.
        self.inner = self._open()
        #: Whether a fault has been injected that may cost confirmed commits: it must be noticed.
        self._lying = False
        #: How often each fault struck, and how often each outcome followed.
        self.struck: dict[str, int] = {}
        self.outcomes: dict[str, int] = {}

    def exchange(self, ids: IdSource | None = None) -> Exchange:
        """Open the project anew, as after a crash, and repair what can be repaired."""
        self._settle()
        try:
            self.inner = self._open()
            return self._exchange(ids)
        except JournalError as error:
            if not self._lying:
                raise
            # Damage that cannot be repaired was noticed: whoever looks after the project restores a backup.
            self._count(type(error).__name__)
            self.stop()
            shutil.rmtree(self._path)
            shutil.copytree(self._saved, self._path)
            self.inner = self._open()
            return self._exchange(ids)
        finally:
            self._lying = False

    def append(self, exchange: Exchange, events: list[Event]) -> None:
        """Commit one group, with a fault now and then."""
        self._at_risk(lambda: self.inner.append(exchange, events), 4)

    def project(self, exchange: Exchange) -> None:
        """Write the tables, with a fault now and then."""
        self._at_risk(lambda: self.inner.project(exchange), 60)

    def strike(self, fault: str, after: int, work: Callable[[], None]) -> None:
        """Do some work with a fault at its `after`-th write or sync; `reached` tells whether it has that many."""
        left = after

        def point(what: str, file: str) -> None:
            nonlocal left
            if left:
                left -= 1
                return
            self.disk.point = None
            self._count(fault, self.struck)
            if fault == "full":
                raise apsw.FullError("database or disk is full")
            if fault == "dropped":
                self._save()
                self._lying = True
            self.disk.dead = True
            self._cut = fault
            raise PowerCut("power cut")

        self._cut = ""
        self.disk.point = point
        try:
            work()
        finally:
            self.reached, self.disk.point = self.disk.point is None, None
        if not self.reached and fault == "dropped" and self.disk.synced:
            # Everything was confirmed, and then the disk turns out not to have kept what it synced last.
            self._save()
            self.disk.dead, self._cut, self._lying = True, fault, True
            self._count(fault, self.struck)
            raise CommitFailed("io_error", "power cut")

    def flip(self) -> None:
        """Flip one bit of one file, after the hub was closed in order, or killed and left its write-ahead logs."""
        self.disk.dead = self._rng.random() < 0.5
        self.stop()
        self.disk.dead = False
        self.disk.unsynced, self.disk.synced = [], []
        self._save()
        self._lying = True
        names = ("journal.db", "journal.db-wal", "tables.db", "tables.db-wal")
        file = self._rng.choice(
            [file for name in names if (file := self._path / name).exists() and file.stat().st_size]
        )
        data = bytearray(file.read_bytes())
        data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
        file.write_bytes(data)
        self._count(f"flipped {file.name}", self.struck)

    def stop(self) -> None:
        """Close the project; `exchange` opens it again."""
        self.inner.close()

    def close(self) -> None:
        """Let go of everything."""
        self.stop()
        self.disk.unregister()

    def _at_risk(self, work: Callable[[], None], points: int) -> None:
        if self._rng.random() < self.rate:
            self.strike(self._rng.choice(FAULTS), self._rng.randrange(points), work)
        else:
            work()

    def _settle(self) -> None:
        """Let the power cut happen that a fault has announced."""
        self.stop()
        lost = list(self.disk.unsynced)
        if self.disk.dead:
            if self._cut == "dropped":
                lost = self.disk.synced + lost
            elif self._cut == "cut" and self._rng.random() < 0.5:
                lost = [write for write in lost if self._rng.random() < 0.5]
            for number, write in enumerate(reversed(lost)):
                torn = self._cut == "torn" and not number and len(write.old) == len(write.new)
                write.take_back(self._rng.randrange(1, len(write.new)) if torn and len(write.new) > 1 else 0)
        self.disk.dead, self._cut = False, ""
        self.disk.unsynced, self.disk.synced = [], []

    def _exchange(self, ids: IdSource | None) -> Exchange:
        store, source = self.inner, SeededIds(0) if ids is None else ids
        try:
            return reopen(store.journal, store.tables, source)
        except TablesDamaged as error:
            self._count("rebuilt")
            store.tables.close()
            store.journal.reset_tables(error)
            store.tables = store.journal.tables()
            return rebuild(store.journal, store.tables, source)

    def _open(self) -> JournalStore:
        # No thread makes checkpoints, so that the seed alone decides what is struck; closing makes one.
        journal = SqliteJournal(self._path, "test", checkpoint_bytes=1 << 40, vfs=self.disk.name)
        try:
            return JournalStore(journal)
        except TablesDamaged as error:
            self._count("rebuilt")
            try:
                journal.reset_tables(error)
                return JournalStore(journal)
            except BaseException:
                journal.close()
                raise
        except BaseException:
            journal.close()
            raise

    def _save(self) -> None:
        """Keep a copy of what is stored, as a backup would."""
        self._saved = self._path.with_name(f"{self._path.name}.saved")
        shutil.rmtree(self._saved, ignore_errors=True)
        shutil.copytree(self._path, self._saved)

    def _count(self, what: str, where: dict[str, int] | None = None) -> None:
        counts = self.outcomes if where is None else where
        counts[what] = counts.get(what, 0) + 1


#: Errors of the store that a fault may cause.
FAILURES = (CommitFailed, JournalUnavailable, JournalDamaged)

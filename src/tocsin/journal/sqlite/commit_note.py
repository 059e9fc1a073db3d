"""A note of the last confirmed commit, in a file of its own.

SQLite reads its write-ahead log up to the first frame whose checksum is wrong and ignores the rest. Damage there makes
confirmed commits disappear without an error, so the file itself cannot tell that it lost some. The note can: a journal
that ends before the noted event has lost commits.

The note is written through a memory map after each commit, which costs no system call. It survives a crash of the
process. It is synced to disk with each checkpoint only: after a power cut it may be older than the last commit, and
then tells less, but it is never ahead of what was confirmed.
"""

import mmap
import os
import zlib
from pathlib import Path
from struct import Struct

import msgspec

from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.sqlite.connection import translated

__all__ = ["NAME", "CommitNote", "Noted", "noted"]

#: Name of the file in the project's directory.
NAME = "journal.last"

_FACTS = Struct(">q?7x")
_CHECK = Struct(">I4x")
_SLOT = _FACTS.size + _CHECK.size
_SIZE = 2 * _SLOT


class Noted(msgspec.Struct, frozen=True):
    """The last confirmed commit."""

    #: Sequence number of its last event; 0 where none is noted.
    seq: int = 0
    #: Whether it was on disk when it was confirmed.
    flushed: bool = False


class CommitNote:
    """The note of one project; belongs to the thread that commits, except `sync`."""

    def __init__(self, path: Path) -> None:
        with translated(JournalUnavailable, NAME):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if os.fstat(descriptor).st_size < _SIZE:
                    # Written in full, so that the map never needs a block that a full disk does not have.
                    os.pwrite(descriptor, bytes(_SIZE), 0)
                self._map = mmap.mmap(descriptor, _SIZE)
            finally:
                os.close(descriptor)
        self._next = 0

    def read(self) -> Noted:
        """Return what is noted; a slot that was only half written does not count."""
        return _latest(self._map)

    def write(self, seq: int, *, flushed: bool) -> None:
        """Note a commit, in the slot that does not hold the one before."""
        place, self._next = self._next, _SLOT - self._next
        facts = _FACTS.pack(seq, flushed)
        self._map[place : place + _SLOT] = facts + _CHECK.pack(zlib.crc32(facts))

    def reset(self, seq: int, *, flushed: bool) -> None:
        """Note a commit in place of whatever is noted."""
        self._map[:] = bytes(_SIZE)
        self.write(seq, flushed=flushed)
        self.sync()

    def sync(self) -> None:
        """Bring the note to disk."""
        with translated(JournalUnavailable, NAME):
            self._map.flush()

    def close(self) -> None:
        """Close the file."""
        self._map.close()


def noted(path: Path) -> Noted:
    """Return what a file notes, without changing it; nothing where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Noted()
    return _latest(data)


def _latest(data: "mmap.mmap | bytes") -> Noted:
    found = [slot for place in (0, _SLOT) if (slot := _slot(data, place)) is not None]
    return max(found, key=lambda slot: slot.seq, default=Noted())


def _slot(data: "mmap.mmap | bytes", place: int) -> Noted | None:
    slot = data[place : place + _SLOT]
    if len(slot) < _SLOT or _CHECK.unpack(slot[_FACTS.size :])[0] != zlib.crc32(slot[: _FACTS.size]):
        return None
    return Noted(*_FACTS.unpack(slot[: _FACTS.size]))

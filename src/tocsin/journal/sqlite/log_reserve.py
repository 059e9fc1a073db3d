"""Space of SQLite's write-ahead log, written ahead of the commits that use it.

A commit that makes the file longer has to wait for the file system's own journal, which records the new length and the
new blocks, and which the syncs of all other programs share. A commit that overwrites bytes of the file waits only for
its own bytes. So the log is extended with zeros, a step at a time, before commits get there.

Zeros after the last commit are no commits to SQLite: it reads the log up to the first frame whose salt and checksum do
not fit. It does not truncate the log while the journal is open, so each step is written once. The write lock of the
database is held meanwhile, so that no other connection can write frames to the same place.
"""

import logging
import os
from pathlib import Path

import apsw

__all__ = ["LogReserve"]

_log = logging.getLogger(__name__)
_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24


class LogReserve:
    """Extends the write-ahead log of one database; belongs to the thread that commits."""

    def __init__(self, database: Path, page_size: int, step_bytes: int) -> None:
        self._log = database.with_name(database.name + "-wal")
        self._frame_bytes = page_size + _FRAME_HEADER_BYTES
        self._step_bytes = step_bytes
        #: Length of the file, as far as it is known.
        self._length = 0
        #: Number of frames after the last commit, or more: the log begins again after a checkpoint of all of it.
        self._frames = 0
        #: Number of pages that the connection has written.
        self._pages = 0

    def watch(self, connection: apsw.Connection) -> None:
        """Begin to count what a connection writes."""
        self._pages = _pages_written(connection)

    def take_written(self, connection: apsw.Connection) -> int:
        """Return the number of bytes that commits have written to the log since the last call."""
        # SQLite's hook for the same purpose would need the interpreter in the middle of every commit.
        pages = _pages_written(connection)
        new, self._pages = pages - self._pages, pages
        self._frames += new
        return new * self._frame_bytes

    def extend(self, connection: apsw.Connection) -> None:
        """Extend the log if less than half a step is left; a failure only makes commits slower."""
        half = self._step_bytes // 2
        if not self._step_bytes or self._end + half <= self._length:
            return
        try:
            self._frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if self._end + half <= self._length:
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._length = self._extended(self._end + half)
            finally:
                connection.execute("ROLLBACK")
        except (apsw.Error, OSError) as error:
            _log.debug("%s could not be extended: %s", self._log.name, error)
            self._length = self._end + self._step_bytes  # Not tried again before that.
            if connection.in_transaction:  # The next commit would only join it, so it has to fail.
                connection.close(True)

    @property
    def _end(self) -> int:
        """Return where the last commit ends in the file, or later."""
        return _HEADER_BYTES + self._frames * self._frame_bytes

    def _extended(self, needed: int) -> int:
        """Write a step of zeros after the end of the file if it is shorter than needed; return its length."""
        # SQLite has no locks on this file, which closing it would release.
        descriptor = os.open(self._log, os.O_RDWR)
        try:
            length = os.fstat(descriptor).st_size
            if length >= needed:
                return length
            return length + os.pwrite(descriptor, bytes(self._step_bytes), length)
        finally:
            os.close(descriptor)


def _pages_written(connection: apsw.Connection) -> int:
    return connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0]

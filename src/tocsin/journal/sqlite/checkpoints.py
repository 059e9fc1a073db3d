"""Checkpoints of a WAL file, in a thread apart from the one that commits.

A passive checkpoint copies committed pages while commits go on. Under steady load it never completes, so the file would
keep growing. Above the size limit the short rest is copied while commits wait, and the next commit starts the file
again from its beginning.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.journal.sqlite.connection import connect, translated

__all__ = ["Checkpointer"]

_log = logging.getLogger(__name__)


class Checkpointer:
    """A thread that checkpoints one file after enough bytes have been committed; `done` is called after each."""

    def __init__(
        self, path: Path, bytes_max: int, vfs: str | None = None, done: Callable[[], None] = lambda: None
    ) -> None:
        self._path = path
        self._done = done
        self._bytes_max = bytes_max
        self._connection = connect(path, "FULL", vfs)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._appended = 0
        self._thread = threading.Thread(target=self._run, name=f"checkpoint {path.name}", daemon=True)
        self._thread.start()

    def appended(self, size: int) -> None:
        """Count bytes committed; called by the thread that commits."""
        self._appended += size
        if self._appended >= self._bytes_max:
            self._appended = 0
            self._wake.set()

    def checkpoint(self) -> None:
        """Copy everything committed so far, and make it safe from power failures."""
        with self._lock, translated(JournalUnavailable, self._path.name):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._done()

    def close(self) -> None:
        """Stop; closing the last connection checkpoints the whole file."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        with self._lock, contextlib.suppress(apsw.Error):
            self._connection.close()

    def _run(self) -> None:
        while self._wake.wait() and not self._closing:
            self._wake.clear()
            try:
                self.checkpoint()
                with self._lock, translated(JournalUnavailable, self._path.name):
                    self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
            except JournalError as error:
                # Nothing is lost: the file stays long, and the next round tries again.
                _log.warning("the checkpoint of %s failed and will be retried: %s", self._path.name, error)

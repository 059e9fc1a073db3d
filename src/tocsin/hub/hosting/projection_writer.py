"""The thread that writes tables, search index and segments, prunes, and announces commits to other hubs.

It works on captures, never on the live state, and on connections of its own, so that it delays neither decisions nor
commits. A capture that could not be written is tried again. None is skipped, because the next one builds on it.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tocsin.core.errors import InvariantViolation
from tocsin.core.policy import Storage
from tocsin.journal.base import Journal
from tocsin.journal.changes import Capture
from tocsin.journal.errors import JournalError, JournalUnavailable, OwnershipLost, TablesDamaged
from tocsin.journal.open_files import OPEN_FILES, TOO_MANY_FILES, reason_of
from tocsin.journal.projection import batch_of, discard
from tocsin.journal.segments import Exporter
from tocsin.journal.tables import Tables

__all__ = ["ProjectionWriter"]

_log = logging.getLogger(__name__)

#: The shortest pause: long enough for a thread that waits for the interpreter to get it.
_PAUSE_S = 0.0002


def _pause() -> None:
    """Yield the interpreter to the threads that decide and commit."""
    time.sleep(_PAUSE_S)


class ProjectionWriter:
    """Writes captures to the tables, and does the housekeeping between them.

    `gave_up` is called on its thread after as many failures as the policy allows, `failed` after each one before.
    """

    def __init__(
        self,
        journal: Journal,
        segments: Path | None,
        gave_up: Callable[[JournalError], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._journal = journal
        self._segments = segments
        self._tables: Tables | None = None
        self._exporter: Exporter | None = None
        self._gave_up = gave_up
        self._on_failure = failed
        self._capture: Capture | None = None
        self._storage: Storage | None = None
        self._wake = threading.Condition()
        self._closing = False
        #: Whether a capture is being written at this moment.
        self._writing = False
        self._failures = 0
        self._announced = 0
        self._seen_seq = 0
        #: Last event in the tables when the search index was last found to be complete.
        self._indexed_seq = -1
        #: Last event of the capture that was written last, or is being written.
        self._writing_seq = 0
        self._next_prune = 0.0
        self._next_backup = 0.0
        self._next_chores = 0.0
        #: When rows were last given to the tables, by the monotonic clock.
        self.progressed_at = 0.0
        #: Whether somebody waits for the tables; until the capture is written.
        self.hurried = False
        #: Called on this thread when a capture has been written.
        self.written: Callable[[], None] = lambda: None
        #: Sequence number of the last commit; set by the host.
        self.committed_seq = 0
        #: Sequence number of the last event in the tables; set by `start`.
        self.projected_seq = 0
        self._thread = threading.Thread(target=self._run, name=f"projections {journal.project}", daemon=True)

    def start(self, storage: Storage) -> None:
        """Open the tables, which must have been loaded before, and start the thread."""
        self._storage = storage
        self.projected_seq = self._open().standing().seq
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Tell whether no capture is being written, so that another may be handed over."""
        return self._capture is None

    def hand(self, capture: Capture, storage: Storage) -> None:
        """Hand over a capture whose events are all committed."""
        with self._wake:
            if self._capture is not None:
                raise InvariantViolation("a capture was handed over while another was being written")
            self._capture, self._storage = capture, storage
            self._wake.notify()

    def settle(self) -> None:
        """Wait until the last capture is written, or has failed."""
        with self._wake:
            self.hurried = True
            self._wake.wait_for(lambda: self._capture is None or self._failures > 0 or self._closing)

    def drop(self) -> None:
        """Wait until the last capture is written or has failed, and forget one that could not be written.

        The state that it belongs to is being rebuilt from the tables, so no attempt to write it may be under way.
        """
        with self._wake:
            self.hurried = True
            self._wake.wait_for(lambda: self._capture is None or (self._failures > 0 and not self._writing))
            self._capture = None
            self._failures = 0
            self._indexed_seq = -1  # Damaged tables are rebuilt, and their index with them.
            self._wake.notify()

    def close(self) -> None:
        """Write the capture that was handed over, and end."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        if self._tables is not None:
            self._tables.close()

    def _run(self) -> None:
        while True:
            storage = self._storage
            if storage is None:
                return
            with self._wake:
                if not self._closing and (self._capture is None or self._failures):
                    self._wake.wait(storage.notify_interval_s if not self._failures else storage.recovery_backoff_s)
                capture, closing = self._capture, self._closing
                self._writing = capture is not None
            try:
                if self._failures:
                    self._reconnect()
                if capture is not None:
                    self._write(capture)
                elif closing:
                    return
                if not closing and (capture is None or time.monotonic() >= self._next_chores):
                    self._housekeep(storage)
                    self._next_chores = time.monotonic() + storage.notify_interval_s
                self._failures = 0
            except OSError as error:
                self._failed(JournalUnavailable(reason_of(error, "io_error"), str(error)), storage)
                if closing:
                    return
            except JournalError as error:
                self._failed(error, storage)
                if closing or isinstance(error, OwnershipLost):
                    return

    def _write(self, capture: Capture) -> None:
        # A failure may have been reported after the commit; writing the rows again would fail.
        if not self._failures or self._opened.standing().seq < capture.seq:
            self._journal.harden()
            self._writing_seq = capture.seq
            self._opened.write(batch_of(capture, self._pause))
        self.projected_seq = capture.seq
        with self._wake:
            self._capture, self._writing, self.hurried = None, False, False
            self._wake.notify_all()
        self.written()
        discard(capture, self._pause)

    def _pause(self) -> None:
        """Note that rows are being written, and yield the interpreter: the longer, the less the tables are needed."""
        self.progressed_at = time.monotonic()
        storage = self._storage
        if storage is None or self.hurried or self._closing or self._is_late(storage):
            _pause()
        else:
            time.sleep(max(_PAUSE_S, storage.projection_pause_s))

    def _is_late(self, storage: Storage) -> bool:
        """Tell whether so many events follow the capture being written that the next one is soon due."""
        return self.committed_seq - self._writing_seq >= storage.projection_events_max // 2

    @property
    def _opened(self) -> Tables:
        return self._open() if self._tables is None else self._tables

    def _open(self) -> Tables:
        self._tables = tables = self._journal.tables()
        self._exporter = None if self._segments is None else Exporter(self._journal, tables, self._segments)
        return tables

    def _reconnect(self) -> None:
        """Open new connections: the old ones may be the cause of the failure."""
        if self._tables is not None:
            self._tables.close()
        self._open()

    def _housekeep(self, storage: Storage) -> None:
        """Do a part of each chore, and more while no capture waits, so that continuous captures cannot block them."""
        if self.committed_seq > self._announced:
            self._announced = self.committed_seq
            self._journal.announce(self._announced)
        if storage.search and self._indexed_seq != self.projected_seq:
            self._index(storage)
        else:
            self._opened.standing()  # An idle hub notices when its store is unavailable.
        if self._exporter is not None:
            while self._exporter.step(storage) and self._capture is None and not self._closing:
                pass
        if time.monotonic() >= self._next_prune:
            self._next_prune = time.monotonic() + storage.prune_interval_s
            self._prune(storage)

    def _index(self, storage: Storage) -> None:
        """Index one batch while commits go on or a capture waits, and all the rest when they pause."""
        seen, projected = self._seen_seq, self.projected_seq
        self._seen_seq = self.committed_seq
        while self._opened.index(storage.search_batch):
            if seen != self.committed_seq or self._closing or self._capture is not None:
                return
        self._indexed_seq = projected

    def _prune(self, storage: Storage) -> None:
        now, tables = time.time(), self._opened
        before = int((now - storage.history_s) * 1_000_000)
        while tables.prune(before, storage.prune_batch) == storage.prune_batch and self._capture is None:
            pass
        upto = self.projected_seq
        tables.harden()
        if self._exporter is not None and storage.segments:
            upto = min(upto, tables.exported_seq())
        before = int((now - storage.journal_s) * 1_000_000)
        upto = min(upto, self._backed_up(tables, storage, before))
        while self._journal.prune(upto, before, storage.prune_batch) == storage.prune_batch and self._capture is None:
            pass

    def _backed_up(self, tables: Tables, storage: Storage, before: int) -> int:
        """Back the tables up if the journal has old events that no backup has; return the last event that one has.

        The journal is pruned only up to there: what it still has rebuilds damaged tables from the backup.
        """
        seq = tables.backed_up_seq()
        oldest = next(self._journal.read(max(seq, self._journal.pruned_seq()), 1), None)
        if oldest is None or oldest.at >= before or time.monotonic() < self._next_backup:
            return seq
        self._next_backup = time.monotonic() + storage.backup_interval_s
        try:
            return tables.back_up(_pause)
        except TablesDamaged as error:
            # The live state is not affected. The next start finds the same damage and repairs it.
            _log.error(
                "the tables of %s are damaged; restart the hub to rebuild them: %s", self._journal.project, error
            )
            return seq

    def _failed(self, error: JournalError, storage: Storage) -> None:
        if too_many_files := error.reason == TOO_MANY_FILES:
            OPEN_FILES.report(f"the tables of {self._journal.project} are not written", error)
        else:
            _log.warning("the tables of %s could not be written: %s", self._journal.project, error)
        with self._wake:
            self._failures += 1
            self._writing = False
            self._wake.notify_all()
        is_last = self._failures >= storage.recovery_attempts_max and not too_many_files
        if is_last or isinstance(error, OwnershipLost):
            self._gave_up(error)
        else:
            self._on_failure()

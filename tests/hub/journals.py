"""A real journal that a test can hold up, break and listen to."""

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.patience import PATIENCE_S
from tocsin.core.events import Event
from tocsin.journal.base import Commit, Group, Journal
from tocsin.journal.errors import TablesDamaged
from tocsin.journal.log import events_of
from tocsin.journal.sqlite import SqliteJournal
from tocsin.journal.tables import Tables
from tocsin.journal.terms import OwnershipTerms


class MeddledJournal:
    """Passes everything on to a SQLite journal, unless told otherwise."""

    def __init__(self, path: Path, project: str = "test", commit_timeout_s: float | None = None) -> None:
        self._inner: Journal = SqliteJournal(path, project, checkpoint_bytes=1 << 20)
        self.project, self.epoch = project, self._inner.epoch
        self.terms: OwnershipTerms | None = None
        self.commit_timeout_s: float | None = commit_timeout_s
        #: Set while appends may go on.
        self.gate = threading.Event()
        self.gate.set()
        self._at_gate = threading.Event()
        #: How many appends have begun.
        self.begun = 0
        #: What the next appends, recoveries and probes raise instead of doing anything.
        self.append_errors: list[Exception] = []
        self.recover_errors: list[Exception] = []
        self.probe_errors: list[Exception] = []
        #: What renewals raise, one after the other; the last one repeats.
        self.renew_errors: list[Exception] = []
        self.renewals = 0
        #: What is left of the lease.
        self.left_s = math.inf
        #: Raised after an append has been made: the answer got lost.
        self.lost_answers: list[Exception] = []
        #: The groups appended.
        self.groups: list[list[Event]] = []
        self.recoveries = 0
        self._watchers: list[Callable[[list[Event]], None]] = []

    def appended(self, kind: type) -> "asyncio.Future[Event]":
        """Return a future that holds the next event of a kind once it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Event] = loop.create_future()

        def resolve(event: Event) -> None:
            if not future.done():
                future.set_result(event)

        def watch(events: list[Event]) -> None:
            for event in events:
                if isinstance(event, kind):
                    loop.call_soon_threadsafe(resolve, event)

        self._watchers.append(watch)
        return future

    async def held(self) -> None:
        """Wait until an append waits for the gate."""
        assert await asyncio.to_thread(self._at_gate.wait, PATIENCE_S)

    def append(self, group: Group) -> Commit:
        self.begun += 1
        if not self.gate.is_set():
            self._at_gate.set()
            assert self.gate.wait(PATIENCE_S)
            self._at_gate.clear()
        if self.append_errors:
            raise self.append_errors.pop(0)
        commit = self._inner.append(group)
        events = events_of(group)
        self.groups.append(events)
        for watch in self._watchers:
            watch(events)
        if self.lost_answers:
            raise self.lost_answers.pop(0)
        return commit

    def recover(self) -> None:
        self.recoveries += 1
        if self.recover_errors:
            raise self.recover_errors.pop(0)
        self._inner.recover()

    def probe(self) -> Commit:
        assert self.gate.wait(PATIENCE_S)
        if self.probe_errors:
            raise self.probe_errors.pop(0)
        return self._inner.probe()

    def read(self, after_seq: int, limit: int = 0) -> Iterator[Group]:
        return self._inner.read(after_seq, limit)

    def last_seq(self) -> int:
        return self._inner.last_seq()

    def last_at(self) -> int:
        return self._inner.last_at()

    def pruned_seq(self) -> int:
        return self._inner.pruned_seq()

    def prune(self, upto_seq: int, before_at: int, limit: int) -> int:
        return self._inner.prune(upto_seq, before_at, limit)

    def harden(self) -> None:
        self._inner.harden()

    def announce(self, seq: int) -> None:
        self._inner.announce(seq)

    def renew(self) -> None:
        self.renewals += 1
        if self.renew_errors:
            raise self.renew_errors[0] if len(self.renew_errors) == 1 else self.renew_errors.pop(0)

    def lease_left_s(self) -> float:
        return self.left_s

    def tables(self) -> Tables:
        return self._inner.tables()

    def reset_tables(self, error: TablesDamaged) -> None:
        self._inner.reset_tables(error)

    def close(self) -> None:
        self._inner.close()

"""Loading a project's state, at start and again after a failed commit."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from tocsin.core.policy import Storage
from tocsin.hub.hosting.projection_writer import ProjectionWriter
from tocsin.hub.hosting.worker import Worker
from tocsin.ids import RandomIds
from tocsin.journal.base import Commit, Journal
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.errors import CommitFailed, JournalUnavailable, TablesDamaged
from tocsin.journal.recovery import rebuild, reopen
from tocsin.journal.tables import Tables

__all__ = ["Loaded", "ReloadFailed", "StateLoader"]

_log = logging.getLogger(__name__)


class ReloadFailed(Exception):
    """The state could not be loaded again within the attempts that the policy allows."""


class Loaded(msgspec.Struct, frozen=True):
    """A project's state, as of the last commit."""

    exchange: ObservedExchange
    #: Durability of the store's commits.
    durability: Commit


class StateLoader:
    """Loads the state of one project from its tables and its journal, on the thread that commits."""

    def __init__(self, journal: Journal, writer: Worker, projections: ProjectionWriter) -> None:
        self._journal = journal
        self._writer = writer
        self._projections = projections
        self._ids = RandomIds()

    async def load(self) -> Loaded:
        """Check that commits work, and rebuild the state from what is stored."""
        durability = await self._writer.run(self._journal.probe)
        return Loaded(await self._writer.run(self._reopen), durability)

    async def reload(self, storage: Storage, failed: Callable[[str], None]) -> Loaded:
        """Reconnect and load, as often as the policy allows; `failed` takes the reason of every failed attempt."""
        reason = ""
        for attempt in range(1, storage.recovery_attempts_max + 1):
            try:
                await self._writer.run(self._journal.recover)
                await asyncio.to_thread(self._projections.drop)
                return await self.load()
            except (CommitFailed, JournalUnavailable) as error:
                reason = str(error)
                failed(reason)
                _log.warning("rebuilding project %s failed (attempt %d): %s", self._journal.project, attempt, reason)
                await asyncio.sleep(storage.recovery_backoff_s)
        raise ReloadFailed(f"gave up after {storage.recovery_attempts_max} tries: {reason}")

    def _reopen(self) -> ObservedExchange:
        """Open the project; if only its tables are damaged, rebuild them from the journal."""
        try:
            with self._tables() as tables:
                return reopen(self._journal, tables, self._ids)
        except TablesDamaged as error:
            _log.error("the tables of project %s are damaged: %s", self._journal.project, error)
            self._journal.reset_tables(error)
        try:
            with self._tables() as tables:
                exchange = rebuild(self._journal, tables, self._ids)
        except TablesDamaged as error:
            raise TablesDamaged(f"{error}; this was found in the backup of the tables") from error
        _log.warning("the tables of project %s were rebuilt up to event %d", self._journal.project, exchange.state.seq)
        return exchange

    @contextmanager
    def _tables(self) -> Iterator[Tables]:
        tables = self._journal.tables()
        try:
            yield tables
        finally:
            tables.close()

"""Ownership of projects on one PostgreSQL: standby hubs, the table of owners, and announcements of commits.

A standby hub waits for the project's lock. The lock belongs to the owner's database session, so it is released as soon
as the owner dies or loses its connection. The hub that has waited longest then rebuilds the project and serves it.
Between its waits a standby looks at the owner's lease, and ends the session of an owner that has stopped renewing it
(`journal/postgres/ownership.py`). It knows from the same look who serves the project, and tells its callers: a caller
causes no query.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

import msgspec

from tocsin.core.policy import Policy
from tocsin.hub.config import ServerConfig, load_config
from tocsin.hub.hosting.host import Host
from tocsin.journal.errors import JournalError, JournalUnavailable, ProjectBusy
from tocsin.journal.postgres import PostgresJournal, ownership
from tocsin.journal.postgres.connection import Connection, connect, translated
from tocsin.journal.postgres.journal import CHANNEL
from tocsin.journal.postgres.ownership import Sighting, Watch
from tocsin.journal.postgres.schemas import migrate

__all__ = ["Announcements", "Owner", "Seen", "Standby", "owners"]

_log = logging.getLogger(__name__)


class Owner(msgspec.Struct, frozen=True):
    """The hub that serves a project."""

    project: str
    epoch: int
    hub: str
    address: str


def owners(dsn: str) -> list[Owner]:
    """Return the owners of all projects; one that has just died may still be listed."""
    connection = connect(dsn, "owners")
    try:
        migrate(connection)
        with translated(JournalUnavailable):
            rows = connection.execute(
                "SELECT project, epoch, owner, address FROM tocsin.projects ORDER BY project"
            ).fetchall()
    finally:
        connection.close()
    return [Owner(*row) for row in rows]


class Seen(msgspec.Struct, frozen=True):
    """A standby's knowledge of the project, from its own last look."""

    #: The owner, as last seen; null before the first look, and where nobody has owned the project.
    owner: Sighting | None = None
    #: Why the last look failed; empty if it did not.
    failure: str = ""
    #: Whether this hub owns the project by now, and prepares to serve it.
    taking_over: bool = False


class Standby:
    """Waits until no other hub serves a project, and serves it."""

    def __init__(
        self,
        dsn: str,
        project: str,
        policy: Policy,
        *,
        hub: str,
        address: str = "",
        segments: Path | None = None,
        config: ServerConfig | None = None,
        given_up: threading.Event | None = None,
        is_gone: Callable[[Connection, str, Sighting], bool] = lambda connection, project, seen: False,
        looked: Callable[[Seen], None] = lambda seen: None,
    ) -> None:
        """Prepare to wait until `given_up` is set; `is_gone` tells whether an owner need not be waited for.

        `looked` is called on the thread that waits with what every look has shown.
        """
        self._dsn = dsn
        self._project = project
        self._policy = policy
        self._hub = hub
        self._address = address
        self._segments = segments
        config = config or load_config()
        self._terms, self._timeouts = config.ownership, config.store
        self._cancelled = given_up or threading.Event()
        self._is_gone = is_gone
        self._looked = looked
        #: What the last look has shown.
        self.seen = Seen()

    async def serve(self) -> Host:
        """Wait for the project, take ownership, and return its host."""
        return await Host.start(await self.journal(), self._policy, segments=self._segments)

    async def journal(self, threads: Executor | None = None) -> PostgresJournal:
        """Wait for the project on a thread, take ownership, and return its journal."""
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, self._acquire)
        except asyncio.CancelledError:
            self._cancelled.set()
            raise

    def _acquire(self) -> PostgresJournal:
        while not self._cancelled.is_set():
            connection: Connection | None = None
            try:
                connection = connect(self._dsn, f"standby {self._project}", timeout_s=self._timeouts.commit_timeout_s)
                migrate(connection)
                self._wait(connection)
                if not self._cancelled.is_set():
                    return self._take_over(connection)
            except JournalUnavailable as error:
                self._note_failure(str(error))
                self._cancelled.wait(self._policy.storage.recovery_backoff_s)
            except BaseException:
                _close(connection)
                raise
            _close(connection)
        raise ProjectBusy(self._project, "" if self.seen.owner is None else self.seen.owner.hub)

    def _wait(self, connection: Connection) -> None:
        """Return once this session holds the lock, or the wait is cancelled."""
        watch, project, wait_s = Watch(), self._project, 0.0
        while not self._cancelled.is_set() and not ownership.lock(connection, project, wait_s):
            owner = ownership.look(connection, project)
            self._note(Seen(owner))
            if owner is not None and (
                watch.is_over(owner, ownership.clock()) or self._is_gone(connection, project, owner)
            ):
                _log.warning("%s has not renewed its lease of %s for %g s", owner.hub, project, owner.lease_s)
                if ownership.depose(connection, project, owner):
                    _log.warning("the database session of %s was ended", owner.hub)
            wait_s = self._terms.look_s

    def _take_over(self, locked: Connection) -> PostgresJournal:
        self._note(Seen(self.seen.owner, taking_over=True))
        return PostgresJournal(
            self._dsn,
            self._project,
            hub=self._hub,
            address=self._address,
            terms=self._terms,
            timeouts=self._timeouts,
            locked=locked,
        )

    def _note_failure(self, failure: str) -> None:
        if failure != self.seen.failure:
            _log.warning("the standby of project %s cannot look at its owner: %s", self._project, failure)
        self._note(Seen(self.seen.owner, failure))

    def _note(self, seen: Seen) -> None:
        self.seen = seen
        self._looked(seen)


def _close(connection: Connection | None) -> None:
    if connection is not None:
        with suppress(Exception):
            connection.close()


class Announcements:
    """Announcements of other hubs' commits, for processes that follow a project without owning it."""

    def __init__(self, dsn: str) -> None:
        self._connection = connect(dsn, "announcements")
        with translated(JournalUnavailable):
            self._connection.execute(f"LISTEN {CHANNEL}".encode())

    def wait(self, timeout_s: float) -> list[tuple[str, int]]:
        """Wait for an announcement, and return the projects with new events and their last sequence numbers."""
        with translated(JournalUnavailable):
            notices = list(self._connection.notifies(timeout=timeout_s, stop_after=1))
        parts = [notice.payload.rpartition(" ") for notice in notices]
        return [(project, int(seq)) for project, _, seq in parts]

    def close(self) -> None:
        """Stop listening."""
        try:
            self._connection.close()
        except JournalError:
            return

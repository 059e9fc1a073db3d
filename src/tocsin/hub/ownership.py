"""Ownership of projects on one PostgreSQL: standby hubs, the table of owners, and announcements of commits.

A standby hub waits for the project's lock. The lock belongs to the owner's database session, so it is released as soon
as the owner dies or loses its connection. The hub that has waited longest then rebuilds the project and serves it. Any
hub can read from the table where a project is served.
"""

import asyncio
import threading
from pathlib import Path

import msgspec

from tocsin.core.policy import Policy
from tocsin.hub.hosting.host import Host
from tocsin.journal.errors import JournalError, JournalUnavailable, ProjectBusy
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.postgres.connection import connect, migrate, translated
from tocsin.journal.postgres.journal import CHANNEL

__all__ = ["Announcements", "Owner", "Standby", "owners"]

#: Length of one wait for a lock, after which the hub checks whether it was cancelled, seconds.
_SLICE_S = 1.0


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


class Standby:
    """Waits until no other hub serves a project, and serves it."""

    def __init__(
        self, dsn: str, project: str, policy: Policy, *, hub: str, address: str = "", segments: Path | None = None
    ) -> None:
        self._dsn = dsn
        self._project = project
        self._policy = policy
        self._hub = hub
        self._address = address
        self._segments = segments
        self._cancelled = threading.Event()

    async def serve(self) -> Host:
        """Wait for the project, take ownership, and return its host."""
        return await Host.start(await self.journal(), self._policy, segments=self._segments)

    async def journal(self) -> PostgresJournal:
        """Wait for the project, take ownership, and return its journal."""
        try:
            return await asyncio.to_thread(self._acquire)
        except asyncio.CancelledError:
            self._cancelled.set()
            raise

    def _acquire(self) -> PostgresJournal:
        while True:
            try:
                journal = PostgresJournal(
                    self._dsn, self._project, hub=self._hub, address=self._address, wait_s=_SLICE_S
                )
            except ProjectBusy:
                pass
            except JournalUnavailable:
                self._cancelled.wait(self._policy.storage.recovery_backoff_s)
            else:
                if not self._cancelled.is_set():
                    return journal
                journal.close()
            if self._cancelled.is_set():
                raise asyncio.CancelledError


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

"""Who serves what: hubs that stand by for projects on one PostgreSQL, and the table that says who owns which.

A hub that wants a project waits for its lock. The lock belongs to the owner's own session, so it is free as soon as the
owner dies or loses its connection; the one who waited longest then rebuilds the project and serves it. Any hub can say
from the table where a project is served, owner or not.
"""

import asyncio
import threading
from pathlib import Path

import msgspec

from tocsin.core.policy import Policy
from tocsin.hub.host import Host
from tocsin.journal.errors import JournalError, JournalUnavailable, ProjectBusy
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.postgres.connection import connect, migrate, translated
from tocsin.journal.postgres.journal import CHANNEL

__all__ = ["Announcements", "Owner", "Standby", "owners"]

#: How long one wait for a lock lasts before the hub looks whether it is still wanted, seconds.
_SLICE_S = 1.0


class Owner(msgspec.Struct, frozen=True):
    """Where a project is served."""

    project: str
    epoch: int
    hub: str
    address: str


def owners(dsn: str) -> list[Owner]:
    """Answer who owns what; the owner of record may have died a moment ago."""
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
    """A hub's wish to serve one project, fulfilled as soon as nobody else does."""

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
        """Wait for the project, take it over, and return its host."""
        return await Host.start(await self.journal(), self._policy, segments=self._segments)

    async def journal(self) -> PostgresJournal:
        """Wait for the project, and return its journal as the owner of it."""
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
    """What other hubs have committed, as they tell it: for whoever follows a project without owning it."""

    def __init__(self, dsn: str) -> None:
        self._connection = connect(dsn, "announcements")
        with translated(JournalUnavailable):
            self._connection.execute(f"LISTEN {CHANNEL}".encode())

    def wait(self, timeout_s: float) -> list[tuple[str, int]]:
        """Wait for word, and return the projects that have grown with their last sequence numbers."""
        with translated(JournalUnavailable):
            notices = list(self._connection.notifies(timeout=timeout_s, stop_after=1))
        told = [notice.payload.rpartition(" ") for notice in notices]
        return [(project, int(seq)) for project, _, seq in told]

    def close(self) -> None:
        """Stop listening."""
        try:
            self._connection.close()
        except JournalError:
            return

"""The table of hubs in PostgreSQL: each hub shows in it that it works, and reads who else does.

Theory of operation. A thread writes the time of the database server into this hub's row every `beat_s` and reads the
rows whose time is not older than their lease. Ages are compared by that one clock; those of the machines are not used.
A hub that starts or stops also notifies the others, so that they look at once. The table only says who *should* serve
a project (`members`). Who *does* is decided by the project's lock and epoch (`tocsin.journal.postgres.ownership`).
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from tocsin.fleet.members import Member
from tocsin.hub.config import HubsConfig
from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.journal.postgres import ownership
from tocsin.journal.postgres.connection import Connection, connect, hang_up, translated
from tocsin.journal.postgres.ownership import Sighting
from tocsin.journal.postgres.schemas import migrate

__all__ = ["Registry", "is_gone"]

_log = logging.getLogger("tocsin.fleet")
_CHANNEL = "tocsin_hubs"
#: The row of a hub is replaced by its next start, and by no other hub while it shows that it works.
_BEAT = """
INSERT INTO tocsin.hubs (address, hub, weight, lease_s, beat_at) VALUES (%s, %s, %s, %s, now())
ON CONFLICT (address) DO UPDATE
SET hub = EXCLUDED.hub, weight = EXCLUDED.weight, lease_s = EXCLUDED.lease_s, beat_at = EXCLUDED.beat_at
WHERE %s OR hubs.hub = EXCLUDED.hub RETURNING address"""
_LOOK = """
SELECT address, hub, weight FROM tocsin.hubs
WHERE beat_at > now() - lease_s * interval '1 second' ORDER BY address"""
_LEAVE = "DELETE FROM tocsin.hubs WHERE address = %s AND hub = %s"
_TELL = "SELECT pg_notify(%s, %s)"
#: Rows of hubs that have been gone for a long time.
_FORGET = "DELETE FROM tocsin.hubs WHERE beat_at < now() - 100 * lease_s * interval '1 second'"
_GONE = """
SELECT EXISTS (SELECT FROM tocsin.projects p JOIN tocsin.hubs h ON h.address = p.address
WHERE p.project = %s AND p.epoch = %s AND p.owned_at <= h.beat_at
AND h.beat_at <= now() - h.lease_s * interval '1 second')"""


def is_gone(connection: Connection, project: str, seen: Sighting) -> bool:
    """Tell whether the owner of a project is a hub that has stopped showing that it works."""
    with translated(JournalUnavailable):
        row = connection.execute(_GONE, (project, seen.epoch)).fetchone()
    return row is not None and bool(row[0])


class Registry:
    """Keeps one hub in the table, and its view of the others up to date."""

    def __init__(
        self,
        dsn: str,
        own: Member,
        config: HubsConfig,
        *,
        timeout_s: float,
        seen: Callable[[list[Member]], None],
        replaced: Callable[[], None],
        beats: bool = True,
    ) -> None:
        """`seen` is called with every view, `replaced` if another hub has taken this one's address.

        Both are called on a thread. Without `beats` the view is followed and nothing is written: another process of
        this hub writes.
        """
        self._dsn = dsn
        self._own = own
        self._config = config
        self._timeout_s = timeout_s
        self._seen = seen
        self._replaced = replaced
        self._beats = beats
        self._beating = threading.Lock()
        self._left = False
        self._ended = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="hubs", daemon=True)
        #: When the database last answered, by `ownership.clock`.
        self.answered_at = 0.0

    def start(self) -> list[Member]:
        """Register this hub and return all hubs; begin to follow them."""
        connection = self._connection = self._connect()
        self._beat(connection, first=True)
        members = self._look(connection)
        self._thread.start()
        return members

    @property
    def is_fresh(self) -> bool:
        """Tell whether the view is recent enough to rely on."""
        return ownership.clock() - self.answered_at < self._config.lease_s

    def leave(self) -> None:
        """Take this hub out of the table, and tell the others."""
        with self._beating:
            self._left = True
        if not self._beats:
            return
        connection = self._connect()
        try:
            with translated(JournalUnavailable):
                connection.execute(_LEAVE, (self._own.address, self._own.hub))
                connection.execute(_TELL, (_CHANNEL, self._own.address))
        finally:
            connection.close()

    def close(self) -> None:
        """Stop following the others."""
        self._ended.set()
        if self._connection is not None:
            hang_up(self._connection)
        if self._thread.is_alive():
            self._thread.join()

    def _connect(self) -> Connection:
        connection = connect(self._dsn, "hubs", timeout_s=self._timeout_s)
        try:
            migrate(connection)
            with translated(JournalUnavailable):
                connection.execute(f"LISTEN {_CHANNEL}".encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _run(self) -> None:
        known = True
        while not self._ended.is_set():
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._connect()
                connection = self._connection
                with translated(JournalUnavailable):
                    list(connection.notifies(timeout=self._config.beat_s, stop_after=1))
                if self._ended.is_set():
                    break
                self._beat(connection)
                self._seen(self._look(connection))
                known = True
            except JournalError as error:
                if self._ended.is_set():
                    break
                if known:
                    _log.warning("the table of hubs cannot be read: %s", error)
                known = False
                if self._connection is not None:
                    with suppress(Exception):
                        self._connection.close()
                self._ended.wait(self._config.beat_s)
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()

    def _beat(self, connection: Connection, *, first: bool = False) -> None:
        """Show that this hub works."""
        with self._beating:
            if self._left or not self._beats:
                return
            own, lease_s = self._own, self._config.lease_s
            with translated(JournalUnavailable):
                values = (own.address, own.hub, own.weight, lease_s, first)
                if connection.execute(_BEAT, values).fetchone() is None:
                    self._left = True
                    self._replaced()
                    return
                if first:
                    connection.execute(_TELL, (_CHANNEL, own.address))
                    connection.execute(_FORGET)

    def _look(self, connection: Connection) -> list[Member]:
        with translated(JournalUnavailable):
            rows = connection.execute(_LOOK).fetchall()
        self.answered_at = ownership.clock()
        return [Member(*row) for row in rows]

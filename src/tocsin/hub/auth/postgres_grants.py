"""Grants in a table beside the journal, in PostgreSQL."""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tocsin.core.errors import refusal
from tocsin.hub.auth.store import grants_of, must_still_be_live, row_of
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.clock import Clock
from tocsin.journal.errors import JournalUnavailable, OwnershipLost
from tocsin.journal.postgres import ownership, token_readers
from tocsin.journal.postgres.connection import Connection, connect, hang_up, translated
from tocsin.journal.postgres.schemas import migrate
from tocsin.journal.token_table import GRANTS

__all__ = ["PostgresGrants"]

Result = TypeVar("Result")

# The statements are put together from constants.
# ruff: noqa: S608
_NAMES = ", ".join(GRANTS.names)
_READ = f"SELECT {_NAMES} FROM tocsin.grants WHERE project = %s ORDER BY created_at, token_id".encode()
_AUTHOR = f"SELECT {_NAMES} FROM tocsin.grants WHERE token_id = %s FOR SHARE".encode()
_WRITE = (
    f"INSERT INTO tocsin.grants ({_NAMES}) VALUES ({', '.join(['%s'] * len(GRANTS.names))})"
    f" ON CONFLICT (token_id) DO UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in GRANTS.names[1:])}"
).encode()
_OWNER = "SELECT FROM tocsin.projects WHERE project = %s AND epoch = %s FOR SHARE"
_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
#: A hub that is stopped in the middle of a change holds rows that others change. The server ends its session then.
_LIMIT = "SELECT set_config('idle_in_transaction_session_timeout', %s, false)"


class PostgresGrants:
    """Grants of one project in a database.

    With the `epoch` of the project's owner, a change is refused once another hub has taken over. The author of a change
    is looked up in its transaction, with a lock that a revocation waits for: a token is either issued before its author
    was revoked, or not at all.
    """

    def __init__(self, dsn: str, project: str, timeout_s: float | None = None, *, epoch: int | None = None) -> None:
        self._project = project
        self._epoch = epoch
        self._timeout_s = timeout_s
        self._version: int | None = None
        self._clock = Clock()
        #: How far the clock of the database server is ahead of this machine's, microseconds.
        self._ahead_us = 0
        self._listens = False
        #: Ids of the tokens whose row is damaged.
        self.damaged = frozenset[str]()
        name = ownership.session_name("tokens", project)
        self._open = partial(connect, dsn, name, timeout_s=timeout_s)
        self._connection = self._connect()

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""
        rows = self._done(lambda connection: connection.execute(_READ, (self._project,)).fetchall())
        found, self.damaged = grants_of(rows, self._project, "tocsin.grants")
        return found

    def write(self, grants: list[Grant], by: str | None = None, at: int = 0) -> None:
        """Make new or changed grants durable, all or none; return when every process that uses them has read them."""

        def write(connection: Connection) -> int:
            with connection.transaction():
                if self._epoch is not None and not connection.execute(_OWNER, (self._project, self._epoch)).fetchall():
                    raise OwnershipLost(self._project, self._epoch)
                if by is not None:
                    author = connection.execute(_AUTHOR, (by,)).fetchone()
                    if author is None:
                        raise refusal("E_AUTH_001", f"token {by} is not known", expected="a token of this hub")
                    must_still_be_live(author, at, grants)
                for grant in grants:
                    connection.execute(_WRITE, row_of(grant))
                return token_readers.count_change(connection, self._project)

        version = self._done(write)

        def spread(connection: Connection) -> None:
            token_readers.announce(connection, self._project)
            token_readers.await_readers(connection, self._project, version)
            self._measure(connection)

        self._done(spread)

    def changed(self) -> bool:
        """Tell whether another process may have written since the last call."""
        before, self._version = self._version, self.version()
        return before != self._version

    def now(self) -> int:
        """Return the time of the database server, as measured when it was last connected or written to."""
        return self._clock.now() + self._ahead_us

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._connection.close()

    def version(self) -> int:
        """Return the number of changes so far."""
        return self._done(lambda connection: token_readers.version_of(connection, self._project))

    def show_read(self, reader: str, version: int, lease_s: float) -> None:
        """Show that a process uses these grants, and which version it has read."""
        self._done(lambda connection: token_readers.show_read(connection, reader, self._project, version, lease_s))

    def wait(self, timeout_s: float) -> None:
        """Return when another process has changed something, after a time, or when the connection is lost."""
        try:
            if not self._listens:
                self._listens = True
                self._done(token_readers.listen)
            with translated(JournalUnavailable):
                token_readers.wait_for_change(self._connection, timeout_s)
        except JournalUnavailable:
            self.close()

    def interrupt(self) -> None:
        """End a wait from another thread."""
        hang_up(self._connection)

    def leave(self, reader: str) -> None:
        """Do not let changes wait for a process any more."""
        self._done(lambda connection: token_readers.leave(connection, reader))

    def _connect(self) -> Connection:
        connection = self._open()
        try:
            migrate(connection)
            with translated(JournalUnavailable):
                if self._timeout_s is not None:
                    connection.execute(_LIMIT, (f"{self._timeout_s * 1000:.0f}",))
                if self._listens:
                    token_readers.listen(connection)
                self._measure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _measure(self, connection: Connection) -> None:
        """Compare the clock of the database server with this machine's."""
        before = time.time_ns() // 1000
        row = connection.execute(_TIME).fetchone()
        if row is not None:
            self._ahead_us = int(row[0]) - (before + time.time_ns() // 1000) // 2

    def _done(self, work: Callable[[Connection], Result]) -> Result:
        """Run something on the open connection, or once more on a new one: the server may have been restarted."""
        try:
            with translated(JournalUnavailable):
                return work(self._connection)
        except JournalUnavailable:
            self.close()
            self._connection = self._connect()
        with translated(JournalUnavailable):
            return work(self._connection)

"""The journal in PostgreSQL: one insert per group, fenced by the owner's epoch.

The session that appends holds the project's advisory lock (`ownership`). A hub that gets the lock therefore can rely on
the previous owner's session being gone, and with it any append under way. Every append checks the epoch as well, with
the row locked: that also excludes an owner whose lock was lost by a connection pooler or a promoted standby.
"""

import contextlib
import math
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from psycopg.errors import Diagnostic

from tocsin.journal.base import Commit, Group
from tocsin.journal.checksums import chained
from tocsin.journal.errors import (
    CommitFailed,
    JournalUnavailable,
    OwnershipLost,
    ProjectBusy,
    TablesDamaged,
)
from tocsin.journal.postgres import ownership
from tocsin.journal.postgres.connection import Connection, connect, hang_up, translated, use_schema
from tocsin.journal.postgres.copies import commit_of
from tocsin.journal.postgres.reading import stored_groups
from tocsin.journal.postgres.schemas import migrate, migrate_project, schema_of
from tocsin.journal.postgres.tables import PostgresTables
from tocsin.journal.tables import Tables
from tocsin.journal.terms import OwnershipTerms, StoreTimeouts

__all__ = ["CHANNEL", "PostgresJournal"]

#: Notification channel of announced commits; the payload is `project seq`.
CHANNEL = "tocsin"

_INSERT = """
WITH owner AS (SELECT FROM tocsin.projects WHERE project = %(project)s AND epoch = %(epoch)s FOR SHARE)
INSERT INTO journal (project, first_seq, last_seq, at, epoch, checksum, events, chain)
SELECT %(project)s, %(first)s, %(last)s, %(at)s, %(epoch)s, %(checksum)s, %(events)b, %(chain)s FROM owner
RETURNING current_setting('synchronous_standby_names'), current_setting('synchronous_commit')"""
_PROBE = """
UPDATE tocsin.projects SET probes = probes + 1 WHERE project = %s AND epoch = %s
RETURNING current_setting('synchronous_standby_names'), current_setting('synchronous_commit')"""
_SESSION = "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_LAST = "SELECT last_seq, at, chain FROM journal WHERE project = %s ORDER BY first_seq DESC LIMIT 1"
_PRUNED = "SELECT pruned_seq, pruned_chain FROM tocsin.projects WHERE project = %s"
_OLDEST = "SELECT first_seq, last_seq, at, chain FROM journal WHERE project = %s ORDER BY first_seq LIMIT %s"
#: Time that the lock of this journal's previous connection may outlive the connection, seconds.
_OWN_LOCK_S = 5.0


class PostgresJournal:
    """One project's journal in a database."""

    def __init__(
        self,
        dsn: str,
        project: str = "default",
        *,
        hub: str = "",
        address: str = "",
        synchronous_commit: str = "remote_apply",
        wait_s: float = 0.0,
        terms: OwnershipTerms | None = None,
        timeouts: StoreTimeouts | None = None,
        locked: Connection | None = None,
    ) -> None:
        """Take ownership of a project; `locked` is a connection that holds its lock already.

        Without `terms` the owner has no lease: it owns the project until its session ends.
        """
        self.project = project
        self.epoch = 0
        self.terms = terms
        self.commit_timeout_s = None if timeouts is None else timeouts.commit_timeout_s
        self._batch_timeout_s = None if timeouts is None else timeouts.batch_timeout_s
        self._dsn = dsn
        self._schema = schema_of(project)
        self._synchronous_commit = synchronous_commit
        self._reading = threading.Lock()
        self._unreplicated = False
        self._renewing = threading.Lock()
        self._renewer: Connection | None = None
        self._opening = threading.Lock()
        self._table_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._last_seq = self._chain = 0
        self._writer = self._connect("writer") if locked is None else locked
        try:
            if locked is not None:
                with translated(JournalUnavailable):
                    locked.execute(
                        "SELECT set_config('application_name', %s, false)",
                        (f"tocsin {ownership.session_name('writer', project)}",),
                    )
                use_schema(locked, self._schema)
            else:
                migrate(self._writer)
                if not ownership.lock(self._writer, project, wait_s):
                    seen = ownership.look(self._writer, project)
                    raise ProjectBusy(project, "" if seen is None else seen.hub)
            if terms is not None:
                ownership.end_former_owner(self._writer, project)
            migrate_project(self._writer, project)
            self._renewed_at = ownership.clock()
            lease_s = 0.0 if terms is None else terms.lease_s
            self.epoch = ownership.take(self._writer, project, hub, address, lease_s)
            self._use_writer(self._writer)
            self._reader = self._connect("reader")
            self._load_end()
        except BaseException:
            self.close()
            raise

    def append(self, group: Group) -> Commit:
        """Make a group durable; it must follow the last one."""
        if group.first_seq != self._last_seq + 1:
            raise CommitFailed("conflict", f"event {group.first_seq} does not follow event {self._last_seq}")
        values = {
            "project": self.project,
            "first": group.first_seq,
            "last": group.last_seq,
            "at": group.at,
            "epoch": group.epoch,
            "checksum": group.checksum,
            "events": group.events,
            "chain": (chain := chained(self._chain, group.checksum)),
        }
        commit = self._fenced(_INSERT, values)
        self._last_seq, self._chain = group.last_seq, chain
        return commit

    def probe(self) -> Commit:
        """Make a commit without events, to find out whether commits work and how durable they are."""
        return self._fenced(_PROBE, (self.project, self.epoch))

    def _fenced(self, statement: str, values: Any) -> Commit:
        """Commit a statement that matches no row once another owner has taken over."""
        self._unreplicated = False
        with translated(CommitFailed):
            row = self._writer.execute(statement, values, prepare=True).fetchone()
        if row is None:
            raise OwnershipLost(self.project, self.epoch)
        if self._unreplicated:
            raise CommitFailed("not_replicated", "the wait for the synchronous standbys was cancelled")
        return commit_of(*row)

    def _notice(self, notice: Diagnostic) -> None:
        # The server answers a cancelled wait with success and a warning: the commit is on one node only.
        if notice.severity_nonlocalized == "WARNING":
            self._unreplicated = True

    def announce(self, seq: int) -> None:
        """Notify other processes that the journal has new events.

        This is not part of the append, because NOTIFY locks the whole database until its commit ends.
        """
        with self._reading, translated(JournalUnavailable):
            self._reader.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{self.project} {seq}"))

    def read(self, after_seq: int, limit: int = 0) -> Iterator[Group]:
        """Return the groups that end after a sequence number, checked and in order; `limit` 0 is all."""
        return stored_groups(self._read, self.project, after_seq, limit)

    def last_seq(self) -> int:
        """Return the sequence number of the last event."""
        return self._last_seq

    def last_at(self) -> int:
        """Return when the last event happened; 0 where none has, or none is left."""
        return self._stored_last()[1]

    def pruned_seq(self) -> int:
        """Return the sequence number of the last pruned event."""
        return int(self._read("SELECT pruned_seq FROM tocsin.projects WHERE project = %s", self.project)[0][0])

    def prune(self, upto_seq: int, before_at: int, limit: int) -> int:
        """Delete up to `limit` of the oldest groups that end by a sequence number and a time; return their number."""
        rows = self._read(_OLDEST, self.project, limit)
        gone = [row for row in rows if row[1] <= upto_seq and row[2] < before_at]
        if gone:
            with self._reading, translated(JournalUnavailable), self._reader.transaction():
                self._reader.execute(
                    "UPDATE tocsin.projects SET pruned_seq = %s, pruned_chain = %s WHERE project = %s",
                    (gone[-1][1], gone[-1][3], self.project),
                )
                self._reader.execute(
                    "DELETE FROM journal WHERE project = %s AND first_seq <= %s", (self.project, gone[-1][0])
                )
        return len(gone)

    def harden(self) -> None:
        """Do nothing: the tables are written to the same log, after the commits that they include."""

    def recover(self) -> None:
        """Reconnect as the owner after a failed commit, and renew the lease."""
        self._writer.close()
        with self._opening:
            others = [self._reader, *self._table_connections]
        for connection in others:
            hang_up(connection)  # A thread may be waiting for a server that is gone.
        with self._reading:
            self._reader.close()
            self._reader = self._connect("reader")
            self._check_epoch()
            # The former session may still wait for a standby, and holds the lock as long as it does.
            ownership.end_session(self._reader, self._session)
        writer = self._connect("writer")
        try:
            if not ownership.lock(writer, self.project, self.commit_timeout_s or _OWN_LOCK_S):
                raise JournalUnavailable("connection_lost", "the lock of the last connection is still held")
            self._use_writer(writer)
        except BaseException:
            writer.close()
            raise
        with self._reading:
            self._check_epoch()
        self._load_end()
        if self.terms is not None:
            self.renew()

    def renew(self) -> None:
        """Renew the owner's lease, on a connection of its own."""
        with self._renewing:
            asked_at = ownership.clock()
            try:
                if self._renewer is None or self._renewer.closed:
                    # A renewal waits for no standby: it shows that the owner works, and may be lost.
                    self._renewer = connect(
                        self._dsn, ownership.session_name("lease", self.project), "off", self.commit_timeout_s
                    )
                ownership.renew(self._renewer, self.project, self.epoch)
            except JournalUnavailable:
                if self._renewer is not None:
                    self._renewer.close()
                raise
            self._renewed_at = asked_at

    def lease_left_s(self) -> float:
        """Return for how long the owner may serve without another renewal, seconds."""
        if self.terms is None:
            return math.inf
        return self._renewed_at + self.terms.lease_s - self.terms.renew_s - ownership.clock()

    def tables(self) -> Tables:
        """Open the project's tables, on a connection of their own."""
        # The tables are in the same log, so a crash can undo their last batches only together with everything later.
        connection = self._connect_tables(ownership.session_name("tables", self.project))
        with self._opening:
            self._table_connections.add(connection)
        return PostgresTables(connection, self.project, self.epoch)

    def reset_tables(self, error: TablesDamaged) -> None:
        """Empty damaged tables; raise if the journal cannot complete them."""
        if pruned := self.pruned_seq():
            raise TablesDamaged(
                f"{error}. They cannot be rebuilt: the journal begins with event {pruned + 1}."
                " Restore the database from a backup of the server"
            ) from error
        connection = self._connect_tables(f"tables {self.project}")
        tables = PostgresTables(connection, self.project, self.epoch)
        try:
            tables.empty()
        finally:
            tables.close()

    def close(self) -> None:
        """Close the journal and give up ownership."""
        for connection in (self._writer, getattr(self, "_reader", None), self._renewer):
            if connection is not None:
                with contextlib.suppress(Exception):
                    connection.close()

    def _connect(self, purpose: str) -> Connection:
        name = ownership.session_name(purpose, self.project)
        return connect(self._dsn, name, self._synchronous_commit, self.commit_timeout_s, schema=self._schema)

    def _connect_tables(self, name: str) -> Connection:
        return connect(self._dsn, name, "off", self._batch_timeout_s, schema=self._schema)

    def _use_writer(self, connection: Connection) -> None:
        """Append on a connection from now on."""
        with translated(JournalUnavailable):
            row = connection.execute(_SESSION).fetchone()
        if row is None:
            raise JournalUnavailable("connection_lost", "the session of the new connection is gone")
        self._session: tuple[int, str] = (row[0], row[1])
        connection.add_notice_handler(self._notice)
        self._writer = connection

    def _check_epoch(self) -> None:
        """Raise if another hub has taken over; the caller holds the reader."""
        seen = ownership.look(self._reader, self.project)
        if seen is None or seen.epoch != self.epoch:
            raise OwnershipLost(self.project, self.epoch)

    def _load_end(self) -> None:
        self._last_seq, _, chain = self._stored_last()
        # A group from before there were chain values begins a new chain.
        self._chain = chain or 0

    def _stored_last(self) -> tuple[int, int, int | None]:
        """Return the last event's number and time, and the chain value of its group."""
        rows, (pruned, pruned_chain) = self._read(_LAST, self.project), self._read(_PRUNED, self.project)[0]
        return (max(rows[0][0], pruned), rows[0][1], rows[0][2]) if rows else (pruned, 0, pruned_chain)

    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._reading, translated(JournalUnavailable):
            return self._reader.execute(statement.encode(), values, prepare=True, binary=True).fetchall()

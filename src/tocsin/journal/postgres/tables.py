"""The tables in PostgreSQL.

Rows of new messages are written by a binary COPY. Other rows are copied into temporary tables and merged from there.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from tocsin.journal.checksums import CHECKSUM, Seals, chunk_checksum, document_checksum, is_checksum, sealer
from tocsin.journal.columns import Column, Kind, Row, Table, Update, compiled
from tocsin.journal.errors import JournalUnavailable, OwnershipLost
from tocsin.journal.history import (
    LATEST,
    Brief,
    Conversation,
    DeadLetter,
    Page,
    Signal,
    Wanted,
    brief_page_of,
    dead_page_of,
    fitting,
    page_of,
)
from tocsin.journal.postgres import history
from tocsin.journal.postgres.connection import Connection, translated
from tocsin.journal.table_definitions import CHANGING_VALUES, MESSAGES, RECOVERED, SEGMENTS, whole_message
from tocsin.journal.tables import Batch, Segment, Standing, StoredQueue, entries_of, standing_of

__all__ = ["PostgresTables"]

# The statements are put together from the declarations of columns.
# ruff: noqa: S608

_PACK = msgspec.msgpack.Encoder()
_STAGED = {
    Kind.INT: "bigint",
    Kind.REAL: "double precision",
    Kind.TEXT: "text",
    Kind.BOOL: "boolean",
    Kind.BYTES: "bytea",
    Kind.TIME: "bigint",
    Kind.BODY: "text",
}
#: Types of values in a binary COPY; text is sent as its bytes, and a time as a number.
_BINARY = {
    Kind.INT: "int8",
    Kind.REAL: "float8",
    Kind.TEXT: "text",
    Kind.BOOL: "bool",
    Kind.BYTES: "bytea",
    Kind.TIME: "int8",
    Kind.BODY: "bytea",
}
#: The beginning of PostgreSQL's time, 2000-01-01, microseconds since the epoch.
_EPOCH_US = 946_684_800_000_000
_FETCH = 5000


class PostgresTables:
    """One project's tables, on a connection that has the project's schema as its search path."""

    def __init__(self, connection: Connection, project: str, epoch: int) -> None:
        self._connection = connection
        self._project = project
        self._epoch = epoch

    def standing(self) -> Standing:
        """Return the position of the tables in the journal."""
        rows = self._all("SELECT seq, document, checksum FROM standing WHERE project = %s", self._project)
        return standing_of(rows[0], f"tables of {self._project}") if rows else Standing()

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction."""
        with self._transaction():
            for table, rows in batch.rows:
                if rows:
                    self._stage(table, [_storable(table, row) for row in rows])
                    self._run(_merge(table), self._project)
            self._insert_messages(batch.new_messages)
            self._change_messages(batch.changed_messages, batch.life_bytes_max)
            if batch.forgotten:
                self._run(
                    "UPDATE signal_queue SET remembered = false WHERE project = %s AND seq = ANY(%s)",
                    self._project,
                    batch.forgotten,
                )
            for kind, id_ in batch.removed:
                self._run(history.DROP_DOCUMENT, self._project, kind, id_)
            for queue in batch.queues:
                self._write_queue(queue)
            self._drop_threads(batch.oldest_thread)
            seq, document = batch.standing.seq, _PACK.encode(batch.standing)
            self._run(history.STAND, self._project, seq, document, document_checksum(seq, document))

    def _insert_messages(self, rows: Iterable[Row]) -> None:
        """Copy the rows of new messages into their table."""
        project = self._project
        with self._connection.cursor() as cursor, cursor.copy(_COPY_MESSAGES.encode()) as out:
            out.set_types(_COPY_TYPES)
            for row in rows:
                out.write_row(_binary_message(project, _storable(MESSAGES, whole_message(row))))

    def _change_messages(self, rows: Iterable[Row], life_bytes_max: int) -> None:
        """Update the rows of messages that are in the table."""
        some = [_storable(MESSAGES, row)[CHANGING_VALUES] for row in rows]
        if some:
            self._stage(_CHANGED_MESSAGES, some)
            self._run(_change(_CHANGED_MESSAGES, life_bytes_max), self._project)

    def _stage(self, table: Table, rows: Iterable[Row]) -> None:
        """Copy rows into a temporary table."""
        create, copy = _staging(table)
        self._run(create)
        bodies = [place for place, column in enumerate(table.columns) if column.kind is Kind.BODY]
        with self._connection.cursor() as cursor, cursor.copy(copy.encode()) as out:
            for row in rows:
                out.write_row(_decoded(row, bodies))

    def _write_queue(self, queue: StoredQueue) -> None:
        if queue.added:
            first = queue.end - len(queue.added)
            values = (queue.name, first, len(queue.added), _PACK.encode(queue.added))
            statement = "INSERT INTO lines VALUES (%s, %s, %s, %s, %s, %s)"
            self._run(statement, self._project, *values, chunk_checksum(*values))
        self._run(
            "DELETE FROM lines WHERE project = %s AND name = %s AND first + count <= %s",
            self._project,
            queue.name,
            queue.head,
        )

    def _drop_threads(self, oldest: str | None) -> None:
        if oldest is None:
            self._run("DELETE FROM threads WHERE project = %s", self._project)
        else:
            self._run(history.DROP_THREADS, self._project, self._project, oldest)

    def harden(self) -> None:
        """Do nothing: pruning the journal commits later in the same log as these tables."""

    def empty(self) -> None:
        """Delete every row of the project, also those of the search index and of segments."""
        with self._transaction():
            for name in ("signal_search", "segments", "lines", "standing", *(table.name for table in RECOVERED)):
                self._run(f"DELETE FROM {name} WHERE project = %s", self._project)

    def back_up(self, pause: Callable[[], None]) -> int:
        """Copy nothing: the server's own backups and standbys have the tables."""
        return self.standing().seq

    def backed_up_seq(self) -> int:
        """Return the last event in the tables."""
        return self.standing().seq

    def rows(self, table: Table, where: str = "", order: str = "") -> Iterator[Row]:
        """Read rows in the order of the table's columns; `where` and `order` are SQL of both stores."""
        columns = ", ".join(history.readable(column.name, column.kind) for column in table.columns)
        query = f"SELECT {columns} FROM {table.name} WHERE project = %s"
        query += (f" AND {where}" if where else "") + (f" ORDER BY {order}" if order else "")
        with (
            translated(JournalUnavailable),
            self._connection.transaction(),
            self._connection.cursor("tocsin_rows", binary=True) as cursor,
        ):
            cursor.itersize = _FETCH
            yield from cursor.execute(query.encode(), (self._project,))

    def stored_queue(self, name: str, seals: Seals | None = None) -> list[tuple[int, int]]:
        """Return the entries of one of the state's queues; raise if a chunk of it is not what was written."""
        statement = "SELECT first, count, entries, checksum FROM lines WHERE project = %s AND name = %s ORDER BY first"
        chunks = self._all(statement, self._project, name)
        return entries_of(name, chunks, self.standing(), f"tables of {self._project}", seals)

    def index(self, limit: int) -> int:
        """Add up to `limit` messages to the search index; return the number added."""
        with self._transaction():
            seqs = self._all(history.UNINDEXED, self._project, self._project, limit)
            if seqs:
                self._run(history.INDEX, self._project, seqs[0][0], seqs[-1][0])
                self._run("UPDATE standing SET indexed_seq = %s WHERE project = %s", seqs[-1][0], self._project)
        return len(seqs)

    def prune(self, before_at: int, limit: int) -> int:
        """Delete up to `limit` ended messages that the state has forgotten and that ended before a time; count them."""
        with self._transaction():
            rows = self._all(history.PRUNABLE, self._project, before_at, limit)
            if rows:
                seqs, broadcasts = [row[0] for row in rows], list({row[1] for row in rows} - {None})
                for statement in history.PRUNE:
                    self._run(statement, self._project, seqs)
                self._run(history.PRUNE_BROADCASTS, self._project, broadcasts)
            self._run(history.PRUNE_SESSIONS, self._project, before_at)
        return len(rows)

    def exported_seq(self) -> int:
        """Return the last sequence number in a segment."""
        statement = "SELECT coalesce(max(last_seq), 0) FROM segments WHERE project = %s"
        return int(self._all(statement, self._project)[0][0])

    def record_segment(self, segment: Segment) -> None:
        """Record a finished segment."""
        with self._transaction():
            self._stage(SEGMENTS, [_storable(SEGMENTS, msgspec.structs.astuple(segment))])
            self._run(_merge(SEGMENTS), self._project)

    def segments(self, after_seq: int, limit: int) -> list[Segment]:
        """List segments by sequence range."""
        return [Segment(*row) for row in self._all(history.SEGMENTS_AFTER, self._project, after_seq, limit)]

    def signals(
        self, message_id: str, viewer: str | None = None, limit: int = LATEST, *, bytes_max: int = LATEST
    ) -> list[Signal]:
        """Find the copies of a message by messageId, or one by signal id, newest first."""
        values = (self._project, message_id.partition(":")[0], message_id, viewer, viewer, limit)
        rows, _ = fitting(self._all(history.BY_ID, *values), limit, bytes_max)
        return [Signal(*row) for row in rows]

    def thread(
        self, correlation_id: str, after: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """List the messages of a thread, oldest first."""
        values = (self._project, correlation_id, after, viewer, viewer, limit + 1)
        return page_of(self._all(history.BY_THREAD, *values), limit, bytes_max)

    def mailbox(
        self, recipient: str, states: Iterable[str], after: int, limit: int, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """List the messages to an agent, oldest first."""
        values = (self._project, recipient, list(states), after, limit + 1)
        return page_of(self._all(history.BY_RECIPIENT, *values), limit, bytes_max)

    def dead_letters(
        self, after: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[DeadLetter]:
        """List the dead letters, in the order in which they became dead letters."""
        rows = self._all(history.DEAD, self._project, after, viewer, viewer, limit + 1)
        return dead_page_of(rows, limit, bytes_max)

    def search(
        self, query: str, before: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """Find messages by words of their payload, newest first."""
        if not query.strip():
            return Page([], None)
        values = (self._project, query.replace("\0", " "), before or LATEST, viewer, viewer, limit + 1)
        return page_of(self._all(history.SEARCH, *values), limit, bytes_max)

    def find(self, wanted: Wanted, before: int, limit: int, depth: int) -> Page[Brief]:
        """Find messages by their columns, newest first; one page covers at most `depth` sequence numbers."""
        if wanted.words and not wanted.words.replace("\0", " ").strip():
            return Page([], None)
        oldest, latest = self._all(history.SPAN, self._project)[0]
        before = before or latest + 1
        floor = max(oldest, before - depth)
        statement, values = history.find(wanted)
        rows = self._all(statement, self._project, *values, before, floor, limit + 1)
        return brief_page_of(rows, limit, floor, oldest)

    def expiring(self, after_at: int, limit: int) -> list[Brief]:
        """List undelivered messages that expire after a time, soonest first."""
        return [Brief(*row) for row in self._all(history.EXPIRING, self._project, after_at, limit)]

    def lives(self, seqs: list[int]) -> dict[int, bytes]:
        """Return the histories of messages by sequence number, as they are stored."""
        return {seq: bytes(life) for seq, life in self._all(history.LIVES, self._project, seqs)}

    def conversations(self, latest: int, limit: int) -> list[Conversation]:
        """Count the latest messages by sender and recipient, most first."""
        return [Conversation(*row) for row in self._all(history.CONVERSATIONS, self._project, latest, limit)]

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._connection.close()

    def _run(self, statement: str, *values: Any) -> None:
        with translated(JournalUnavailable):
            self._connection.execute(statement.encode(), values)

    def _all(self, statement: str, *values: Any) -> list[Row]:
        with translated(JournalUnavailable):
            return self._connection.execute(statement.encode(), values, binary=True).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write only as the owner: a replaced one would overwrite the tables with older data."""
        with translated(JournalUnavailable), self._connection.transaction():
            if not self._all(history.OWNED, self._project, self._epoch):
                raise OwnershipLost(self._project, self._epoch)
            yield


@cache
def _texts(table: Table) -> Callable[[Row], Iterable[str | None]]:
    return table.values_of(*(column.name for column in table.columns if column.kind is Kind.TEXT))


def _storable(table: Table, row: Row) -> Row:
    """Return a row without NUL characters in its text, which PostgreSQL does not store."""
    if "\0" not in "".join(filter(None, _texts(table)(row))):
        return row
    plain = tuple(
        value.replace("\0", "\ufffd") if column.kind is Kind.TEXT and value is not None else value
        for value, column in zip(row, table.columns, strict=True)
        if not is_checksum(column)
    )
    return sealer(table)(plain) if CHECKSUM in table.names else plain


def _decoded(row: Row, bodies: list[int]) -> list[Any]:
    """Return the values of a row with its bodies as text."""
    values = list(row)
    for place in bodies:
        if values[place] is not None:
            values[place] = values[place].decode("utf-8")
    return values


@cache
def _staging(table: Table) -> tuple[str, str]:
    """Return the statements that create the temporary table and copy into it."""
    columns = ", ".join(f"{column.name} {_STAGED[column.kind]}" for column in table.columns)
    create = f"CREATE TEMPORARY TABLE IF NOT EXISTS staged_{table.name} ({columns}) ON COMMIT DELETE ROWS"
    return create, f"COPY pg_temp.staged_{table.name} ({', '.join(table.names)}) FROM STDIN"


@cache
def _merge(table: Table) -> str:
    """Return the statement that inserts or updates the staged rows."""
    values = ", ".join(_stored(column, column.name) for column in table.columns)
    changes = [f"{column.name} = EXCLUDED.{column.name}" for column in table.columns if column.update is Update.SET]
    action = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
    return (
        f"INSERT INTO {table.name} (project, {', '.join(table.names)}) SELECT %s, {values}"
        f" FROM pg_temp.staged_{table.name} ON CONFLICT (project, {table.key}) DO {action}"
    )


@cache
def _change(table: Table, life_bytes_max: int) -> str:
    """Return the statement that updates rows from the staged ones."""
    changes: list[str] = []
    for column in table.columns:
        name, new = column.name, _stored(column, f"new.{column.name}")
        if column.update is Update.SET:
            changes.append(f"{name} = {new}")
        elif column.update is Update.IF_GIVEN:
            changes.append(f"{name} = coalesce({new}, old.{name})")
        elif column.update is Update.APPEND:
            changes.append(
                f"{name} = CASE WHEN length(old.{name}) < {life_bytes_max:d}"
                f" THEN old.{name} || E'\\n' || {new} ELSE old.{name} END"
            )
    return (
        f"UPDATE {table.name} AS old SET {', '.join(changes)} FROM pg_temp.staged_{table.name} AS new"
        f" WHERE old.project = %s AND old.{table.key} = new.{table.key}"
    )


def _stored(column: Column, name: str) -> str:
    """Return the expression that makes the stored value out of a staged one."""
    return f"timestamptz 'epoch' + {name} * interval '1 microsecond'" if column.kind is Kind.TIME else name


def _binary_writer(table: Table) -> Callable[[str, Row], Row]:
    """Build the function that turns a project's name and a row into the values of a binary COPY.

    A time is sent as PostgreSQL stores it: microseconds since 2000. Text that is UTF-8 already is sent as it is.
    """
    sources = {Kind.TIME: "{0} - EPOCH_US if {0} is not None else None"}
    names = [f"column_{column.name}" for column in table.columns]
    values = [sources.get(column.kind, "{0}").format(name) for name, column in zip(names, table.columns, strict=True)]
    source = f"def function(project, row):\n    {', '.join(names)}, = row\n    return (project, {', '.join(values)})"
    function: Callable[[str, Row], Row] = compiled(source, EPOCH_US=_EPOCH_US)
    return function


_COPY_MESSAGES = f"COPY signal_queue (project, {', '.join(MESSAGES.names)}) FROM STDIN (FORMAT BINARY)"
_COPY_TYPES = ["text", *(_BINARY[column.kind] for column in MESSAGES.columns)]
_binary_message = _binary_writer(MESSAGES)
#: Columns that a change of a message may set, and the key.
_CHANGED_MESSAGES = Table(MESSAGES.name, MESSAGES.key, MESSAGES.columns[CHANGING_VALUES])

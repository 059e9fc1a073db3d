"""The tables in a SQLite file."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tocsin.journal.checksums import Seals, chunk_checksum, document_checksum, verified
from tocsin.journal.columns import Kind, Row, Table
from tocsin.journal.errors import JournalUnavailable, TablesDamaged
from tocsin.journal.files import sync_file
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
from tocsin.journal.sqlite import history, statements
from tocsin.journal.sqlite.connection import connect, pragma, translated
from tocsin.journal.sqlite.schema import migrate
from tocsin.journal.table_definitions import CHANGING_VALUES, MESSAGES, RECOVERED, SEGMENTS, USUAL
from tocsin.journal.tables import QUEUES, Batch, Segment, Standing, StoredQueue, entries_of, standing_of

__all__ = ["BACKUP", "SqliteTables"]

#: Name of the backup of the tables in the project's directory.
BACKUP = "tables.backup.db"

#: Columns that a change of a message binds, and those that must have a value in any row.
_CHANGING = MESSAGES.names[CHANGING_VALUES]
_REQUIRED = tuple(
    name for name in MESSAGES.names if name not in _CHANGING and USUAL.constants.get(name, name) is not None
)
_USUAL_VALUES = tuple(USUAL.constants.values())
#: Statements for new messages; the first bind the fewest values.
_NEW_STATEMENTS = (statements.INSERT_ORDINARY, statements.INSERT_USUAL, statements.INSERT_ANY)
#: Pages copied between two pauses of a backup.
_BACKUP_PAGES = 64
#: Rows checked between two of them.
_PAUSE_ROWS = 16
_PACK = msgspec.msgpack.Encoder()
_NAME = "tables.db"
#: Position of tables to which nothing has been written.
_NEW_STANDING = (0, b"", None)
#: A batch has many rows of one to two KiB: with large pages it takes fewer system calls than with 4 KiB.
_PAGE_SIZE = 16 * 1024
_WAL_BYTES_MAX = 64 * 1024 * 1024
#: Room for the pages that many rows of a batch change. A page that was filled and is not changed again may leave the
#: cache before the batch ends: it is written once in any case, and while the processor's own cache still has it.
_CACHE_KIB = 4 * 1024


class SqliteTables:
    """One project's tables."""

    def __init__(self, path: Path, vfs: str | None = None) -> None:
        self._path = path
        self._has_written = False
        # A power failure may undo the last batches as a whole. The journal still has their events, because it is pruned
        # only up to what has been hardened. Syncing each batch would delay the journal's own syncs on the same disk.
        self._connection = connect(path, "NORMAL", vfs, _PAGE_SIZE, damaged=TablesDamaged)
        try:
            pragma(self._connection, f"cache_size=-{_CACHE_KIB}")
            migrate(self._connection, "tables", damaged=TablesDamaged)
        except BaseException:
            self._connection.close()
            raise

    def standing(self) -> Standing:
        """Return the position of the tables in the journal."""
        row = next(iter(self._all("SELECT seq, document, checksum FROM standing", ())), None)
        return Standing() if row == _NEW_STANDING else standing_of(row, _NAME)

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction."""
        if not self._has_written:
            # SQLite copies the pages that a statement for several rows changes, lest it fail half-way: into a temporary
            # file otherwise. Connections that only read keep the file, because they may sort more than fits in memory.
            with _translated():
                pragma(self._connection, "temp_store=MEMORY")
            self._has_written = True
        with self._transaction():
            run = self._connection.executemany
            for table, rows in batch.rows:
                self._write_rows(table, rows)
            self._insert_messages(batch.new_messages)
            self._change_messages(batch.changed_messages, batch.life_bytes_max)
            if batch.forgotten:
                self._connection.execute(history.FORGET, (msgspec.json.encode(batch.forgotten).decode(),))
            run("DELETE FROM documents WHERE kind = ? AND id = ?", batch.removed)
            for queue in batch.queues:
                self._write_queue(queue)
            self._drop_threads(batch.oldest_thread)
            seq, document = batch.standing.seq, _PACK.encode(batch.standing)
            values = (seq, document, document_checksum(seq, document))
            self._connection.execute("UPDATE standing SET seq = ?, document = ?, checksum = ?", values)
        self._checkpoint()

    def _write_rows(self, table: Table, rows: list[Row]) -> None:
        """Insert rows, or update those that are there."""
        for begin, size in statements.parts(len(rows)):
            values = list(chain.from_iterable(rows[begin : begin + size]))
            self._connection.execute(statements.upsert(table, size), values)

    def _insert_messages(self, rows: Iterable[Row]) -> None:
        """Insert the rows of new messages, each by the statement that binds the fewest of its values."""
        ordinary, usual, new = (_RowsWriter(self._connection, one) for one in _NEW_STATEMENTS)
        short, usual_width = statements.INSERT_ORDINARY.width, statements.INSERT_USUAL.width
        for row in rows:
            if len(row) == short:
                ordinary.add(row)
            elif row[usual_width:] == _USUAL_VALUES:
                usual.add(row[:usual_width])
            else:
                new.add(row)
        for writer in (ordinary, usual, new):
            writer.finish()

    def _change_messages(self, rows: Iterable[Row], life_bytes_max: int) -> None:
        """Update the rows of messages that are in the table."""
        writer = _RowsWriter(self._connection, statements.change(MESSAGES, _CHANGING, _REQUIRED, life_bytes_max))
        for row in rows:
            writer.add(row[CHANGING_VALUES])
        writer.finish()

    def _write_queue(self, queue: StoredQueue) -> None:
        if queue.added:
            first = queue.end - len(queue.added)
            values = (queue.name, first, len(queue.added), _PACK.encode(queue.added))
            self._connection.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", (*values, chunk_checksum(*values)))
        self._connection.execute("DELETE FROM lines WHERE name = ? AND first + count <= ?", (queue.name, queue.head))

    def _drop_threads(self, oldest: str | None) -> None:
        if oldest is None:
            self._connection.execute("DELETE FROM threads")
        else:
            self._connection.execute(
                "DELETE FROM threads WHERE touched_seq < (SELECT touched_seq FROM threads WHERE correlation_id = ?)",
                (oldest,),
            )

    def rows(self, table: Table, where: str = "", order: str = "") -> Iterator[Row]:
        """Read rows in the order of the table's columns; `where` and `order` are SQL of both stores."""
        columns = ", ".join(
            f"CAST({column.name} AS BLOB)" if column.kind is Kind.BODY else column.name for column in table.columns
        )
        sql = f"SELECT {columns} FROM {table.name}"  # noqa: S608
        sql += (f" WHERE {where}" if where else "") + (f" ORDER BY {order}" if order else "")
        with _translated():
            yield from self._connection.execute(sql)

    def stored_queue(self, name: str, seals: Seals | None = None) -> list[tuple[int, int]]:
        """Return the entries of one of the state's queues; raise if a chunk of it is not what was written."""
        chunks = self._all("SELECT first, count, entries, checksum FROM lines WHERE name = ? ORDER BY first", (name,))
        return entries_of(name, chunks, self.standing(), _NAME, seals)

    def index(self, limit: int) -> int:
        """Add up to `limit` messages to the search index; return the number added."""
        with self._transaction():
            seqs = self._connection.execute(history.UNINDEXED, (limit,)).fetchall()
            if seqs:
                self._connection.execute(history.INDEX, (seqs[0][0], seqs[-1][0]))
                self._connection.execute("UPDATE standing SET indexed_seq = ?", seqs[-1])
        return len(seqs)

    def prune(self, before_at: int, limit: int) -> int:
        """Delete up to `limit` ended messages that the state has forgotten and that ended before a time; count them."""
        with self._transaction():
            rows = self._connection.execute(
                "SELECT seq, broadcast_seq FROM signal_queue WHERE remembered = 0 AND ended_at < ? LIMIT ?",
                (before_at, limit),
            ).fetchall()
            run = self._connection.executemany
            run("DELETE FROM signal_search WHERE rowid = ?", ((seq,) for seq, _ in rows))
            run("DELETE FROM signal_queue WHERE seq = ?", ((seq,) for seq, _ in rows))
            run(history.PRUNE_BROADCASTS, ((broadcast,) for broadcast in {row[1] for row in rows} - {None}))
            self._connection.execute("DELETE FROM sessions WHERE closed_at < ?", (before_at,))
        return len(rows)

    def exported_seq(self) -> int:
        """Return the last sequence number in a segment."""
        return int(self._get("SELECT coalesce(max(last_seq), 0) FROM segments") or 0)

    def record_segment(self, segment: Segment) -> None:
        """Record a finished segment."""
        with self._transaction():
            self._write_rows(SEGMENTS, [msgspec.structs.astuple(segment)])

    def segments(self, after_seq: int, limit: int) -> list[Segment]:
        """List segments by sequence range."""
        return [Segment(*row) for row in self._all(history.SEGMENTS_AFTER, (after_seq, limit))]

    def signals(
        self, message_id: str, viewer: str | None = None, limit: int = LATEST, *, bytes_max: int = LATEST
    ) -> list[Signal]:
        """Find the copies of a message by messageId, or one by signal id, newest first."""
        values = (message_id.partition(":")[0], message_id, viewer, limit)
        with _translated():
            rows, _ = fitting(self._connection.execute(history.BY_ID, values), limit, bytes_max)
        return [Signal(*row) for row in rows]

    def thread(
        self, correlation_id: str, after: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """List the messages of a thread, oldest first."""
        with _translated():
            rows = self._connection.execute(history.BY_THREAD, (correlation_id, after, limit + 1, viewer))
            return page_of(rows, limit, bytes_max)

    def mailbox(
        self, recipient: str, states: Iterable[str], after: int, limit: int, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """List the messages to an agent, oldest first."""
        wanted = msgspec.json.encode(list(states)).decode()
        with _translated():
            rows = self._connection.execute(history.BY_RECIPIENT, (recipient, wanted, after, limit + 1))
            return page_of(rows, limit, bytes_max)

    def dead_letters(
        self, after: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[DeadLetter]:
        """List the dead letters, in the order in which they became dead letters."""
        with _translated():
            rows = self._connection.execute(history.DEAD, (after, limit + 1, viewer))
            return dead_page_of(rows, limit, bytes_max)

    def search(
        self, query: str, before: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """Find messages by words of their payload, newest first."""
        words = _quoted(query)
        if not words:
            return Page([], None)
        with _translated():
            rows = self._connection.execute(history.SEARCH, (words, before or LATEST, limit + 1, viewer))
            return page_of(rows, limit, bytes_max)

    def find(self, wanted: Wanted, before: int, limit: int, depth: int) -> Page[Brief]:
        """Find messages by their columns, newest first; one page covers at most `depth` sequence numbers."""
        words = _quoted(wanted.words)
        if wanted.words and not words:
            return Page([], None)
        oldest, latest = self._all("SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM signal_queue", ())[0]
        before = before or latest + 1
        floor = max(oldest, before - depth)
        statement, values = history.find(wanted, words)
        return brief_page_of(self._all(statement, (*values, before, floor, limit + 1)), limit, floor, oldest)

    def expiring(self, after_at: int, limit: int) -> list[Brief]:
        """List undelivered messages that expire after a time, soonest first."""
        return [Brief(*row) for row in self._all(history.EXPIRING, (after_at, limit))]

    def lives(self, seqs: list[int]) -> dict[int, bytes]:
        """Return the histories of messages by sequence number, as they are stored."""
        return dict(self._all(history.LIVES, (msgspec.json.encode(seqs).decode(),)))

    def conversations(self, latest: int, limit: int) -> list[Conversation]:
        """Count the latest messages by sender and recipient, most first."""
        return [Conversation(*row) for row in self._all(history.CONVERSATIONS, (latest, limit))]

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(apsw.Error):
            self._connection.close()

    def harden(self) -> None:
        """Make every batch so far safe from a power failure."""
        with _translated():
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def back_up(self, pause: Callable[[], None]) -> int:
        """Copy the tables to their backup, once every row of the copy has been verified; return its last event."""
        backup = self._path.with_name(BACKUP)
        fresh = backup.with_name(f"{BACKUP}.new")
        with _translated():
            fresh.unlink(missing_ok=True)
            target = apsw.Connection(str(fresh))
            try:
                with target.backup("main", self._connection, "main") as copy:
                    while not copy.done:
                        copy.step(_BACKUP_PAGES)
                        pause()
            finally:
                target.close()
        copied = SqliteTables(fresh)
        try:
            standing = copied.standing()
            seals = Seals(standing.sealed)
            for table, where in RECOVERED.items():
                for number, _ in enumerate(verified(table, copied.rows(table, where), seals)):
                    if not number % _PAUSE_ROWS:
                        pause()
            for name in QUEUES:
                copied.stored_queue(name, seals)
                pause()
        finally:
            copied.close()
        with _translated():
            sync_file(fresh)
            fresh.replace(backup)
            sync_file(backup.parent)
        return standing.seq

    def backed_up_seq(self) -> int:
        """Return the last event in the backup of the tables; 0 where there is none."""
        backup = self._path.with_name(BACKUP)
        if not backup.exists():
            return 0
        tables = SqliteTables(backup)
        try:
            return tables.standing().seq
        finally:
            tables.close()

    def _checkpoint(self) -> None:
        wal = self._path.with_name(self._path.name + "-wal")
        if wal.exists() and wal.stat().st_size > _WAL_BYTES_MAX:
            with _translated(), contextlib.suppress(apsw.BusyError):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with _translated():
            return list(self._connection.execute(sql, values))

    def _get(self, sql: str) -> Any:
        with _translated():
            return self._connection.execute(sql).get

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with _translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


class _RowsWriter:
    """Collects the values of rows, and runs a statement whenever they are as many as its largest form takes."""

    def __init__(self, connection: apsw.Connection, statement: statements.RowsStatement) -> None:
        self._connection = connection
        self._statement = statement
        self._full = statement.width * statement.rows_max
        self._values: list[Any] = []

    def add(self, row: Row) -> None:
        """Add the values to bind for one row."""
        values = self._values
        values += row
        if len(values) == self._full:
            self._connection.execute(self._statement.text(self._statement.rows_max), values)
            self._values = []

    def finish(self) -> None:
        """Write the rows that are left, with statements for fewer of them."""
        width, values = self._statement.width, self._values
        for begin, size in statements.parts(len(values) // width, self._statement.rows_max):
            self._connection.execute(self._statement.text(size), values[begin * width : (begin + size) * width])


def _translated() -> contextlib.AbstractContextManager[None]:
    return translated(JournalUnavailable, _NAME, TablesDamaged)


def _quoted(query: str) -> str:
    """Quote the words of a query, so that the index treats none of them as syntax."""
    return " ".join('"' + word.replace('"', '""') + '"' for word in query.replace("\0", " ").split())

"""Consistent copies of a project's databases, taken while a hub writes to them.

Theory of operation. A read transaction in WAL mode sees the database as it was when it began, for as long as it lasts.
So a transaction is begun in the tables and then one in the journal, and both databases are copied out of them. The
tables follow the journal, hence they never include an event that the copied journal lacks. The other way round the
journal may have been pruned between the two, up to events that the seen tables lack; then both are begun again.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tocsin.journal.errors import JournalDamaged, JournalUnavailable
from tocsin.journal.files import sync_file
from tocsin.journal.sqlite import commit_note
from tocsin.journal.sqlite.commit_note import CommitNote
from tocsin.journal.sqlite.connection import make_private, pragma, translated

__all__ = ["CopiedProject", "copy_database", "copy_project"]

#: Pages copied between two pauses.
_PAGES = 256
#: Attempts to see the journal and the tables without a pruning between them.
_ATTEMPTS = 20
_BUSY_MS = 30_000
_JOURNAL, _TABLES = "journal.db", "tables.db"
_LAST = "SELECT coalesce((SELECT max(last_seq) FROM journal), 0), (SELECT pruned_seq FROM ownership)"


class CopiedProject(msgspec.Struct, frozen=True):
    """What a copy of the journal and the tables has."""

    #: Number of the last event.
    last_seq: int
    #: Segment files that the tables know, relative to the folder of segments.
    segments: list[str]


def copy_project(source: Path, target: Path, pause: Callable[[], None] = lambda: None) -> CopiedProject:
    """Copy the journal and the tables of a project; a hub may have it open. `pause` is called between two steps."""
    for _ in range(_ATTEMPTS):
        with contextlib.ExitStack() as reading:
            tables = None
            if (source / _TABLES).exists():
                tables = reading.enter_context(_reading(source / _TABLES))
            tables_seq = 0 if tables is None else _ask(tables, "SELECT coalesce(max(seq), 0) FROM standing")[0][0]
            journal = reading.enter_context(_reading(source / _JOURNAL))
            last_seq, pruned_seq = _ask(journal, _LAST)[0]
            if (pruned_seq or 0) > tables_seq:
                continue
            segments: list[str] = []
            if tables is not None:
                segments = [path for (path,) in _ask(tables, "SELECT path FROM segments ORDER BY first_seq")]
                _copy(tables, target / _TABLES, pause)
            _copy(journal, target / _JOURNAL, pause)
        last_seq = max(last_seq, pruned_seq or 0)
        note = CommitNote(target / commit_note.NAME)
        try:
            note.reset(last_seq, flushed=True)
        finally:
            note.close()
        sync_file(target / commit_note.NAME)
        return CopiedProject(last_seq, segments)
    raise JournalDamaged(f"{_JOURNAL}: it is pruned up to event {pruned_seq}, but {_TABLES} ends with {tables_seq}")


def copy_database(source: Path, target: Path, pause: Callable[[], None] = lambda: None) -> None:
    """Copy one database as it is at this moment; others may write to it."""
    with _reading(source) as connection:
        _ask(connection, "SELECT count(*) FROM sqlite_schema")
        _copy(connection, target, pause)


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[apsw.Connection]:
    """Begin a read transaction; what it sees is fixed by its first question."""
    with translated(JournalUnavailable, file.name):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(_BUSY_MS)
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()


def _ask(connection: apsw.Connection, statement: str) -> list[Any]:
    return connection.execute(statement).fetchall()


def _copy(source: apsw.Connection, file: Path, pause: Callable[[], None]) -> None:
    """Copy what a transaction sees to a new file, and bring it to disk."""
    with translated(JournalUnavailable, file.name):
        make_private(file)
        target = apsw.Connection(str(file))
        try:
            with target.backup("main", source, "main") as copy:
                while not copy.done:
                    copy.step(_PAGES)
                    pause()
            # The copy is one file, without a log beside it; a hub that opens it turns the log on again.
            pragma(target, "journal_mode=DELETE")
        finally:
            target.close()
        sync_file(file)

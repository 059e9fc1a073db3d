"""Verification of a project's directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from tocsin.journal.base import Group
from tocsin.journal.errors import CommitsLost, JournalError, JournalUnavailable
from tocsin.journal.sqlite import commit_note
from tocsin.journal.sqlite.connection import pragma, translated
from tocsin.journal.sqlite.tables import BACKUP, SqliteTables
from tocsin.journal.sqlite.tokens import TOKENS, has_checksums, token_rows
from tocsin.journal.verification import Examined, examine_journal, examine_tables, examine_tokens

__all__ = ["verify_directory"]

#: Version of the journal's schema from which on groups have a chain value.
_CHAINED = 2
_GROUPS = """
SELECT first_seq, last_seq, at, epoch, CAST(events AS BLOB), checksum, {chain} FROM journal ORDER BY first_seq"""

_FACTS = "SELECT pruned_seq, {pruned_chain}, (SELECT coalesce(max(last_seq), 0) FROM journal) FROM ownership"


def verify_directory(path: Path) -> Iterator[Examined]:
    """Read everything in a project's directory, each part in one transaction; a hub may have it open."""
    for name in ("journal.db", "tables.db", TOKENS):
        if (path / name).exists():
            yield _structure(path / name)
    journal = Examined("journal")
    last_seq = 0
    try:
        with _reading(path / "journal.db") as connection:
            # A directory of an earlier version has no chain until a hub has opened it.
            chained = int(str(pragma(connection, "user_version"))) >= _CHAINED
            facts: list[Any] = connection.execute(
                _FACTS.format(pruned_chain="pruned_chain" if chained else "NULL")
            ).fetchall()
            pruned_seq, pruned_chain, last_seq = facts[0] if facts else (0, 0, 0)
            last_seq = max(last_seq, pruned_seq)
            groups = (Group(*row) for row in connection.execute(_GROUPS.format(chain="chain" if chained else "NULL")))
            journal = examine_journal(groups, pruned_seq, pruned_chain, "journal.db")
    except JournalError as error:
        journal.add(str(error))
    yield journal
    yield _note(path, last_seq)
    for name in ("tables.db", BACKUP):
        if (path / name).exists():
            yield from _tables(path / name)
    if (path / TOKENS).exists():
        yield _tokens(path / TOKENS)


def _structure(file: Path) -> Examined:
    """Let SQLite check the structure of a file: its pages, its indexes and its constraints."""
    found = Examined(f"structure of {file.name}")
    try:
        with _reading(file) as connection:
            for (line,) in connection.execute("PRAGMA integrity_check"):
                found.read += 1
                if line != "ok":
                    found.add(str(line))
    except JournalError as error:
        found.add(str(error))
    return found


def _note(path: Path, last_seq: int) -> Examined:
    found = Examined("last confirmed commit")
    noted = commit_note.noted(path / commit_note.NAME)
    found.note = f"event {noted.seq}" if noted.seq else "not noted"
    if noted.seq > last_seq:
        found.add(str(CommitsLost("journal.db", last_seq, noted.seq)))
    return found


def _tables(file: Path) -> Iterator[Examined]:
    try:
        tables = SqliteTables(file)
    except JournalError as error:
        found = Examined(file.name)
        found.add(str(error))
        yield found
        return
    try:
        for found in examine_tables(tables):
            found.what = f"{file.name}, {found.what}"
            yield found
    finally:
        tables.close()


def _tokens(file: Path) -> Examined:
    """Read every token; those of an earlier version have no checksums until a hub has opened the file."""
    found = Examined("tokens")
    try:
        with _reading(file) as connection:
            if has_checksums(connection):
                found = examine_tokens(token_rows(connection))
            else:
                found.read = found.unverified = int(str(connection.execute("SELECT count(*) FROM grants").get))
    except JournalError as error:
        found.add(str(error))
    found.what = f"{file.name}, {found.what}"
    return found


@contextmanager
def _reading(file: Path) -> Iterator[apsw.Connection]:
    """Open a file to read it in one transaction."""
    with translated(JournalUnavailable, file.name):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

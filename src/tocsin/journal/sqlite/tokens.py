"""The file of a project's tokens, `tokens.db`: opening it, and reading its rows also where some are damaged."""

from collections.abc import Iterator
from pathlib import Path

import apsw

from tocsin.journal.checksums import CHECKSUM
from tocsin.journal.columns import Kind, Row
from tocsin.journal.errors import JournalDamaged, JournalUnavailable
from tocsin.journal.sqlite import connection as sqlite
from tocsin.journal.sqlite.schema import migrate
from tocsin.journal.token_table import GRANTS

__all__ = ["TOKENS", "has_checksums", "open_tokens", "token_rows"]

#: Name of the file.
TOKENS = "tokens.db"
#: Version of the schema from which on rows have checksums.
_SEALED = 2
_TEXTS = tuple(index for index, column in enumerate(GRANTS.columns) if column.kind is Kind.TEXT)
#: A text that is not UTF-8 any more can be read only as bytes.
_READ = "SELECT " + ", ".join(
    f"CAST({column.name} AS BLOB)" if column.kind is Kind.TEXT else column.name for column in GRANTS.columns
)


def open_tokens(folder: Path) -> apsw.Connection:
    """Open the tokens of a project, and bring the file up to date; only its owner can read it."""
    connection = sqlite.connect(folder / TOKENS, "FULL")
    try:
        with sqlite.translated(JournalUnavailable, TOKENS):
            if not has_checksums(connection) and (columns := _columns(connection)) and "types" not in columns:
                # The first version's tokens grant any type.
                connection.execute("ALTER TABLE grants ADD COLUMN types TEXT")
        migrate(connection, "tokens")
    except BaseException:
        connection.close()
        raise
    return connection


def token_rows(connection: apsw.Connection, token_id: str | None = None) -> Iterator[Row]:
    """Return all rows, oldest first, or that of one token; a damaged text is returned as bytes."""
    if token_id is None:
        found = connection.execute(f"{_READ} FROM grants ORDER BY created_at, token_id")
    else:
        found = connection.execute(f"{_READ} FROM grants WHERE token_id = ?", (token_id,))
    for row in found:
        values = list(row)
        for index in _TEXTS:
            values[index] = _text(values[index])
        yield tuple(values)


def has_checksums(connection: apsw.Connection) -> bool:
    """Tell whether a file has checksums; raise if its version says otherwise: they would be made anew."""
    found = CHECKSUM in _columns(connection)
    if found != (int(str(sqlite.pragma(connection, "user_version"))) >= _SEALED):
        raise JournalDamaged(f"{TOKENS}: its table is not that of its version")
    return found


def _columns(connection: apsw.Connection) -> list[str]:
    return [str(row[1]) for row in connection.execute("PRAGMA table_info(grants)")]


def _text(value: object) -> object:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value

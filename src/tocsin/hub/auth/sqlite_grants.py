"""Grants in a SQLite file beside the journal."""

import contextlib
from pathlib import Path

import apsw

from tocsin.hub.auth.store import grants_of, must_still_be_live, row_of
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.clock import Clock
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.sqlite import connection as sqlite
from tocsin.journal.sqlite.tokens import TOKENS, has_checksums, open_tokens, token_rows
from tocsin.journal.token_table import GRANTS, damage_of

__all__ = ["SqliteGrants", "project_of_grants"]

_WRITE = f"INSERT OR REPLACE INTO grants VALUES ({', '.join('?' * len(GRANTS.names))})"  # noqa: S608
_PROJECT = GRANTS.names.index("project")


class SqliteGrants:
    """Grants in a file of their own in the project's directory, readable by its owner only."""

    def __init__(self, folder: Path, project: str) -> None:
        self._project = project
        self._version: object = None
        self._clock = Clock()
        #: Ids of the tokens whose row is damaged.
        self.damaged = frozenset[str]()
        self._where = str(folder / TOKENS)
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = open_tokens(folder)

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""
        with sqlite.translated(JournalUnavailable, TOKENS):
            found, self.damaged = grants_of(token_rows(self._connection), self._project, self._where)
        return found

    def write(self, grants: list[Grant], by: str | None = None, at: int = 0) -> None:
        """Make new or changed grants durable, all or none; other processes see them with their next check."""
        with sqlite.translated(JournalUnavailable, TOKENS):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if by is not None:
                    for row in token_rows(self._connection, by):
                        must_still_be_live(row, at, grants)
                self._connection.executemany(_WRITE, [row_of(grant) for grant in grants])
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(apsw.Error):  # of a transaction that SQLite has ended itself
                    self._connection.execute("ROLLBACK")
                raise

    def changed(self) -> bool:
        """Tell whether another process may have written since the last call."""
        before = self._version
        with sqlite.translated(JournalUnavailable, TOKENS):
            self._version = sqlite.pragma(self._connection, "data_version")
        return before != self._version

    def now(self) -> int:
        """Return the time of this machine."""
        return self._clock.now()

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(Exception):
            self._connection.close()


def project_of_grants(folder: Path) -> str | None:
    """Return the project whose grants a folder has, without changing it; null if it has none that is intact."""
    if not (folder / TOKENS).exists():
        return None
    with sqlite.translated(JournalUnavailable, TOKENS):
        connection = apsw.Connection(str(folder / TOKENS), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if not has_checksums(connection):
                found = connection.execute("SELECT project FROM grants ORDER BY created_at LIMIT 1").get
                return None if found is None else str(found)
            return next((str(row[_PROJECT]) for row in token_rows(connection) if damage_of(row) is None), None)
        finally:
            connection.close()

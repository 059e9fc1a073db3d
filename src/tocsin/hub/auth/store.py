"""Stores of grants: a SQLite file beside the journal, or a table in the journal's PostgreSQL.

Grants are few and change rarely, so they are read once, at the start, and every change is written at once. Only the hub
that owns the project writes. A store that fails raises `JournalError`; writing the same grants again is safe.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw
import msgspec

from tocsin.core.errors import InvariantViolation
from tocsin.hub.auth.tokens import Grant
from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.journal.sqlite import connection as sqlite

__all__ = ["AnnouncedGrants", "FollowedGrants", "GrantStore", "PostgresGrants", "SqliteGrants", "project_of_grants"]

_log = logging.getLogger("tocsin.auth")

Result = TypeVar("Result")

_COLUMNS = "token_id, project, agent, role, admin, digest, created_at, expires_at, revoked_at, types"
_FILE = "tokens.db"
# The statements are put together from constants of this module.
# ruff: noqa: S608
_SQLITE_TABLE = """
CREATE TABLE IF NOT EXISTS grants (
  token_id TEXT NOT NULL PRIMARY KEY, project TEXT NOT NULL, agent TEXT NOT NULL, role TEXT NOT NULL,
  admin INTEGER NOT NULL, digest BLOB NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER,
  types TEXT
) STRICT"""
#: The files of earlier versions have no types: their tokens grant any.
_SQLITE_COLUMN = "ALTER TABLE grants ADD COLUMN types TEXT"
#: A value that differs once a grant has been added or changed.
_POSTGRES_VERSION = """
SELECT count(*), sum(hashtextextended(found::text, 0)) FROM tocsin.grants AS found WHERE project = %s"""
_UPSERT = "ON CONFLICT (token_id) DO UPDATE SET expires_at = excluded.expires_at, revoked_at = excluded.revoked_at"


class GrantStore(Protocol):
    """Keeps the grants of one project."""

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""

    def write(self, grants: list[Grant]) -> None:
        """Make new or changed grants durable, all or none."""

    def changed(self) -> bool:
        """Tell whether another process may have written since the last call."""

    def close(self) -> None:
        """Close the database."""


class SqliteGrants:
    """Grants in a file of their own in the project's directory, readable by its owner only."""

    def __init__(self, folder: Path, project: str) -> None:
        self._project = project
        self._version: object = None
        path = folder / _FILE
        folder.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._connection = sqlite.connect(path, "FULL")
        with sqlite.translated(JournalUnavailable, _FILE):
            self._connection.execute(_SQLITE_TABLE)
            columns = [row[1] for row in self._connection.execute("PRAGMA table_info(grants)")]
            if "types" not in columns:
                self._connection.execute(_SQLITE_COLUMN)

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""
        with sqlite.translated(JournalUnavailable, _FILE):
            rows: list[Any] = self._connection.execute(
                f"SELECT {_COLUMNS} FROM grants WHERE project = ? ORDER BY created_at, token_id", (self._project,)
            ).fetchall()
        return [_grant(row) for row in rows]

    def write(self, grants: list[Grant]) -> None:
        """Make new or changed grants durable, all or none."""
        statement = f"INSERT INTO grants ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {_UPSERT}"
        with sqlite.translated(JournalUnavailable, _FILE), self._connection:
            self._connection.executemany(statement, [_row(grant) for grant in grants])

    def changed(self) -> bool:
        """Tell whether another process may have written since the last call."""
        before = self._version
        with sqlite.translated(JournalUnavailable, _FILE):
            self._version = sqlite.pragma(self._connection, "data_version")
        return before != self._version

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(Exception):
            self._connection.close()


class PostgresGrants:
    """Grants in a table beside the journal."""

    def __init__(self, dsn: str, project: str, timeout_s: float | None = None) -> None:
        from tocsin.journal.postgres import connection as postgres  # its driver is optional
        from tocsin.journal.postgres.schemas import migrate

        self._project = project
        self._version: object = None
        self._translated = postgres.translated
        self._connect = partial(postgres.connect, dsn, "tokens", timeout_s=timeout_s)
        self._connection = self._connect()
        try:
            migrate(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""
        statement = f"SELECT {_COLUMNS} FROM tocsin.grants WHERE project = %s ORDER BY created_at, token_id".encode()
        rows = self._done(lambda: self._connection.execute(statement, (self._project,)).fetchall())
        return [_grant(row) for row in rows]

    def write(self, grants: list[Grant]) -> None:
        """Make new or changed grants durable, all or none."""
        statement = (
            f"INSERT INTO tocsin.grants ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) {_UPSERT}".encode()
        )

        def write() -> None:
            with self._connection.transaction():
                for grant in grants:
                    self._connection.execute(statement, _row(grant))

        self._done(write)

    def changed(self) -> bool:
        """Tell whether another process may have written since the last call."""
        before = self._version
        self._version = self._done(lambda: self._connection.execute(_POSTGRES_VERSION, (self._project,)).fetchone())
        return before != self._version

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._connection.close()

    def _done(self, work: Callable[[], Result]) -> Result:
        """Run something on the open connection, or once more on a new one: the server may have been restarted."""
        try:
            with self._translated(JournalUnavailable):
                return work()
        except JournalUnavailable:
            self.close()
            self._connection = self._connect()
        with self._translated(JournalUnavailable):
            return work()


class FollowedGrants:
    """Grants of another store, read in a thread: no caller waits for a database, and none is refused while it is down.

    What another process writes is known here within `interval_s`.
    """

    def __init__(self, store: GrantStore, interval_s: float) -> None:
        self._store = store
        self._interval_s = interval_s
        self._store.changed()
        self._grants = store.load()
        self._is_new = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="tokens", daemon=True)
        self._thread.start()

    def load(self) -> list[Grant]:
        """Return the grants as they were last read, oldest first."""
        self._is_new = False
        return self._grants

    def write(self, grants: list[Grant]) -> None:
        """Refuse: grants are written by the process that owns the project."""
        raise InvariantViolation("tokens of a project that another process owns are not written")

    def changed(self) -> bool:
        """Tell whether grants have been read since they were last returned."""
        return self._is_new

    def close(self) -> None:
        """Stop reading, and close the store."""
        self._closing.set()
        self._thread.join()
        self._store.close()

    def _follow(self) -> None:
        unread = False
        while not self._closing.wait(self._interval_s):
            try:
                unread = self._store.changed() or unread
                if unread:
                    self._grants, self._is_new, unread = self._store.load(), True, False
            except JournalError as error:
                _log.warning("tokens are used as they were last read: %s", error)


class AnnouncedGrants:
    """Grants of another store; the ids of tokens are announced before the tokens are stored."""

    def __init__(self, store: GrantStore, announce: Callable[[list[str]], None]) -> None:
        self._store = store
        self._announce = announce

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""
        return self._store.load()

    def write(self, grants: list[Grant]) -> None:
        """Make new or changed grants durable, all or none."""
        self._announce([grant.token_id for grant in grants])
        self._store.write(grants)

    def changed(self) -> bool:
        """Tell whether another process may have written since the last call."""
        return self._store.changed()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _grant(row: Any) -> Grant:
    token_id, project, agent, role, admin, digest, created_at, expires_at, revoked_at, types = row
    granted = None if types is None else tuple(types.split(","))
    return Grant(
        token_id, project, agent, role, bool(admin), bytes(digest), created_at, expires_at, revoked_at, granted
    )


def _row(grant: Grant) -> tuple[Any, ...]:
    return (*msgspec.structs.astuple(grant)[:-1], None if grant.types is None else ",".join(grant.types))


def project_of_grants(folder: Path) -> str | None:
    """Return the project whose grants a folder has, without changing it; null if it has none."""
    if not (folder / _FILE).exists():
        return None
    with sqlite.translated(JournalUnavailable, _FILE):
        connection = apsw.Connection(str(folder / _FILE), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            found: list[Any] = connection.execute("SELECT project FROM grants ORDER BY created_at LIMIT 1").fetchall()
        finally:
            connection.close()
    return str(found[0][0]) if found else None

"""Stores of grants: a SQLite file beside the journal, or a table in the journal's PostgreSQL.

Grants are few and change rarely, so they are read once, at the start, and every change is written at once. Only the hub
that owns the project writes. A store that fails raises `JournalError`; writing the same grants again is safe.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from tocsin.hub.auth.tokens import Grant
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.sqlite import connection as sqlite

__all__ = ["GrantStore", "PostgresGrants", "SqliteGrants"]

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
_POSTGRES_TABLE = """
CREATE TABLE IF NOT EXISTS tocsin.grants (
  token_id text NOT NULL PRIMARY KEY, project text NOT NULL, agent text NOT NULL, role text NOT NULL,
  admin boolean NOT NULL, digest bytea NOT NULL, created_at bigint NOT NULL, expires_at bigint, revoked_at bigint,
  types text)"""
#: The tables of earlier versions have no types: their tokens grant any.
_SQLITE_COLUMN = "ALTER TABLE grants ADD COLUMN types TEXT"
_POSTGRES_COLUMN = "ALTER TABLE tocsin.grants ADD COLUMN IF NOT EXISTS types text"
_UPSERT = "ON CONFLICT (token_id) DO UPDATE SET expires_at = excluded.expires_at, revoked_at = excluded.revoked_at"


class GrantStore(Protocol):
    """Keeps the grants of one project."""

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""

    def write(self, grants: list[Grant]) -> None:
        """Make new or changed grants durable, all or none."""

    def close(self) -> None:
        """Close the database."""


class SqliteGrants:
    """Grants in a file of their own in the project's directory, readable by its owner only."""

    def __init__(self, folder: Path, project: str) -> None:
        self._project = project
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

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(Exception):
            self._connection.close()


class PostgresGrants:
    """Grants in a table beside the journal."""

    def __init__(self, dsn: str, project: str, timeout_s: float | None = None) -> None:
        from tocsin.journal.postgres import connection as postgres  # its driver is optional

        self._project = project
        self._translated = postgres.translated
        self._connect = partial(postgres.connect, dsn, "tokens", timeout_s=timeout_s)
        self._connection = self._connect()
        try:
            postgres.migrate(self._connection)
            with self._translated(JournalUnavailable):
                self._connection.execute(_POSTGRES_TABLE)
                self._connection.execute(_POSTGRES_COLUMN)
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


def _grant(row: Any) -> Grant:
    token_id, project, agent, role, admin, digest, created_at, expires_at, revoked_at, types = row
    granted = None if types is None else tuple(types.split(","))
    return Grant(
        token_id, project, agent, role, bool(admin), bytes(digest), created_at, expires_at, revoked_at, granted
    )


def _row(grant: Grant) -> tuple[Any, ...]:
    return (*msgspec.structs.astuple(grant)[:-1], None if grant.types is None else ",".join(grant.types))

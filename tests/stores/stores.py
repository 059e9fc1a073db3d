"""The stores that the conformance suite runs against: how each is made, reopened and meddled with."""

import secrets
from pathlib import Path
from typing import Protocol

import apsw
import psycopg

from tests.patience import PATIENCE_S
from tests.postgres import Server
from tocsin.journal.base import Journal
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.sqlite import SqliteJournal

CHECKPOINT_BYTES = 1 << 16


class Store(Protocol):
    """One place where a project can be kept, and the ways in which tests interfere with it."""

    name: str

    def open(self, project: str = "test") -> Journal:
        """Open the project's journal as its owner."""

    def usurp(self) -> None:
        """Let another owner take over without asking the present one."""

    def execute(self, sql: str) -> None:
        """Change what is stored, behind the journal's back."""


class SqliteStore:
    """A directory."""

    def __init__(self, path: Path, mode: str, checkpoint_bytes: int = CHECKPOINT_BYTES) -> None:
        self.name = f"sqlite-{mode.lower()}"
        self.path = path
        self._mode = mode
        self._checkpoint_bytes = checkpoint_bytes

    def open(self, project: str = "test") -> Journal:
        return SqliteJournal(self.path, project, mode=self._mode, checkpoint_bytes=self._checkpoint_bytes)

    def usurp(self) -> None:
        self.execute("UPDATE ownership SET epoch = epoch + 1")

    def execute(self, sql: str) -> None:
        connection = apsw.Connection(str(self.path / "journal.db"))
        connection.set_busy_timeout(int(PATIENCE_S * 1000))  # the journal may be checkpointed meanwhile
        connection.execute(sql)
        connection.close()


class PostgresStore:
    """A database of its own."""

    name = "postgres"

    def __init__(self, server: Server) -> None:
        self.dsn = server.database(f"store_{secrets.token_hex(6)}")

    def open(self, project: str = "test") -> Journal:
        # The server releases the lock of a connection shortly after it was closed.
        return PostgresJournal(self.dsn, project, hub="conformance", wait_s=1.0)

    def usurp(self) -> None:
        self.execute("UPDATE projects SET epoch = epoch + 1")

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET search_path = tocsin_test, tocsin")
            connection.execute(sql.encode())

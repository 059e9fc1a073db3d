"""The stores that the conformance suite runs against: how each is made, reopened and meddled with."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import apsw

from tocsin.journal.base import Journal
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

    def __init__(self, path: Path, mode: str = "FULL") -> None:
        self.name = f"sqlite-{mode.lower()}"
        self.path = path
        self._mode = mode

    def open(self, project: str = "test") -> Journal:
        return SqliteJournal(self.path, project, mode=self._mode, checkpoint_bytes=CHECKPOINT_BYTES)

    def usurp(self) -> None:
        self.execute("UPDATE ownership SET epoch = epoch + 1")

    def execute(self, sql: str) -> None:
        connection = apsw.Connection(str(self.path / "journal.db"))
        connection.execute(sql)
        connection.close()


def sqlite_full(path: Path) -> Store:
    return SqliteStore(path / "project")


def sqlite_normal(path: Path) -> Store:
    return SqliteStore(path / "project", "NORMAL")


STORES: dict[str, Callable[[Path], Store]] = {"sqlite-full": sqlite_full, "sqlite-normal": sqlite_normal}

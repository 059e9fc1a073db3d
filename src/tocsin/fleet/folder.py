"""The catalogue of a folder: each project is a folder below `projects`, with an index of them in `projects.db`.

The folders are the truth. The index has what they do not tell: who is archived, what falls due, and the project of each
token. A project that is not in the index, because it was copied here or the index was lost, is entered at the start,
with the tokens that its own file has.
"""

import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tocsin.core.errors import refusal
from tocsin.fleet.catalogue import CatalogueEntry, check_name
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.journal.errors import JournalUnavailable, ProjectBusy
from tocsin.journal.sqlite import connection as sqlite
from tocsin.journal.sqlite.repair import lock_project

__all__ = ["INDEX", "PROJECTS", "FolderCatalogue"]

#: Folder of all projects but the home project.
PROJECTS = "projects"
#: Index of these projects.
INDEX = "projects.db"
_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS projects (
      name TEXT NOT NULL PRIMARY KEY, created_at INTEGER NOT NULL, archived_at INTEGER, due_at INTEGER
    ) STRICT""",
    "CREATE TABLE IF NOT EXISTS tokens (token_id TEXT NOT NULL PRIMARY KEY, project TEXT NOT NULL) STRICT",
)
_ENTRY = "SELECT name, created_at, archived_at, due_at FROM projects"


class FolderCatalogue:
    """The projects below one folder."""

    def __init__(self, folder: Path, home: str, now: int) -> None:
        self._folder = folder / PROJECTS
        self._home = home
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = sqlite.connect(folder / INDEX, "FULL")
        with sqlite.translated(JournalUnavailable, INDEX):
            sqlite.pragma(self._connection, "wal_autocheckpoint=1000")
        self._version: object = None
        self._do(*((table, ()) for table in _TABLES))
        self._enter_found(now)

    def path(self, name: str) -> Path:
        """Return the folder of a project."""
        return self._folder / name

    def entries(self) -> list[CatalogueEntry]:
        """Return all projects, by name."""
        return [CatalogueEntry(*row) for row in self._ask(f"{_ENTRY} ORDER BY name")]

    def find(self, name: str) -> CatalogueEntry | None:
        """Return a project; null if there is none of this name."""
        rows = self._ask(f"{_ENTRY} WHERE name = ?", name)
        return CatalogueEntry(*rows[0]) if rows else None

    def project_of(self, token_id: str) -> str | None:
        """Return the project that a token belongs to; null if it is not known."""
        rows = self._ask("SELECT project FROM tokens WHERE token_id = ?", token_id)
        return str(rows[0][0]) if rows else None

    def add(self, name: str, now: int) -> CatalogueEntry:
        """Add a project; refuse a name that is taken."""
        if check_name(name) == self._home or self.find(name) is not None or self.path(name).exists():
            raise refusal("E_STATE_007", f"there is a project {name} already", field="$.project", found=name)
        self.path(name).mkdir(parents=True, mode=0o700)
        self._do(("INSERT INTO projects VALUES (?, ?, NULL, NULL)", (name, now)))
        return CatalogueEntry(name, now)

    def archive(self, name: str, now: int | None) -> CatalogueEntry:
        """Archive a project at a time, or with null take it into use again."""
        self._must_find(name)
        self._do(("UPDATE projects SET archived_at = ? WHERE name = ?", (now, name)))
        return self._must_find(name)

    def remove(self, name: str) -> None:
        """Remove an archived project, with everything that it has stored."""
        if self._must_find(name).archived_at is None:
            raise refusal("E_STATE_002", f"project {name} is in use: archive it first", found=name)
        gone = self._folder / f".removed-{name}"
        shutil.rmtree(gone, ignore_errors=True)
        try:
            lock = lock_project(self.path(name), name)
        except ProjectBusy:
            raise refusal("E_STATE_002", f"project {name} is being closed: try again", retryable=True) from None
        try:
            self.path(name).rename(gone)
        finally:
            lock.close()
        self._do(("DELETE FROM tokens WHERE project = ?", (name,)), ("DELETE FROM projects WHERE name = ?", (name,)))
        shutil.rmtree(gone)

    def note_due(self, name: str, due_at: int | None) -> None:
        """Note when a closed project has to be opened; 0 means that it is open."""
        self._do(("UPDATE projects SET due_at = ? WHERE name = ?", (due_at, name)))

    def note_tokens(self, name: str, token_ids: list[str]) -> None:
        """Note that tokens belong to a project; this is durable when it returns."""
        self._do(*(("INSERT OR IGNORE INTO tokens VALUES (?, ?)", (token_id, name)) for token_id in token_ids))

    def changed(self) -> bool:
        """Tell whether another process may have changed something since the last call."""
        before = self._version
        with self._lock, sqlite.translated(JournalUnavailable, INDEX):
            self._version = sqlite.pragma(self._connection, "data_version")
        return before != self._version

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            self._connection.close()

    def _must_find(self, name: str) -> CatalogueEntry:
        found = self.find(name)
        if found is None:
            raise refusal("E_STATE_005", f"there is no project {name[:64]}", field="$.project", found=name[:64])
        return found

    def _enter_found(self, now: int) -> None:
        """Enter the projects that are not in the index, and forget those whose folder is gone."""
        known = {entry.name for entry in self.entries()}
        there = {path.parent.name for path in self._folder.glob("*/journal.db") if not path.parent.name.startswith(".")}
        for name in sorted(there - known):
            grants = SqliteGrants(self.path(name), name)
            try:
                token_ids = [grant.token_id for grant in grants.load()]
            finally:
                grants.close()
            # Whatever falls due in it is found out by opening it.
            self._do(("INSERT INTO projects VALUES (?, ?, NULL, 0)", (name, now)))
            self.note_tokens(name, token_ids)
        for name in known - there:
            if not self.path(name).exists():
                self._do(
                    ("DELETE FROM tokens WHERE project = ?", (name,)), ("DELETE FROM projects WHERE name = ?", (name,))
                )

    def _ask(self, statement: str, *values: Any) -> list[Any]:
        with self._lock, sqlite.translated(JournalUnavailable, INDEX):
            return self._connection.execute(statement, values).fetchall()

    def _do(self, *statements: tuple[str, Iterable[Any]]) -> None:
        """Run statements in one transaction."""
        with self._lock, sqlite.translated(JournalUnavailable, INDEX), self._connection:
            for statement, values in statements:
                self._connection.execute(statement, tuple(values))

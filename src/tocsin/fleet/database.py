"""The catalogue in PostgreSQL: a table of the shared schema. Tokens are looked up in the table of grants."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from psycopg import sql

from tocsin.core.errors import refusal
from tocsin.fleet.catalogue import CatalogueEntry, check_name
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.postgres import ownership
from tocsin.journal.postgres.connection import Connection, connect, translated
from tocsin.journal.postgres.schemas import drop_project, migrate

__all__ = ["DatabaseCatalogue"]

Result = TypeVar("Result")

#: Interval between two looks for changes of other processes, seconds.
_LOOK_S = 5.0
#: Time for the server to release the lock of a project that was just closed, seconds.
_CLOSING_S = 2.0
_ENTRY = "SELECT name, created_at, archived_at, due_at FROM tocsin.catalogue"


class DatabaseCatalogue:
    """The projects in one database."""

    def __init__(self, dsn: str, home: str, timeout_s: float | None = None) -> None:
        self._dsn = dsn
        self._home = home
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._look_at = 0.0
        self._connection = self._connect()

    def entries(self) -> list[CatalogueEntry]:
        """Return all projects, by name."""
        return [CatalogueEntry(*row) for row in self._ask(f"{_ENTRY} ORDER BY name")]

    def find(self, name: str) -> CatalogueEntry | None:
        """Return a project; null if there is none of this name."""
        rows = self._ask(f"{_ENTRY} WHERE name = %s", name)
        return CatalogueEntry(*rows[0]) if rows else None

    def project_of(self, token_id: str) -> str | None:
        """Return the project that a token belongs to; null if it is not known."""
        rows = self._ask(
            "SELECT g.project FROM tocsin.grants g JOIN tocsin.catalogue c ON c.name = g.project WHERE g.token_id = %s",
            token_id,
        )
        return str(rows[0][0]) if rows else None

    def add(self, name: str, now: int) -> CatalogueEntry:
        """Add a project; refuse a name that is taken."""
        added = check_name(name) != self._home and self._ask(
            "INSERT INTO tocsin.catalogue (name, created_at) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING name",
            name,
            now,
        )
        if not added:
            raise refusal("E_STATE_007", f"there is a project {name} already", field="$.project", found=name)
        return CatalogueEntry(name, now)

    def archive(self, name: str, now: int | None) -> CatalogueEntry:
        """Archive a project at a time, or with null take it into use again."""
        rows = self._ask(
            "UPDATE tocsin.catalogue SET archived_at = %s WHERE name = %s"
            " RETURNING name, created_at, archived_at, due_at",
            now,
            name,
        )
        if not rows:
            raise _unknown(name)
        return CatalogueEntry(*rows[0])

    def remove(self, name: str) -> None:
        """Remove an archived project, with everything that it has stored."""
        entry = self.find(name)
        if entry is None:
            raise _unknown(name)
        if entry.archived_at is None:
            raise refusal("E_STATE_002", f"project {name} is in use: archive it first", found=name)

        def remove(connection: Connection) -> None:
            if not ownership.lock(connection, name, _CLOSING_S):
                raise refusal("E_STATE_002", f"project {name} is being closed: try again", retryable=True)
            try:
                delete(connection)
            finally:
                ownership.unlock(connection, name)

        def delete(connection: Connection) -> None:
            with connection.transaction():
                rows = connection.execute(
                    "SELECT table_name FROM information_schema.columns"
                    " WHERE table_schema = 'tocsin' AND column_name = 'project'"
                ).fetchall()
                for (table,) in rows:
                    statement = sql.SQL("DELETE FROM {} WHERE project = %s").format(sql.Identifier("tocsin", table))
                    connection.execute(statement, (name,))
                drop_project(connection, name)
                connection.execute("DELETE FROM tocsin.catalogue WHERE name = %s", (name,))

        self._done(remove)

    def note_due(self, name: str, due_at: int | None) -> None:
        """Note when a closed project has to be opened; 0 means that it is open."""
        self._ask("UPDATE tocsin.catalogue SET due_at = %s WHERE name = %s RETURNING name", due_at, name)

    def note_tokens(self, name: str, token_ids: list[str]) -> None:
        """Do nothing: the tokens of all projects are in one table."""

    def changed(self) -> bool:
        """Tell whether another process may have changed something since the last call."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_S
        return True

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def _connect(self) -> Connection:
        connection = connect(self._dsn, "catalogue", timeout_s=self._timeout_s)
        try:
            migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self, statement: str, *values: Any) -> list[Any]:
        return self._done(lambda connection: connection.execute(statement.encode(), values).fetchall())

    def _done(self, work: Callable[[Connection], Result]) -> Result:
        """Run something on the open connection, or once more on a new one: the server may have been restarted."""
        with self._lock:
            try:
                with translated(JournalUnavailable):
                    return work(self._connection)
            except JournalUnavailable:
                self._connection.close()
                self._connection = self._connect()
            with translated(JournalUnavailable):
                return work(self._connection)


def _unknown(name: str) -> Exception:
    return refusal("E_STATE_005", f"there is no project {name[:64]}", field="$.project", found=name[:64])

"""Reads of journals in a database: by their owner, and by others that do not take ownership."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tocsin.journal.base import Group, checked
from tocsin.journal.errors import JournalDamaged, JournalUnavailable, JournalUnsupported
from tocsin.journal.migrations import migrations
from tocsin.journal.postgres.connection import connect, translated
from tocsin.journal.postgres.schemas import qualified, schema_of, schema_version

__all__ = ["Ask", "StoredProject", "read_only", "stored_groups", "stored_projects"]

#: Runs a statement with values and returns its rows.
Ask = Callable[..., list[tuple[Any, ...]]]

_FROM = "SELECT coalesce(max(first_seq), 0) FROM {} WHERE project = %s AND first_seq <= %s"
_READ = """
SELECT first_seq, last_seq, at, epoch, events, checksum, chain FROM {}
WHERE project = %s AND first_seq >= %s AND last_seq > %s ORDER BY first_seq LIMIT %s"""
#: Of the last group that is not read; all groups up to there are stored, whatever is appended meanwhile.
_BEFORE = """
SELECT chain FROM {} WHERE project = %s AND first_seq <= %s AND last_seq <= %s ORDER BY first_seq DESC LIMIT 1"""
_PRUNED = "SELECT pruned_seq, pruned_chain FROM tocsin.projects WHERE project = %s"
_PROJECTS = "SELECT project, pruned_seq FROM tocsin.projects ORDER BY project"
_SCHEMAS = (
    "SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'journal'"
)
_LAST = "SELECT last_seq, checksum FROM {} WHERE project = %s ORDER BY first_seq DESC LIMIT 1"
_CHUNK = 64


class StoredProject(msgspec.Struct, frozen=True):
    """A project with events in a database."""

    project: str
    #: Sequence number of its last pruned event.
    pruned_seq: int
    #: Sequence number of its last event.
    last_seq: int
    #: Checksum of its last group.
    checksum: int


@contextmanager
def read_only(dsn: str, purpose: str) -> Iterator[Ask]:
    """Open a session that can change nothing, and give a function that asks it; hubs may serve the database."""
    connection = connect(dsn, purpose)

    def ask(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with translated(JournalUnavailable):
            return connection.execute(statement.encode(), values, prepare=True, binary=True).fetchall()

    try:
        with translated(JournalUnavailable):
            connection.execute("SET default_transaction_read_only = on")
        found, wanted = schema_version(connection), len(migrations("tocsin.journal.postgres", "migrations"))
        if not found:
            raise JournalUnsupported("the database has no projects of Tocsin")
        if found != wanted:
            raise JournalUnsupported(
                f"the schema of the database has version {found}, expected {wanted}: use the version of Tocsin that"
                " serves it, or start a hub of this version once, which updates the schema"
            )
        yield ask
    finally:
        connection.close()


def stored_projects(ask: Ask) -> list[StoredProject]:
    """Return the projects that have events."""
    schemas = {row[0] for row in ask(_SCHEMAS)}
    found: list[StoredProject] = []
    for project, pruned_seq in ask(_PROJECTS):
        if schema_of(project) in schemas:
            last = ask(_LAST.format(qualified(project, "journal")), project)
            found += [StoredProject(project, pruned_seq, *row) for row in last]
    return found


def stored_groups(ask: Ask, project: str, after_seq: int, limit: int = 0) -> Iterator[Group]:
    """Return the groups that end after a sequence number, checked and in order; `limit` 0 is all.

    Groups are fetched a few at a time and without a transaction around them, so that neither memory nor the server's
    cleanup depends on how long the journal is.
    """
    pruned, pruned_chain = ask(_PRUNED, project)[0]
    if after_seq < pruned:
        raise JournalDamaged(
            f"journal of {project}: events {after_seq + 1} to {pruned} were requested but have been pruned"
        )
    journal = qualified(project, "journal")
    first = ask(_FROM.format(journal), project, after_seq + 1)[0][0]
    before = ask(_BEFORE.format(journal), project, after_seq, after_seq)
    chain = before[0][0] if before else pruned_chain
    return checked(_groups(ask, project, first, after_seq, limit), after_seq, f"journal of {project}", chain)


def _groups(ask: Ask, project: str, first: int, after_seq: int, limit: int) -> Iterator[Group]:
    left, read = limit, _READ.format(qualified(project, "journal"))
    while True:
        chunk = min(_CHUNK, left) if limit else _CHUNK
        rows = ask(read, project, first, after_seq, chunk)
        for row in rows:
            yield Group(*row)
        left -= len(rows)
        if len(rows) < chunk or (limit and not left):
            return
        first = rows[-1][0] + 1

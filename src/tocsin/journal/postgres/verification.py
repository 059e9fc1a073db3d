"""Verification of a project in a database."""

from collections.abc import Iterator

from tocsin.journal.base import Group
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.postgres.connection import connect, translated
from tocsin.journal.postgres.schemas import schema_of
from tocsin.journal.postgres.tables import PostgresTables
from tocsin.journal.token_table import GRANTS
from tocsin.journal.verification import Examined, examine_journal, examine_tables, examine_tokens

__all__ = ["verify_database"]

_GROUPS = """
SELECT first_seq, last_seq, at, epoch, events, checksum, chain FROM journal
WHERE project = %s ORDER BY first_seq"""
#: Those of no known project as well: the name of theirs may be damaged.
_TOKENS = f"""
SELECT {", ".join(GRANTS.names)} FROM tocsin.grants
WHERE project = %s OR project NOT IN (SELECT project FROM tocsin.projects) ORDER BY token_id"""  # noqa: S608
_PRUNED = "SELECT pruned_seq, pruned_chain FROM tocsin.projects WHERE project = %s"


def verify_database(dsn: str, project: str) -> Iterator[Examined]:
    """Read everything of a project; a hub may have it open."""
    connection = connect(dsn, f"verify {project}", schema=schema_of(project))
    try:
        with translated(JournalUnavailable), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            row = connection.execute(_PRUNED, (project,)).fetchone()
            if row is None:
                raise JournalUnavailable("database_error", f"the database has no project {project!r}")
            with connection.cursor("tocsin_groups", binary=True) as cursor:
                groups = (Group(*found) for found in cursor.execute(_GROUPS, (project,)))
                yield examine_journal(groups, row[0], row[1], f"journal of {project}")
            yield from examine_tables(PostgresTables(connection, project, 0))
            yield examine_tokens(connection.execute(_TOKENS.encode(), (project,)))
    finally:
        connection.close()

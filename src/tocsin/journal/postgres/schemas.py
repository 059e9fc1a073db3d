"""Schemas of a database: `tocsin`, which all hubs share, and one for each project; their migrations.

`tocsin` has the owners, leases, hubs, tokens and the catalogue. The schema of a project has its journal and its tables,
so that nothing that a project has stored is in a table of another one. The session of a project finds them by its
search path.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

from psycopg import errors, sql

from tocsin.journal.checksums import CHECKSUM
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.migrations import Migration, migrations, pending
from tocsin.journal.postgres.connection import Connection, translated
from tocsin.journal.token_table import GRANTS, checksum_of

__all__ = ["drop_project", "lock_key", "migrate", "migrate_project", "qualified", "schema_of", "schema_version"]

#: Serialises hubs that bring the schema up to date at the same time.
_MIGRATION_LOCK = 0x70C51
_PLAIN = re.compile(r"[a-z0-9_\-]{1,48}")
#: Bytes of a longer or unusual name that its schema is called by; PostgreSQL allows 63 in all.
_CUT = 39
#: The step before which the projects move from the shared tables to their own schemas.
_MOVING_STEP = "schemas"
#: The step before which every token gets a checksum.
_SEALING_STEP = "token_checksums"
_HELD = """
SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND classid::bigint = %s AND objid::bigint = %s AND pid <> pg_backend_pid())"""
_COLUMNS = """
SELECT table_name, array_agg(column_name::text) FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = %s AND table_type = 'BASE TABLE' GROUP BY table_name"""


def lock_key(project: str) -> int:
    """Return the key of a project's advisory lock."""
    return int.from_bytes(blake2b(f"tocsin project {project}".encode(), digest_size=8).digest(), "big", signed=True)


def schema_of(project: str) -> str:
    """Return the name of a project's schema; two projects never have the same."""
    if _PLAIN.fullmatch(project):
        return f"tocsin_{project}"
    cut = project.encode()[:_CUT].decode(errors="ignore").replace("\0", "_")
    return f"tocsin_{cut}_{blake2b(project.encode(), digest_size=8).hexdigest()}"


def qualified(project: str, table: str) -> str:
    """Return the name of a project's table as SQL."""
    return sql.Identifier(schema_of(project), table).as_string(None)


def migrate(connection: Connection, upto: int | None = None) -> int:
    """Apply the numbered steps that the shared schema lacks, in one transaction; return its version.

    A step may rewrite a large table, and another hub may be applying it: there is no time limit for it.
    """
    steps = migrations("tocsin.journal.postgres", "migrations")
    if upto is None and schema_version(connection) == len(steps):
        return len(steps)
    with translated(JournalUnavailable), _unlimited(connection), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        connection.execute("CREATE SCHEMA IF NOT EXISTS tocsin")
        version = _begin(connection, "tocsin")
        for step in pending(steps, version, "the database")[: None if upto is None else max(0, upto - version)]:
            if step.name == _MOVING_STEP:
                _move_projects(connection)
            if step.name == _SEALING_STEP:
                _seal_tokens(connection)
            connection.execute(step.sql.encode())
            connection.execute("INSERT INTO tocsin.migrations VALUES (%s, %s, now())", (step.number, step.name))
            version = step.number
    return version


def migrate_project(connection: Connection, project: str) -> None:
    """Create the schema of a project or bring it up to date, while this session holds the project's lock."""
    steps = migrations("tocsin.journal.postgres", "migrations/project")
    if schema_version(connection, schema_of(project)) != len(steps):
        with translated(JournalUnavailable), _unlimited(connection), connection.transaction():
            _apply(connection, project, steps)


def _apply(connection: Connection, project: str, steps: list[Migration]) -> None:
    """Apply the steps that the schema of a project lacks, inside the caller's transaction."""
    schema = schema_of(project)
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    connection.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(schema)))
    for step in pending(steps, _begin(connection, schema), f"project {project}"):
        connection.execute(step.sql.encode())
        connection.execute("INSERT INTO migrations VALUES (%s, %s, now())", (step.number, step.name))


def drop_project(connection: Connection, project: str) -> None:
    """Delete the schema of a project, inside the caller's transaction."""
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema_of(project))))


def schema_version(connection: Connection, schema: str = "tocsin") -> int:
    """Return the version of a schema; 0 if there is none."""
    query = sql.SQL("SELECT coalesce(max(version), 0) FROM {}").format(sql.Identifier(schema, "migrations"))
    with translated(JournalUnavailable):
        try:
            row = connection.execute(query).fetchone()
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            return 0
    return 0 if row is None else int(row[0])


def _begin(connection: Connection, schema: str) -> int:
    """Create the table of applied steps if there is none; return the version."""
    table = sql.Identifier(schema, "migrations")
    connection.execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {}"
            " (version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)"
        ).format(table)
    )
    row = connection.execute(sql.SQL("SELECT coalesce(max(version), 0) FROM {}").format(table)).fetchone()
    return 0 if row is None else int(row[0])


def _move_projects(connection: Connection) -> None:
    """Copy every project from the tables that all projects shared to a schema of its own."""
    steps = migrations("tocsin.journal.postgres", "migrations/project")
    for (project,) in connection.execute("SELECT project FROM tocsin.projects ORDER BY project").fetchall():
        key = lock_key(project) & ((1 << 64) - 1)
        row = connection.execute(_HELD, (key >> 32, key & ((1 << 32) - 1))).fetchone()
        if row is not None and row[0]:
            detail = f"project {project} is served by a hub of an earlier version: stop all of these hubs first"
            raise JournalUnavailable("database_error", detail)
        _apply(connection, project, steps)
        schema = schema_of(project)
        for table, columns in connection.execute(_COLUMNS, (schema,)).fetchall():
            if table == "migrations":
                continue
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            to, shared = sql.Identifier(schema, table), sql.Identifier("tocsin", table)
            copy = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE project = %s").format(to, names, names, shared)
            connection.execute(copy, (project,))


def _seal_tokens(connection: Connection) -> None:
    """Give every token of an earlier version its checksum."""
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in GRANTS.names if name != CHECKSUM)
    read = sql.SQL("SELECT {} FROM tocsin.grants").format(columns)
    for row in connection.execute(read).fetchall():
        connection.execute("UPDATE tocsin.grants SET checksum = %s WHERE token_id = %s", (checksum_of(*row), row[0]))


@contextmanager
def _unlimited(connection: Connection) -> Iterator[None]:
    limit, connection.timeout_s = connection.timeout_s, None
    try:
        yield
    finally:
        connection.timeout_s = limit

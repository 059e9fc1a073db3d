"""A schema of every earlier version is brought up to date, and keeps what it holds."""

import secrets
from pathlib import Path

import apsw
import psycopg
import pytest

from tests.postgres import Server
from tocsin.journal.base import Group, group_of
from tocsin.journal.errors import JournalUnavailable, JournalUnsupported
from tocsin.journal.migrations import Migration, migrations, pending
from tocsin.journal.postgres import PostgresJournal, ownership
from tocsin.journal.postgres.connection import connect as connect_postgres
from tocsin.journal.postgres.schemas import migrate as migrate_postgres
from tocsin.journal.postgres.schemas import schema_of as postgres_schema_of
from tocsin.journal.sqlite.connection import connect
from tocsin.journal.sqlite.schema import migrate

SQLITE = [
    (folder, version)
    for folder in ("journal", "tables", "tokens")
    for version in range(len(migrations("tocsin.journal.sqlite", f"migrations/{folder}")) + 1)
]
POSTGRES = range(len(migrations("tocsin.journal.postgres", "migrations")) + 1)


def schema_of(connection: apsw.Connection) -> list[object]:
    return list(connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name"))


@pytest.mark.parametrize(("folder", "version"), SQLITE)
def test_a_sqlite_file_of_any_version_is_brought_up_to_date(tmp_path: Path, folder: str, version: int) -> None:
    fresh, old = (connect(tmp_path / name, "FULL") for name in ("fresh.db", "old.db"))
    latest = migrate(fresh, folder)
    assert migrate(old, folder, upto=version) == version
    marker = {"journal": "ownership", "tables": "policies", "tokens": "grants"}[folder]
    if version:
        columns = list(old.execute(f"PRAGMA table_info({marker})"))
        values = ", ".join("x'31'" if column[2] == "BLOB" else "1" for column in columns)
        old.execute(f"INSERT INTO {marker} VALUES ({values})")  # noqa: S608
    assert migrate(old, folder) == latest
    assert schema_of(old) == schema_of(fresh)
    if version:
        assert len(list(old.execute(f"SELECT * FROM {marker}"))) == 1  # noqa: S608
    assert migrate(old, folder) == latest
    fresh.close()
    old.close()


@pytest.mark.parametrize("version", POSTGRES)
def test_a_postgres_schema_of_any_version_is_brought_up_to_date(postgres: Server, version: int) -> None:
    dsn = postgres.database(f"migrate_{secrets.token_hex(6)}")
    connection = connect_postgres(dsn, "test")
    assert migrate_postgres(connection, upto=version) == version
    if version:
        connection.execute("INSERT INTO tocsin.projects VALUES ('test', 7, 'old', '', now())")
    connection.close()
    journal = PostgresJournal(dsn, "test")
    assert journal.epoch == (8 if version else 1)
    tables = journal.tables()
    assert tables.standing().seq == 0
    assert tables.index(10) == 0
    tables.close()
    journal.close()
    with psycopg.connect(dsn) as looking:
        assert looking.execute("SELECT max(version) FROM tocsin.migrations").fetchone() == (len(POSTGRES) - 1,)


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connect(tmp_path / "some.db", "FULL")
    steps = [Migration(1, "good", "CREATE TABLE a (x)"), Migration(2, "bad", "CREATE TABLE b (x); CREATE TABLE a (x)")]
    monkeypatch.setattr("tocsin.journal.sqlite.schema.migrations", lambda *_: steps)
    with pytest.raises(Exception, match="already exists"):
        migrate(connection, "some")
    assert [row[1] for row in schema_of(connection)] == ["a"]  # type: ignore[index]
    assert connection.execute("PRAGMA user_version").get == 1
    connection.close()


def test_a_newer_schema_than_this_software_knows_is_refused() -> None:
    with pytest.raises(JournalUnsupported, match="schema version 2; this version of Tocsin supports up to 1"):
        pending([Migration(1, "one", "")], 2, "the file")


MOVING = 6  # the last version in which all projects share their tables


def shared_group(connection: psycopg.Connection, project: str) -> Group:
    """Store one group of a project as a hub of the version before schemas did."""
    group = group_of(1, 1, 1_000, 7, b"events")
    values = (project, group.first_seq, group.last_seq, group.at, group.epoch, group.checksum, group.events, None)
    connection.execute("INSERT INTO tocsin.projects VALUES (%s, 7, 'old', '', now())", (project,))
    connection.execute("INSERT INTO tocsin.journal VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", values)
    connection.execute("INSERT INTO tocsin.segments VALUES (%s, 1, 1, %s, 9, now())", (project, f"{project}.segment"))
    return group


def test_projects_move_from_shared_tables_to_schemas_of_their_own(postgres: Server) -> None:
    dsn = postgres.database(f"migrate_{secrets.token_hex(6)}")
    connection = connect_postgres(dsn, "test")
    assert migrate_postgres(connection, upto=MOVING) == MOVING
    groups = {project: shared_group(connection, project) for project in ("acme", "Beta Project")}
    connection.close()
    for project, group in groups.items():
        journal = PostgresJournal(dsn, project)
        assert journal.epoch == 8
        assert [(one.first_seq, one.events) for one in journal.read(0)] == [(1, group.events)]
        tables = journal.tables()
        assert [segment.path for segment in tables.segments(0, 10)] == [f"{project}.segment"]
        tables.close()
        journal.close()
    with psycopg.connect(dsn) as looking:
        rows = looking.execute("SELECT table_schema, table_name FROM information_schema.tables").fetchall()
    assert ("tocsin", "journal") not in rows
    assert {(postgres_schema_of(project), "journal") for project in groups} <= set(rows)


def test_a_project_that_is_served_by_an_earlier_version_is_not_moved(postgres: Server) -> None:
    dsn = postgres.database(f"migrate_{secrets.token_hex(6)}")
    served, connection = connect_postgres(dsn, "test"), connect_postgres(dsn, "test")
    migrate_postgres(connection, upto=MOVING)
    shared_group(connection, "acme")
    assert ownership.lock(served, "acme", 0)
    with pytest.raises(JournalUnavailable, match="acme is served by a hub of an earlier version"):
        migrate_postgres(connection)
    served.close()
    with connect_postgres(dsn, "test") as later:
        ownership.lock(later, "acme", 10)  # the server has noticed that the session is gone
        ownership.unlock(later, "acme")
        assert migrate_postgres(connection) == len(POSTGRES) - 1
    connection.close()


def test_schemas_of_projects_differ_and_fit() -> None:
    names = ["a", "A", "a_b", "a-b", "a b", "x" * 48, "x" * 49, "x" * 63, "ä" * 40, "ä" * 41, 'quote"d']
    schemas = [postgres_schema_of(name) for name in names]
    assert len(set(schemas)) == len(names)
    assert max(len(schema.encode()) for schema in schemas) <= 63
    assert postgres_schema_of("acme") == "tocsin_acme"

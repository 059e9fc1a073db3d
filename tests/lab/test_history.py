"""Event sources: segments, tables, a journal and a database give the same events."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.lab.histories import busy
from tests.pipeline.traffic import write_segments
from tests.pipeline.without_spark import without_spark
from tests.postgres import Server
from tocsin.core.errors import TocsinError
from tocsin.core.events import Event
from tocsin.journal.errors import JournalDamaged, JournalUnavailable, JournalUnsupported
from tocsin.journal.log import EventLog
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.postgres.reading import read_only, stored_groups
from tocsin.journal.sqlite import SqliteJournal
from tocsin.lab.traces.event_sources import find_source, read_events
from tocsin.lab.traces.trace import fingerprint
from tocsin.pipeline.bronze.ingest import ingest
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.settings import Settings


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return busy(3000, per_day=2000)


def prints(source_of: Path | str) -> list[int]:
    (source,) = find_source(source_of)
    numbered = list(read_events(source))
    assert [seq for seq, _ in numbered] == list(range(1, len(numbered) + 1))
    return [fingerprint([event]) for _, event in numbered]


def test_segments_tell_what_happened(tmp_path: Path, events: list[Event]) -> None:
    write_segments(tmp_path / "segments", "p", events, 500)
    assert prints(tmp_path) == [fingerprint([event]) for event in events]


def test_a_journal_tells_what_happened(tmp_path: Path, events: list[Event]) -> None:
    journal = SqliteJournal(tmp_path / "p", "p", checkpoint_bytes=1 << 20)
    log = EventLog(journal)
    for start in range(0, len(events), 100):
        log.append(events[start : start + 100])
    assert prints(tmp_path / "p") == [fingerprint([event]) for event in events]
    journal.close()


def test_tables_tell_what_happened(tmp_path: Path, events: list[Event], settings: Settings) -> None:
    landing = tmp_path / "segments"
    write_segments(landing, "p", events, 500)
    warehouse = open_warehouse(tmp_path / "warehouse", settings)
    with warehouse.writing(wait_s=0), without_spark() as nothing:
        ingest(nothing, warehouse, landing, landed_segments(landing), None)
    assert find_source(tmp_path)[0].kind == "tables"
    assert prints(tmp_path) == [fingerprint([event]) for event in events]


def test_a_gap_is_refused(tmp_path: Path, events: list[Event]) -> None:
    paths = write_segments(tmp_path, "p", events, 500)
    paths[1].unlink()
    (source,) = find_source(tmp_path)
    with pytest.raises(TocsinError, match="are missing") as refused:
        list(read_events(source))
    assert refused.value.code == "E_LAB_002"


def test_nothing_and_nobody_are_told(tmp_path: Path, events: list[Event]) -> None:
    with pytest.raises(TocsinError, match="no events in"):
        find_source(tmp_path)
    write_segments(tmp_path, "p", events[:100], 500)
    with pytest.raises(TocsinError, match="there is no project q; known projects: p"):
        find_source(tmp_path, ["q"])


class Database:
    """A database with one project, which its owner serves."""

    def __init__(self, server: Server, events: list[Event]) -> None:
        self.name = f"lab_{secrets.token_hex(6)}"
        self.dsn = server.database(self.name)
        self.url = f"postgresql://tocsin@/{self.name}?host={server.folder}"
        self.journal = PostgresJournal(self.dsn, "p", hub="owner")
        self.log = EventLog(self.journal)
        for start in range(0, len(events), 10):
            self.log.append(events[start : start + 10])

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture
def database(postgres: Server, events: list[Event]) -> Iterator[Database]:
    made = Database(postgres, events[:2500])
    yield made
    made.journal.close()


def test_a_database_tells_what_happened_while_a_hub_serves_it(database: Database, events: list[Event]) -> None:
    (source,) = find_source(database.url)
    assert (source.project, source.kind, source.last_seq) == ("p", "database", 2500)
    reading = read_events(source)
    first = next(reading)
    database.log.append(events[2500:2600])
    found = [first, *reading]
    assert [seq for seq, _ in found] == list(range(1, 2501))
    assert [fingerprint([event]) for _, event in found] == [fingerprint([event]) for event in events[:2500]]
    assert database.journal.epoch == 1
    assert find_source(database.url)[0].version != source.version
    assert prints(database.url) == [fingerprint([event]) for event in events[:2600]]


def test_a_database_is_read_a_few_groups_at_a_time(database: Database) -> None:
    fetched: list[int] = []
    with read_only(database.url, "test") as ask:

        def counted(statement: str, *values: Any) -> list[tuple[Any, ...]]:
            rows = ask(statement, *values)
            fetched.append(len(rows))
            return rows

        assert len(list(stored_groups(counted, "p", 0))) == 250
    assert max(fetched) < 100 < sum(fetched)


def test_a_reader_cannot_change_the_database(database: Database) -> None:
    with (
        read_only(database.url, "test") as ask,
        pytest.raises(JournalUnavailable, match="read-only transaction"),
    ):
        ask("DELETE FROM tocsin_p.journal RETURNING project")


def test_a_damaged_group_in_a_database_is_found(database: Database) -> None:
    database.execute("UPDATE tocsin_p.journal SET at = at + 1 WHERE first_seq = 1001")
    with pytest.raises(JournalDamaged, match="group 1001 to 1010: its checksum does not match"):
        prints(database.url)


def test_a_replaced_group_in_a_database_is_found(database: Database) -> None:
    database.execute("UPDATE tocsin_p.journal SET chain = chain + 1 WHERE first_seq = 1001")
    with pytest.raises(JournalDamaged, match="group 1001 to 1010: it does not continue"):
        prints(database.url)


def test_a_pruned_database_is_refused(database: Database) -> None:
    database.journal.prune(1000, 1 << 60, 20)
    with pytest.raises(TocsinError, match="events 1 to 200 were pruned") as refused:
        find_source(database.url)
    assert refused.value.code == "E_LAB_002"


def test_a_database_without_projects_and_an_older_one_are_told(postgres: Server, database: Database) -> None:
    empty = f"lab_{secrets.token_hex(6)}"
    postgres.database(empty)
    with pytest.raises(JournalUnsupported, match="no projects of Tocsin"):
        find_source(f"postgresql://tocsin@/{empty}?host={postgres.folder}")
    database.execute("DELETE FROM tocsin.migrations WHERE version = (SELECT max(version) FROM tocsin.migrations)")
    with pytest.raises(JournalUnsupported, match=r"has version \d+, expected \d+"):
        find_source(database.url)
    with pytest.raises(TocsinError, match=r"no events in mysql://…: ") as refused:
        find_source("mysql://me:secret@host/db")
    assert "secret" not in str(refused.value)

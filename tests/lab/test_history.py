"""Event sources: segments, tables and a journal give the same events."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lab.histories import busy
from tests.pipeline.traffic import write_segments
from tocsin.core.errors import TocsinError
from tocsin.core.events import Event
from tocsin.journal.log import EventLog
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


def prints(source_of: Path) -> list[int]:
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


def test_tables_tell_what_happened(
    tmp_path: Path, events: list[Event], spark: SparkSession, settings: Settings
) -> None:
    landing = tmp_path / "segments"
    write_segments(landing, "p", events, 500)
    warehouse = open_warehouse(tmp_path / "warehouse", settings)
    with warehouse.writing(wait_s=0):
        ingest(spark, warehouse, landing, landed_segments(landing), None)
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

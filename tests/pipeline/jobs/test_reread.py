"""Segments that are read again: repaired under their old name, or with lines of kinds that were not known.

The oracle is a warehouse that is made at once from the segments as they are at the end.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs.tables import EVERYTHING, contents
from tests.pipeline.traffic import DAY_US, START, simulated, write_segment, write_segments
from tests.pipeline.without_spark import without_spark
from tests.soak import SOAK
from tocsin import zstd
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.pipeline.bronze import ingest as ingestion
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.bronze.segment_log import ingested_segments
from tocsin.pipeline.bronze.segment_task import Assignment, Ingested
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import reread, run
from tocsin.pipeline.jobs.status import status
from tocsin.pipeline.jobs.stream import SegmentWatch
from tocsin.pipeline.jobs.verify import verify
from tocsin.pipeline.lake.compaction import Housekeeping, compact, retire
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import KINDS


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return simulated(41, 300)[0]


class Oracle:
    """Tables of warehouses that never had anything else, made once for each set of projects."""

    def __init__(self, folder: Path, settings: Settings, events: list[Event]) -> None:
        self._folder, self._settings = folder, settings
        #: Events of each project.
        self._events = {"p": events, "q": events[:300]}
        self._made: dict[tuple[str, ...], dict[str, list[str]]] = {}

    def tables(self, *projects: str) -> dict[str, list[str]]:
        """Return the tables of some projects."""
        if projects not in self._made:
            place = self._folder / "-".join(projects)
            for project in projects:
                write_segments(place / "segments", project, self._events[project], 200)
            warehouse = open_warehouse(place / "warehouse", self._settings)
            with without_spark() as nothing:
                run(nothing, warehouse, place / "segments")
            self._made[projects] = contents(warehouse)
        return self._made[projects]


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory, settings: Settings, events: list[Event]) -> Oracle:
    return Oracle(tmp_path_factory.mktemp("oracle"), settings, events)


def as_made_at_once(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path, expected: dict[str, list[str]]
) -> None:
    """Compare all tables with those that were made at once; check that nothing is left to do."""
    assert not [check for check in verify(warehouse, landing) if not check.balances]
    found = contents(warehouse)
    for name in EVERYTHING:
        assert found[name] == expected[name], f"{name} differs"
    before = warehouse.current().version
    run(no_spark, warehouse, landing)
    assert warehouse.current().version == before


def damage(path: Path) -> bytes:
    """Leave out some lines of a segment and change another; return the segment as it was."""
    whole = path.read_bytes()
    lines = zstd.decompress(whole).splitlines(keepends=True)
    changed = [line.replace(b'"sender":"', b'"sender":"not-') for line in lines[: len(lines) // 2]]
    assert changed != lines[: len(lines) // 2]
    path.write_bytes(zstd.compress(b"".join(changed)))
    return whole


def test_a_segment_that_was_cut_off_is_read_when_it_is_whole(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path, events: list[Event], oracle: Oracle
) -> None:
    paths = write_segments(landing, "p", events, 200)
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[: len(whole) // 2])
    run(no_spark, warehouse, landing)
    assert warehouse.current().rows("quarantine") == 1
    watch = SegmentWatch(warehouse, landing)
    assert not watch.new()
    paths[1].write_bytes(whole)
    assert list(watch.new()) == [paths[1].relative_to(landing).as_posix()]
    assert status(warehouse, landing)["lag"]["segments"] == 1
    run(no_spark, warehouse, landing)
    assert not watch.new()
    assert warehouse.current().rows("quarantine") == 0
    as_made_at_once(no_spark, warehouse, landing, oracle.tables("p"))


def test_events_of_a_repaired_segment_take_the_place_of_the_old_ones(
    no_spark: SparkSession, settings: Settings, tmp_path: Path, events: list[Event], oracle: Oracle
) -> None:
    """The first segment or the second was damaged; `make test` draws one of them."""
    seed = random.SystemRandom().randrange(2**31)
    for place in (0, 1) if SOAK else random.Random(seed).sample((0, 1), 1):
        print(f"seed {seed}: segment {place}")  # noqa: T201
        folder = tmp_path / str(place)
        house = open_warehouse(folder / "warehouse", settings)
        check_repair(no_spark, house, folder / "segments", events, oracle, place)


def check_repair(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path, events: list[Event], oracle: Oracle, place: int
) -> None:
    paths = write_segments(landing, "p", events, 200)
    write_segments(landing, "q", events[:300], 200)
    whole = damage(paths[place])
    run(no_spark, warehouse, landing)
    compact(warehouse, Housekeeping())
    others = {file.path for file in warehouse.current().files("message_life") if file.project == "q"}
    paths[place].write_bytes(whole)
    ingestion.ingest(no_spark, warehouse, landing, landed_segments(landing))
    # A run that was killed between its two commits: the tables are out of date, which verify reports.
    waiting = [check.what for check in verify(warehouse, landing, ()) if not check.balances]
    assert any("makes anew, after a repair" in what for what in waiting)
    run(no_spark, warehouse, landing)
    assert others <= {file.path for file in warehouse.current().files("message_life")}
    as_made_at_once(no_spark, warehouse, landing, oracle.tables("p", "q"))


def test_a_segment_with_the_same_content_is_not_ingested_again(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path, events: list[Event]
) -> None:
    paths = write_segments(landing, "p", events[:300], 100)
    run(no_spark, warehouse, landing)
    before = warehouse.current()
    os.utime(paths[0], (1, 1))
    run(no_spark, warehouse, landing)
    after = warehouse.current()
    assert [after.release.tables[name] for name in ("event", "message_life")] == [
        before.release.tables[name] for name in ("event", "message_life")
    ]
    assert not [check for check in verify(warehouse, landing) if not check.balances]
    run(no_spark, warehouse, landing)
    assert warehouse.current().version == after.version == before.version + 1


def test_a_repair_only_adds_events_where_retention_has_dropped_some(
    no_spark: SparkSession, settings: Settings, tmp_path: Path, landing: Path
) -> None:
    """The tables of such a project could not be made anew from bronze."""
    short = msgspec.structs.replace(settings, retention_days={"default": None, "event": 30})
    warehouse = open_warehouse(tmp_path / "warehouse", short)
    days = [[ev.SessionHeartbeat(at, "s") for at in range(day, day + 4)] for day in (START, START + 9 * DAY_US)]
    for first, some in zip((1, 5), days, strict=True):
        write_segment(landing, "p", first, some[:2])
    run(no_spark, warehouse, landing)
    retire(warehouse, Housekeeping(), datetime.fromtimestamp((START + 35 * DAY_US) / 1_000_000, UTC))
    assert warehouse.current().projects["p"].retired == 2
    for first, some in zip((1, 5), days, strict=True):
        write_segment(landing, "p", first, some)
    run(no_spark, warehouse, landing)
    state = warehouse.current()
    assert (state.projects["p"].retired, state.projects["p"].covered) == (2, [(1, 2), (5, 8)])
    assert state.rows("event") == 4
    assert {check.name for check in verify(warehouse, landing) if not check.balances} == {"sequence", "gap"}
    run(no_spark, warehouse, landing)
    assert warehouse.current().version == state.version


def earlier_version(missing: str) -> Callable[[Assignment], Ingested]:
    """Return a task like that of a version of Tocsin that does not know a kind of event."""

    def ingest_segment(task: Assignment) -> Ingested:
        from tocsin.pipeline.bronze import segment_task

        known = {name: kind for name, kind in KINDS.items() if name != missing}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segment_task, "KINDS", known)
            return segment_task.ingest_segment(task)

    return ingest_segment


def test_lines_of_kinds_that_were_unknown_are_read_after_an_upgrade(
    no_spark: SparkSession,
    warehouse: Warehouse,
    landing: Path,
    events: list[Event],
    oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = write_segments(landing, "p", events, 50)
    having = {
        kind: [path for path in paths if f'"kind":"{kind}"'.encode() in zstd.decompress(path.read_bytes())]
        for kind in Counter(type(event).__name__ for event in events)
    }
    kind = max((kind for kind in having if len(having[kind]) < len(paths)), key=lambda kind: len(having[kind]))
    monkeypatch.setattr(ingestion, "ingest_segment", earlier_version(kind))
    run(no_spark, warehouse, landing)
    monkeypatch.undo()
    missing = sum(type(event).__name__ == kind for event in events)
    assert warehouse.current().rows("event") == len(events) - missing
    assert status(warehouse, landing)["rereadable"] == len(having[kind])
    untouched = [path for path in paths if path not in having[kind]]
    marks = ingested_segments(warehouse, warehouse.current())
    outcome = reread(no_spark, warehouse, landing)
    assert (outcome.segments, outcome.events) == (len(having[kind]), missing)
    after = ingested_segments(warehouse, warehouse.current())
    assert all(after[name] == marks[name] for name in (path.relative_to(landing).as_posix() for path in untouched))
    assert warehouse.current().rows("quarantine") == 0
    assert reread(no_spark, warehouse, landing).segments == 0
    as_made_at_once(no_spark, warehouse, landing, oracle.tables("p"))


def test_all_rejected_lines_can_be_read_again(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path, events: list[Event]
) -> None:
    (path,) = write_segments(landing, "p", events[:50], 100)
    path.write_bytes(zstd.compress(zstd.decompress(path.read_bytes()) + b"no event\n" + b'{"kind":"Later","seq":9}\n'))
    run(no_spark, warehouse, landing)
    assert reread(no_spark, warehouse, landing).segments == 0
    outcome = reread(no_spark, warehouse, landing, rejected=True)
    assert (outcome.segments, outcome.events) == (1, 0)
    (mark,) = ingested_segments(warehouse, warehouse.current()).values()
    assert (mark.events, mark.quarantined, mark.duplicates, mark.unknown_kinds) == (50, 2, 0, ["Later"])
    assert warehouse.current().rows("quarantine") == 2
    assert not [check for check in verify(warehouse, landing) if not check.balances]

"""The refresh: which days are counted anew, in buckets or at once, and what a late event changes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs.tables import EVERYTHING, contents
from tests.pipeline.test_message_life import STORY, accepted
from tests.pipeline.traffic import DAY_US, START, day_of, simulated, write_segment, write_segments
from tests.pipeline.without_spark import run_here
from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.events import Event
from tocsin.pipeline.bronze.ingest import ingest
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.catalogue import COLUMNS, VIEWS, in_order, open_tables, open_warehouse
from tocsin.pipeline.engine.duck import rows_of
from tocsin.pipeline.jobs.refresh import refresh
from tocsin.pipeline.jobs.refresh_tasks import Settle
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.verify import verify
from tocsin.pipeline.lake.compaction import Housekeeping, compact
from tocsin.pipeline.lake.release import Batch
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.settings import Settings

FACTS = ("message_minute", "message_hour", "queue_second", "thread_day")


def step(session: SparkSession, warehouse: Warehouse, landing: Path) -> Snapshot:
    ingest(session, warehouse, landing, landed_segments(landing))
    return refresh(session, warehouse)


def paths(state: Snapshot, name: str, day: int | None = None) -> set[str]:
    date = None if day is None else str(day_of(START + day * DAY_US))
    return {file.path for file in state.files(name) if date in (None, file.date)}


def asked(warehouse: Warehouse, query: str) -> list[dict[str, Any]]:
    with open_tables(warehouse, names=["policy_span"]) as tables:
        return rows_of(tables, query)


def first_day() -> list[Event]:
    """Return a heartbeat, a message that waits and one that is offered."""
    return [
        ev.SessionHeartbeat(START, "s"),
        accepted(START, "waits"),
        accepted(START, "goes"),
        ev.MessageOffered(START, 3, "s", 1, 1, 0, False),
    ]


def second_day() -> list[Event]:
    return [ev.SessionHeartbeat(START + DAY_US, "s"), accepted(START + DAY_US, "next")]


def test_a_new_day_leaves_the_files_of_earlier_days(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path
) -> None:
    write_segment(landing, "p", 1, first_day())
    one = step(no_spark, warehouse, landing)
    write_segment(landing, "p", 5, second_day())
    two = step(no_spark, warehouse, landing)
    for name in FACTS:
        assert paths(two, name, 0) == paths(one, name, 0), f"a day of {name} was made anew for nothing"
        assert paths(two, name, 1), name
    assert paths(one, "session_part") < paths(two, "session_part")
    assert [file.rows for file in two.files("session_part")] == [1, 1]


def test_a_project_has_files_only_of_what_it_has(no_spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    write_segment(landing, "p", 1, first_day())
    write_segment(landing, "q", 1, [ev.SessionHeartbeat(START, "s")] * 2)
    made = step(no_spark, warehouse, landing)
    files = {name: len(made.files(name)) for name in ("session_part", "message_hour", "occurrence")}
    assert files == {"session_part": 2, "message_hour": 1, "occurrence": 0}


def test_a_late_event_makes_the_day_of_its_message_anew(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path
) -> None:
    write_segment(landing, "p", 1, [*first_day(), *second_day()])
    one = step(no_spark, warehouse, landing)
    late = ev.MessageExpired(START + 8 * DAY_US, 2, "ttl", START + DAY_US, 5.0, 0.0)
    write_segment(landing, "p", 7, [late])
    two = step(no_spark, warehouse, landing)
    assert paths(two, "message_hour", 1) == paths(one, "message_hour", 1)
    assert not paths(two, "message_hour", 0) & paths(one, "message_hour", 0), "the day of its acceptance was kept"
    found = asked(warehouse, "SELECT message, state FROM message_life ORDER BY message")
    assert [(row["message"], row["state"]) for row in found] == [(2, "expired"), (3, "offered"), (6, "queued")]
    moved = asked(warehouse, 'SELECT us(second) AS us, "left" FROM queue_second WHERE "left" > 0 ORDER BY us')
    assert [(row["us"], row["left"]) for row in moved] == [(START, 1), (START + 8 * DAY_US, 1)]


def test_a_refresh_without_new_segments_makes_no_release(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path
) -> None:
    write_segment(landing, "p", 1, first_day())
    one = step(no_spark, warehouse, landing)
    assert step(no_spark, warehouse, landing).version == one.version


def test_verify_tells_of_tables_that_are_behind_bronze(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path
) -> None:
    """A stream that was killed between its two commits leaves events that no table includes."""

    def behind() -> list[tuple[str, int, int]]:
        wrong = [check for check in verify(warehouse, landing, ()) if not check.balances]
        return [(check.name, check.expected, check.found) for check in wrong]

    write_segment(landing, "p", 1, first_day())
    ingest(no_spark, warehouse, landing, landed_segments(landing))
    assert behind() == [("tables", 0, 4)]
    refresh(no_spark, warehouse)
    write_segment(landing, "p", 5, second_day())
    ingest(no_spark, warehouse, landing, landed_segments(landing))
    assert behind() == [("tables", 0, 2)]
    refresh(no_spark, warehouse)
    assert behind() == []


def test_a_new_policy_counts_again_from_its_day_on(no_spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    def hours(day: int) -> list[int | None]:
        where = f"date = DATE '{day_of(START + day * DAY_US)}'"
        return [row["bound_us"] for row in asked(warehouse, f"SELECT bound_us FROM message_hour WHERE {where}")]

    write_segment(landing, "p", 1, [accepted(START, "early")])
    write_segment(landing, "p", 2, [accepted(START + DAY_US + 100, "later")])
    one = step(no_spark, warehouse, landing)
    assert (hours(0), hours(1)) == ([None], [None])
    policy = b'{"aging": {"enabled": true, "threshold_s": 60, "boost_levels": 1}}'
    write_segment(landing, "p", 3, [ev.PolicyAdopted(START + DAY_US, "boss", 1, "late news", policy)])
    two = step(no_spark, warehouse, landing)
    assert paths(two, "message_hour", 0) == paths(one, "message_hour", 0)
    assert (hours(0), hours(1)) == ([None], [180_000_000])


def test_a_run_opens_no_more_files_after_many_runs(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each day has its segment, with a message that ends and a refusal; only the first adopts a policy."""
    given: list[Settle] = []

    def recorded(session: SparkSession, work: Any, assignments: Any, result: Any) -> Any:
        given.extend(one for one in assignments if isinstance(one, Settle))
        return run_here(session, work, assignments, result)

    monkeypatch.setattr("tocsin.pipeline.jobs.refresh.run_tasks", recorded)
    policy = b'{"aging": {"enabled": true, "threshold_s": 60, "boost_levels": 1}}'
    opened: list[list[str]] = []
    for day in range(6):
        at, seq = START + day * DAY_US, day * 4 + 1
        first = ev.PolicyAdopted(at, "boss", 1, "", policy) if not day else ev.SessionHeartbeat(at, "s")
        refused = ev.SendRefused(at, f"r{day}", "a", "b", "STATUS", 1, "E_QUOTA_001", "full", 5.0)
        ended = ev.MessageExpired(at + 1, seq + 1, "ttl", at, 5.0, 0.0)
        write_segment(landing, "p", seq, [first, accepted(at, f"m{day}"), ended, refused])
        given.clear()
        state = step(no_spark, warehouse, landing)
        opened.append([file.path for task in given for file in (*task.stale, *task.kept, *task.policies)])
    assert len(state.files("occurrence")) == 6
    (adopted,) = paths(state, "occurrence", 0)
    assert opened == [[adopted]] * 6
    bounds = asked(warehouse, "SELECT bound_us FROM message_hour")
    assert [row["bound_us"] for row in bounds] == [180_000_000] * 6


def test_files_of_policies_are_known_after_compaction(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path
) -> None:
    def ranges() -> list[tuple[int, int]]:
        files = warehouse.current().files("occurrence")
        return [(file.low, file.high) for file in sorted(files, key=lambda file: (file.date, file.low, file.high))]

    refused: list[Event] = [
        ev.SendRefused(START + day * DAY_US, "r", "a", "b", "STATUS", 1, "E_QUOTA_001", "full", 5.0)
        for day in (0, 0, 1, 1)
    ]
    adopted: list[Event] = [ev.PolicyAdopted(START, "boss", version, "", b"{}") for version in (1, 2)]
    for seq, event in enumerate([*adopted, *refused], 1):
        write_segment(landing, "p", seq, [event])
        step(no_spark, warehouse, landing)
    assert ranges() == [(0, 0), (0, 0), (1, 1), (2, 2), (0, 0), (0, 0)]
    compact(warehouse, Housekeeping())
    assert ranges() == [(1, 2), (0, 0)]


def test_a_changed_definition_makes_its_table_anew(no_spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    write_segment(landing, "p", 1, STORY)
    one = step(no_spark, warehouse, landing)

    def outdated(*names: str) -> Snapshot:
        """Commit the state with other digests of some tables, as an older version would have left it."""
        before = warehouse.current()
        earlier = before.release.made_as | dict.fromkeys(names, "of an older version")
        warehouse.release(before, Batch(0, "refresh", 0, 0.1), {}, made_as=earlier)
        return refresh(no_spark, warehouse)

    counted = outdated("message_hour")
    assert not paths(counted, "message_hour") & paths(one, "message_hour")
    assert paths(counted, "message_life") == paths(one, "message_life")
    rebuilt = outdated("message_life")
    assert not paths(rebuilt, "message_life") & paths(one, "message_life")
    assert not paths(rebuilt, "session_part") & paths(one, "session_part")
    assert {name: rebuilt.rows(name) for name in COLUMNS} == {name: one.rows(name) for name in COLUMNS}


def test_messages_without_an_acceptance_are_not_shown(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path
) -> None:
    write_segment(landing, "p", 2, STORY[1:5])
    assert step(no_spark, warehouse, landing).rows("message_life") == 1
    assert warehouse.current().rows("message_hour") == 0
    write_segment(landing, "p", 1, STORY[:1])
    found = step(no_spark, warehouse, landing)
    assert (found.rows("message_life"), found.rows("message_hour")) == (1, 1)


def test_tables_in_buckets_are_the_same_tables(
    no_spark: SparkSession, warehouse: Warehouse, landing: Path, settings: Settings
) -> None:
    """Many small tasks, each with some files and a bucket of the messages, in two batches."""
    events, _ = simulated(7, 300)
    small = open_warehouse(warehouse.root.parent / "small", msgspec.structs.replace(settings, task_rows_max=150))
    away = warehouse.root.parent / "away"
    parts = write_segments(away, "p", events, 120)
    for some in (parts[: len(parts) // 2], parts[len(parts) // 2 :]):
        for path in some:
            target = landing / path.relative_to(away)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        run(no_spark, small, landing)
    run(no_spark, warehouse, landing)
    assert len(small.current().files("message_hour")) > len(warehouse.current().files("message_hour"))
    wanted, found = contents(warehouse), contents(small)
    for name in EVERYTHING:
        assert found[name] == wanted[name], name


def test_a_view_comes_after_its_inputs() -> None:
    assert in_order(VIEWS) == VIEWS
    with pytest.raises(InvariantViolation, match="reads"):
        in_order(VIEWS[::-1])

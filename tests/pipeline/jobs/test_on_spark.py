"""Jobs on Spark: how many Spark jobs a run is, and the task that only a repair has."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.pipeline.jobs.tables import contents, found_lives
from tests.pipeline.jobs.test_refresh import paths as paths_of
from tests.pipeline.test_message_life import STORY, accepted
from tests.pipeline.traffic import DAY_US, START, write_segment
from tests.pipeline.without_spark import without_spark
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.pipeline.catalogue import COLUMNS, open_warehouse
from tocsin.pipeline.jobs import stream
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.stream import start_stream
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings


def test_a_run_is_few_jobs_and_few_tables(spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    """However many views there are: one job for the segments, and one each to fold, settle and follow threads."""
    tracker = spark.sparkContext.statusTracker()
    write_segment(landing, "p", 1, STORY)
    before = len(tracker.getJobIdsForGroup(None))
    run(spark, warehouse, landing)
    assert len(tracker.getJobIdsForGroup(None)) - before == 4
    above_bronze = set(COLUMNS) - {"event", "quarantine", "segment"}
    assert len(above_bronze) == 7
    assert warehouse.current().files("session_part") == [], "a table was written whose kinds did not occur"


def test_a_stream_that_was_killed_before_its_tables_makes_them(
    spark: SparkSession, warehouse: Warehouse, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All segments were in bronze, so that the replayed batch found nothing to do."""
    write_segment(landing, "p", 1, STORY)

    def killed(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(stream, "refresh", killed)
        with pytest.raises(StreamingQueryException):
            start_stream(spark, warehouse, landing, every_s=None).awaitTermination()
    assert (warehouse.current().rows("segment"), warehouse.current().rows("message_life")) == (1, 0)
    start_stream(spark, warehouse, landing, every_s=None).awaitTermination()
    assert found_lives(warehouse)


def test_a_repair_makes_anew_only_the_days_that_it_touches(
    spark: SparkSession, settings: Settings, warehouse: Warehouse, landing: Path
) -> None:
    """The removed event expired a message of the first day, so that one is folded again from its other events."""
    expired = ev.MessageExpired(START + 2 * DAY_US, 3, "ttl", START + DAY_US, 5.0, 0.0)
    days: list[list[Event]] = [
        [ev.SessionHeartbeat(START, "s"), accepted(START, "a"), accepted(START, "b")],
        [accepted(START + DAY_US, "c"), ev.MessageOffered(START + DAY_US, 100_001, "s", 1, 1, 0, False)],
        [expired, accepted(START + 2 * DAY_US, "d"), ev.RecallRefused(START + 2 * DAY_US, "d", "bob", "unknown")],
        [accepted(START + 3 * DAY_US, "e"), ev.SessionHeartbeat(START + 3 * DAY_US, "s")],
    ]
    for day, some in enumerate(days):
        write_segment(landing, "p", 1 + day * 100_000, some)
    run(spark, warehouse, landing)
    before = warehouse.current()
    write_segment(landing, "p", 200_001, [ev.SessionHeartbeat(START + 2 * DAY_US, "s"), *days[2][1:2]])
    run(spark, warehouse, landing)
    after = warehouse.current()
    for name in ("message_hour", "message_minute", "queue_second", "session_part", "occurrence"):
        for day in range(4):
            old, new = (paths_of(state, name, day) for state in (before, after))
            touched = day == 2 or (day == 0 and name not in ("session_part", "occurrence"))
            assert (old == new) is not touched or not old | new, f"day {day} of {name}"
    states = {number: row["state"] for (_, number), row in found_lives(warehouse).items()}
    assert states == {2: "queued", 3: "queued", 100_001: "offered", 200_002: "queued", 300_001: "queued"}
    oracle = open_warehouse(warehouse.root.parent / "oracle", settings)
    with without_spark() as nothing:
        run(nothing, oracle, landing)
    assert contents(warehouse) == contents(oracle)

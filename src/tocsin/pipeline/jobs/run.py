"""The jobs `run` and `reread`: ingest segments and refresh all tables, once."""

import time
from collections.abc import Collection

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.bronze.ingest import ingest
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.bronze.segment_log import SegmentMark, ingested_segments, new_segments, rereadable
from tocsin.pipeline.jobs.refresh import refresh
from tocsin.pipeline.jobs.steps import Steps
from tocsin.pipeline.lake.storage import Place, StoredFile
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse

__all__ = ["RUN_STEPS", "Outcome", "reread", "run"]

#: Steps that a run reports.
RUN_STEPS = ("events", "tables")


class Outcome(msgspec.Struct):
    """Result of a run."""

    #: Number of the newest release.
    version: int
    #: Segments that were read.
    segments: int
    #: Events in them; of a reread, those that were added.
    events: int
    seconds: float
    #: Rows of each table after the run.
    rows: dict[str, int]


def run(spark: SparkSession, warehouse: Warehouse, landing: Place, steps: Steps | None = None) -> Outcome:
    """Ingest new segments and refresh all tables. A second run changes nothing; after a kill the next run continues."""
    landed = landed_segments(landing)
    fresh = new_segments(landed, ingested_segments(warehouse, warehouse.current(), landed))
    return _updated(spark, warehouse, landing, steps, fresh, again=())


def reread(
    spark: SparkSession,
    warehouse: Warehouse,
    landing: Place,
    steps: Steps | None = None,
    *,
    rejected: bool = False,
) -> Outcome:
    """Read segments again that had lines of kinds that are known by now, and refresh all tables with their events.

    With `rejected`, all segments that had rejected lines are read again. Segments that are no longer in the landing
    zone are left out.
    """
    landed = landed_segments(landing)
    again = [name for name in rereadable(_marks(warehouse), rejected=rejected) if name in landed]
    return _updated(spark, warehouse, landing, steps, {name: landed[name] for name in again}, again)


def _marks(warehouse: Warehouse) -> dict[str, SegmentMark]:
    return ingested_segments(warehouse, warehouse.current())


def _updated(
    spark: SparkSession,
    warehouse: Warehouse,
    landing: Place,
    steps: Steps | None,
    segments: dict[str, StoredFile],
    again: Collection[str],
) -> Outcome:
    steps = steps or Steps(RUN_STEPS)
    begin = time.perf_counter()
    events = 0

    def update() -> Snapshot:
        nonlocal events
        with steps.step("events") as step:
            before = _events_of(warehouse, segments) if again else 0
            between = ingest(spark, warehouse, landing, segments, step.progress, again=again)
            events = step.rows = _events_of(warehouse, segments) - before
        with steps.step("tables") as step:
            after = refresh(spark, warehouse, step.progress)
            made = after.release.batch if after.version > between.version else None
            step.rows = 0 if made is None else sum(made.rows.values())
        return after

    after = warehouse.written(update, wait_s=0)
    rows = {name: after.rows(name) for name in after.tables}
    return Outcome(after.version, len(segments), events, time.perf_counter() - begin, rows)


def _events_of(warehouse: Warehouse, segments: Collection[str]) -> int:
    marks = ingested_segments(warehouse, warehouse.current(), segments)
    return sum(mark.events for name, mark in marks.items() if name in segments)

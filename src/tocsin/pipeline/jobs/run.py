"""The `run` job: ingest new segments and refresh all tables, once."""

import time
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.bronze.ingest import Progress, ingest
from tocsin.pipeline.bronze.landing_zone import landed_segments, new_segments
from tocsin.pipeline.jobs.refresh import refresh
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["Outcome", "run"]


class Outcome(msgspec.Struct):
    """Result of a run."""

    #: Version of the newest manifest.
    version: int
    #: New segments.
    segments: int
    #: Events in them.
    events: int
    seconds: float
    #: Rows of each table after the run.
    rows: dict[str, int]


def run(spark: SparkSession, warehouse: Warehouse, landing: Path, progress: Progress | None = None) -> Outcome:
    """Ingest new segments and refresh all tables. A second run changes nothing; after a kill the next run continues."""
    begin = time.perf_counter()
    with warehouse.writing(wait_s=0):
        before = warehouse.current()
        fresh = new_segments(landed_segments(landing), before.segments)
        ingest(spark, warehouse, landing, fresh, progress)
        after = refresh(spark, warehouse, progress)
    events = sum(mark.events for name, mark in after.segments.items() if name in fresh)
    rows = {name: after.rows(name) for name in after.tables}
    return Outcome(after.version, len(fresh), events, time.perf_counter() - begin, rows)

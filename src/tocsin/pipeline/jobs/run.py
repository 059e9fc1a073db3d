"""The jobs: they wire, and decide nothing. `run` takes what is new once; `stream` goes on doing it."""

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
    """What a run did."""

    version: int
    segments: int
    events: int
    seconds: float
    #: Rows of each table now.
    rows: dict[str, int]


def run(spark: SparkSession, warehouse: Warehouse, landing: Path, progress: Progress | None = None) -> Outcome:
    """Take new segments through all tables. Doing it again changes nothing; killed anywhere, the next one goes on."""
    begin = time.perf_counter()
    with warehouse.writing(wait_s=0):
        before = warehouse.current()
        fresh = new_segments(landed_segments(landing), before.segments)
        ingest(spark, warehouse, landing, fresh, progress)
        after = refresh(spark, warehouse, progress)
    events = sum(mark.events for name, mark in after.segments.items() if name in fresh)
    rows = {name: after.rows(name) for name in after.tables}
    return Outcome(after.version, len(fresh), events, time.perf_counter() - begin, rows)

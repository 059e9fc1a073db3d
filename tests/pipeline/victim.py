"""Process that runs or streams, to be killed by a test."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.pipeline.clusters import QUICK
from tests.pipeline.without_spark import without_spark
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.engine.spark import SparkOptions, spark_session
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.stream import start_stream
from tocsin.pipeline.lake.delta_table import StoredTable
from tocsin.pipeline.settings import load_settings

__all__ = ["main"]


def main(way: str, landing: str, warehouse: str, scratch: str, commits: str = "") -> None:
    """Run (`run` on Spark, `here` without it) or `stream`, in small batches: there are many moments to be killed in.

    With `commits`, it kills itself after so many commits to tables, when the next one is written but not committed.
    """
    if commits:
        _die_after(int(commits))
    settings = msgspec.structs.replace(
        load_settings(),
        driver_memory_mib=512,
        class_archive=False,
        ingest_bytes_max=1500,
        stream_segments_max=2,
    )
    options = SparkOptions(master="local[2]", conf=QUICK, scratch=Path(scratch))
    with without_spark() if way == "here" else spark_session(options, settings) as spark:
        house = open_warehouse(warehouse, settings, Path(scratch) / "warehouse")
        if way == "stream":
            start_stream(spark, house, landing, every_s=None).awaitTermination()
        else:
            run(spark, house, landing)


def _die_after(count: int) -> None:
    commit = StoredTable.commit
    done: list[int] = []

    def counted(*arguments: Any, **options: Any) -> int:
        if len(done) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(commit(*arguments, **options))
        return done[-1]

    StoredTable.commit = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    main(*sys.argv[1:])

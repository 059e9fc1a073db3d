"""Process that runs or streams, to be killed by a test."""

import sys
from pathlib import Path

import msgspec

from tests.pipeline.conftest import QUICK
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.engine.spark import SparkOptions, spark_session
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.stream import start_stream
from tocsin.pipeline.settings import load_settings

__all__ = ["main"]


def main(way: str, landing: str, warehouse: str) -> None:
    """Do it; small batches, so that there are many moments to be killed in."""
    settings = msgspec.structs.replace(
        load_settings(),
        driver_memory_mib=512,
        shuffle_partitions=1,
        class_archive=False,
        ingest_bytes_max=1500,
        stream_segments_max=2,
    )
    with spark_session(SparkOptions(master="local[2]", conf=QUICK, scratch=Path(warehouse).parent), settings) as spark:
        house = open_warehouse(Path(warehouse), settings)
        if way == "run":
            run(spark, house, Path(landing))
        else:
            start_stream(spark, house, Path(landing), every_s=None).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

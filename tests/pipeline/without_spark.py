"""Jobs whose tasks run in this process: for tests of what a job decides and writes, which is the same on Spark.

`tests/pipeline/jobs/test_run.py`, `test_on_spark.py` and `test_remote.py` run each kind of task on Spark.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import pytest
from pyspark.sql import SparkSession

from tocsin.pipeline.bronze import ingest as ingestion
from tocsin.pipeline.jobs import refresh as refreshing

__all__ = ["run_here", "without_spark"]


def run_here(
    _: SparkSession, work: Callable[[Any], Any], assignments: Sequence[Any], result: type[msgspec.Struct]
) -> list[Any]:
    """Stand for `run_tasks`: assignments and results are encoded as for a task on Spark."""
    found: list[Any] = []
    for given in assignments:
        made = work(msgspec.json.decode(msgspec.json.encode(given), type=type(given)))
        found.append(msgspec.json.decode(msgspec.json.encode(made), type=result))
    return found


@contextmanager
def without_spark() -> Iterator[SparkSession]:
    """Let jobs run their tasks in this process; what they get instead of a session is never used."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (ingestion, refreshing):
            patch.setattr(module, "run_tasks", run_here)
        yield cast("SparkSession", None)

"""Runners of tasks: in this process, or on Spark's workers.

On Spark each task is a partition, so nothing is shuffled, and a free worker takes the next task. Tasks are started in
their order, and a worker keeps the last trace: tasks of the same window should follow each other. Workers read traces
and write results in the lab's folder; only the processor times are returned.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from tocsin.core.errors import Problem, TocsinError, error_for
from tocsin.lab.tasks import Task, perform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["LocalRunner", "Progress", "Runner", "SparkRunner"]

#: Called with the number of finished tasks and the total.
Progress = Callable[[int, int], None]
_LOOK_S = 0.5
_ENCODER = msgspec.msgpack.Encoder()


class Runner(Protocol):
    """Runs tasks."""

    def run(self, tasks: Sequence[Task], progress: Progress | None = None) -> list[float]:
        """Run all tasks; return the processor time of each in seconds, in order."""


class LocalRunner:
    """Runs one task after the other in this process."""

    def run(self, tasks: Sequence[Task], progress: Progress | None = None) -> list[float]:
        """Run all tasks; return the processor time of each in seconds, in order."""
        seconds = []
        for number, task in enumerate(tasks, 1):
            seconds.append(perform(task))
            if progress is not None:
                progress(number, len(tasks))
        return seconds


class SparkRunner:
    """Runs tasks on Spark's workers."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def run(self, tasks: Sequence[Task], progress: Progress | None = None) -> list[float]:
        """Run all tasks; return the processor time of each in seconds, in order."""
        if not tasks:
            return []
        encoded = [_ENCODER.encode(task) for task in tasks]
        numbers = self._spark.range(0, len(tasks), 1, len(tasks))
        frame = numbers.mapInArrow(_worker(encoded), "task bigint, seconds double, problem binary")
        with _ProgressWatcher(tasks, progress):
            rows = frame.collect()
        for row in rows:
            if row["problem"]:
                raise error_for(msgspec.json.decode(bytes(row["problem"]), type=Problem))
        found = {row["task"]: row["seconds"] for row in rows}
        return [found[number] for number in range(len(tasks))]


def _worker(tasks: list[bytes]) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """Return the function that a worker applies to the numbers of its tasks."""

    def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for batch in batches:
            for number in batch.column("id").to_pylist():
                problem, seconds = b"", 0.0
                try:
                    seconds = perform(msgspec.msgpack.decode(tasks[number], type=Task))
                except TocsinError as error:
                    problem = msgspec.json.encode(error.problem)
                yield pa.RecordBatch.from_pydict(
                    {
                        "task": pa.array([number], pa.int64()),
                        "seconds": pa.array([seconds], pa.float64()),
                        "problem": pa.array([problem], pa.binary()),
                    }
                )

    return work


class _ProgressWatcher:
    """Reports progress while tasks run elsewhere, by counting their result files."""

    def __init__(self, tasks: Sequence[Task], progress: Progress | None) -> None:
        self._outs = [Path(task.out) for task in tasks]
        self._progress = progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="lab progress", daemon=True)

    def __enter__(self) -> None:
        if self._progress is not None:
            self._thread.start()

    def _look(self) -> None:
        left = self._outs
        while not self._over.wait(_LOOK_S):
            left = [path for path in left if not path.exists()]
            if self._progress is not None:
                self._progress(len(self._outs) - len(left), len(self._outs))

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._progress is not None:
            self._thread.join()
            self._progress(len(self._outs), len(self._outs))


def timed(runner: Runner, tasks: Sequence[Task]) -> tuple[float, list[float]]:
    """Run tasks; return the elapsed time and the processor time of each, in seconds."""
    begin = time.perf_counter()
    seconds = runner.run(tasks)
    return time.perf_counter() - begin, seconds

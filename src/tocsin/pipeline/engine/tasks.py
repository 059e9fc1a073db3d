"""Spark tasks that run a Python function: Spark distributes and retries, the function reads and writes files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

__all__ = ["run_tasks"]

Assignment = TypeVar("Assignment", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)


#: Session option: the largest number of partitions of local rows.
_PARTITIONS = "spark.sql.leafNodeDefaultParallelism"


def run_tasks(
    spark: SparkSession,
    work: Callable[[Assignment], Result],
    assignments: Sequence[Assignment],
    result: type[Result],
) -> list[Result]:
    """Run one task per assignment, in one Spark job; return the results in the order of the assignments.

    An assignment is a row of its task's partition, so a task is sent its own and no other.
    """
    if not assignments:
        return []
    kind = type(assignments[0])

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place, given in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                made = work(msgspec.json.decode(given, type=kind))
                columns = [pa.array([place], pa.int64()), pa.array([msgspec.json.encode(made)], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, ["id", "result"])

    spark.conf.set(_PARTITIONS, str(len(assignments)))
    places = pa.array(range(len(assignments)), pa.int64())
    tasks = pa.array([msgspec.json.encode(assignment) for assignment in assignments], pa.binary())
    frame = spark.createDataFrame(pa.table([places, tasks], ["id", "task"]))
    rows: list[Any] = frame.mapInArrow(task, "id long, result binary").collect()
    decode = msgspec.json.Decoder(result).decode
    return [decode(bytes(row.result)) for row in sorted(rows, key=lambda row: int(row.id))]

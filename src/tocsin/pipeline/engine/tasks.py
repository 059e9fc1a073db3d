"""Spark tasks that run a Python function: Spark distributes and retries, the function reads and writes files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

__all__ = ["run_tasks"]

Assignment = TypeVar("Assignment", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)


def run_tasks(
    spark: SparkSession,
    work: Callable[[Assignment], Result],
    assignments: Sequence[Assignment],
    result: type[Result],
) -> list[Result]:
    """Run one task per assignment, in one Spark job; return the results in the order of the assignments."""
    if not assignments:
        return []

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                made = work(assignments[place])
                columns = [pa.array([place], pa.int64()), pa.array([msgspec.json.encode(made)], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, ["id", "result"])

    count = len(assignments)
    rows: list[Any] = spark.range(0, count, 1, count).mapInArrow(task, "id long, result binary").collect()
    decode = msgspec.json.Decoder(result).decode
    return [decode(bytes(row.result)) for row in sorted(rows, key=lambda row: int(row.id))]

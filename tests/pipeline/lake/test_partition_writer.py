"""The partition writer: files per partition, limits of rows per file and of buffered bytes."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tocsin.core.errors import InvariantViolation
from tocsin.pipeline.lake.manifest import DataFile
from tocsin.pipeline.lake.partition_writer import Target, write_rows
from tocsin.pipeline.lake.warehouse import Warehouse

DAY = date(2026, 1, 2)


def target(root: Path, **other: Any) -> Target:
    basic = Target(str(root), "lives", "7", ("project", "date", "hot"), ("n", "at"), 100, 1 << 20)
    return msgspec.structs.replace(basic, **other)


def batches(*lots: list[tuple[str, bool, int]]) -> Iterator[pa.RecordBatch]:
    """Rows of project, hot and number; the number is also the stamp, in seconds."""
    for lot in lots:
        stamps = [datetime.fromtimestamp(number, UTC) for _, _, number in lot]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([project for project, _, _ in lot], pa.string()),
                pa.array([DAY] * len(lot), pa.date32()),
                pa.array([hot for _, hot, _ in lot], pa.bool_()),
                pa.array([number for _, _, number in lot], pa.int64()),
                pa.array(stamps, pa.timestamp("us", tz="UTC")),
            ],
            ["project", "date", "hot", "n", "at"],
        )


def numbers(root: Path, file: DataFile) -> list[int]:
    found = pq.ParquetFile(root / file.path).read()
    assert found.column_names == ["n", "at"], "what a folder says is in the file, too"
    return [int(number) for number in found["n"].to_pylist()]


def test_each_part_in_a_file_of_its_own(tmp_path: Path) -> None:
    rows = batches([("a", True, 3), ("b/c", False, 9), ("a", False, 5)], [("a", True, 1)], [])
    files = {(file.project, file.hot): file for file in write_rows(target(tmp_path), rows)}
    assert {key: numbers(tmp_path, file) for key, file in files.items()} == {
        ("a", True): [3, 1],
        ("a", False): [5],
        ("b/c", False): [9],
    }
    hot = files["a", True]
    assert (hot.date, hot.rows, hot.low, hot.high, hot.last_at) == ("2026-01-02", 2, 1, 3, 3_000_000)
    assert hot.bytes == (tmp_path / hot.path).stat().st_size
    assert files["b/c", False].path.startswith("lives/batch=7/project=b%2Fc/date=2026-01-02/hot=false/")


def test_a_file_has_no_more_rows_than_allowed(tmp_path: Path) -> None:
    rows = batches([("a", False, number) for number in range(1, 6)], [("a", False, 6)])
    files = list(write_rows(target(tmp_path, file_rows_max=2), rows))
    assert [(file.rows, file.low, file.high) for file in files] == [(2, 1, 2), (2, 3, 4), (2, 5, 6)]


def test_rows_that_wait_are_written_once_they_are_too_many(tmp_path: Path) -> None:
    def groups(waiting_bytes_max: int) -> int:
        rows = batches(*([("a", False, number)] for number in range(1, 9)))
        (file,) = write_rows(target(tmp_path, waiting_bytes_max=waiting_bytes_max), rows)
        assert numbers(tmp_path, file) == list(range(1, 9))
        return int(pq.read_metadata(tmp_path / file.path).num_row_groups)

    assert (groups(1 << 20), groups(1)) == (1, 8)


def test_a_row_of_no_part_is_not_lost_in_silence(tmp_path: Path) -> None:
    (batch,) = batches([("a", False, 1), ("a", False, 2)])
    hole = batch.set_column(0, "project", pa.array(["a", None], pa.string()))
    with pytest.raises(InvariantViolation, match="partition column is null"):
        list(write_rows(target(tmp_path), [hole]))


def test_spark_reads_what_tasks_wrote(spark: SparkSession, warehouse: Warehouse) -> None:
    """Timestamps, arrays, structs, nulls and project names are read back unchanged."""
    columns = "project string, message bigint, at timestamp, words array<string>, path struct<a:bigint,b:bigint>"
    rows = [
        ("a b%c", 1, datetime(2026, 1, 2, 3, 4, 5, 6), ["x", None], (1, None)),
        ("p", 2, None, [], None),
    ]
    frame = spark.createDataFrame(rows, columns)
    files = warehouse.write(frame, "some", "1", "project")
    assert sorted((file.project, file.rows) for file in files) == [("a b%c", 1), ("p", 1)]
    reader = spark.read.schema(columns).option("basePath", str(warehouse.root / "some"))
    found = reader.parquet(*(str(warehouse.root / file.path) for file in files)).select(*frame.columns)
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, frame.collect()))

"""Checks that a table's sums equal those of its inputs, for `tocsin pipeline verify`.

A check counts in another way than the table's transform: rows of the input on one side, a column of the table on the
other. Days that the input no longer has are left out, because a table may be kept for longer than its input.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["counts_all", "counts_kinds"]

Balance = Callable[..., DataFrame]


def counts_all(column: str, of: str | None = None) -> Balance:
    """Compare a column's sum with the number of rows of the first input, or of those that meet a condition."""

    def balance(table: DataFrame, first: DataFrame, *others: DataFrame) -> DataFrame:
        return _compared(first if of is None else first.where(of), table, column)

    return balance


def counts_kinds(column: str, *kinds: str) -> Balance:
    """Compare a column's sum with the number of events of some kinds; `event` must be the last input."""

    def balance(table: DataFrame, *inputs: DataFrame) -> DataFrame:
        return _compared(inputs[-1].where(F.col("kind").isin(*kinds)), table, column)

    return balance


def _compared(rows: DataFrame, table: DataFrame, column: str) -> DataFrame:
    day = ["project", "date"]
    expected = rows.groupBy(*day).agg(F.count(F.lit(1)).alias("expected"))
    found = table.groupBy(*day).agg(F.sum(column).cast("bigint").alias("found"))
    return (
        expected.join(found, day, "left")
        .groupBy("project")
        .agg(F.sum("expected").alias("expected"), F.coalesce(F.sum("found"), F.lit(0)).alias("found"))
        .select(F.concat(F.lit(f"{column} of "), F.col("project")).alias("what"), "expected", "found")
    )

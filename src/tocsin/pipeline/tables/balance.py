"""Sums that must agree between a table and what it was made from, for `tocsin pipeline verify`.

A balance is counted another way than the table itself: rows of the input on one side, a column of the table on the
other. Days that the input no longer keeps are left out: tables may be kept for longer than what they were made from.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["counts_all", "counts_kinds"]

Balance = Callable[..., DataFrame]


def counts_all(column: str, of: str | None = None) -> Balance:
    """Hold a column's sum against the number of rows of the first input, or of those that a condition holds for."""

    def balance(table: DataFrame, first: DataFrame, *others: DataFrame) -> DataFrame:
        return _held_against(first if of is None else first.where(of), table, column)

    return balance


def counts_kinds(column: str, *kinds: str) -> Balance:
    """Hold a column's sum against the number of events of some kinds; `event` is the last input."""

    def balance(table: DataFrame, *inputs: DataFrame) -> DataFrame:
        return _held_against(inputs[-1].where(F.col("kind").isin(*kinds)), table, column)

    return balance


def _held_against(rows: DataFrame, table: DataFrame, column: str) -> DataFrame:
    day = ["project", "date"]
    expected = rows.groupBy(*day).agg(F.count(F.lit(1)).alias("expected"))
    found = table.groupBy(*day).agg(F.sum(column).cast("bigint").alias("found"))
    return (
        expected.join(found, day, "left")
        .groupBy("project")
        .agg(F.sum("expected").alias("expected"), F.coalesce(F.sum("found"), F.lit(0)).alias("found"))
        .select(F.concat(F.lit(f"{column} of "), F.col("project")).alias("what"), "expected", "found")
    )

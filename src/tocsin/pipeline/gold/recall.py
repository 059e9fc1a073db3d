"""Recalls per minute by outcome; many `already_delivered` mean that recalls come too late (SPEC-071 §11)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.balance import counts_kinds
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["RECALL"]

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the recalls, UTC."),
    ("minute", "timestamp", "Minute of the recalls."),
    ("outcome", "string", "`recalled`, `already_delivered`, `already_expired` or `not_found`."),
    ("recalls", "bigint", "Number of recalls; each copy of a recalled broadcast counts, a refused recall counts once."),
)
_KEY = ("project", "date", "minute", "outcome")
_KINDS = ("MessageRecalled", "RecallRefused")


def recall(event: DataFrame) -> DataFrame:
    """Count recalls per minute and outcome."""
    counted = (
        event.where(F.col("kind").isin(*_KINDS))
        .withColumn("minute", F.date_trunc("minute", F.timestamp_micros("at")))
        .withColumn("outcome", F.when(F.col("kind") == "MessageRecalled", "recalled").otherwise(F.col("outcome")))
        .groupBy(*_KEY)
        .agg(F.count(F.lit(1)).alias("recalls"))
    )
    return conform(counted, _COLUMNS)


RECALL = Table(
    name="recall",
    layer="gold",
    about="Recalls of a minute, by outcome.",
    columns=_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=_KINDS),),
    transform=recall,
    balance=counts_kinds("recalls", *_KINDS),
)

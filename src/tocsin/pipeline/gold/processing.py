"""Processing latency and decay rate over time: what the queue manager steers by, and how it steers (DECAY §4)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["DECAY_RATE", "PROCESSING_LATENCY"]

_LATENCY_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("minute", "timestamp", "Minute in which they were accepted."),
    ("message_type", "string", "Their type."),
    ("messages", "bigint", "Messages accepted."),
    ("decaying", "bigint", "Of those, with a decay rate above 0."),
    ("decay_rate_sum_ppm", "bigint", "Sum of their rates, in millionths, so that it adds up exactly."),
    ("stale", "bigint", "Of those, expired because their importance had decayed away."),
    *DISTRIBUTION,
)
_LATENCY_KEY = ("project", "date", "minute", "message_type")


def processing_latency(message_life: DataFrame) -> DataFrame:
    """Measure the time from the last offer to the last confirmation that the contract asks for."""
    to_receipt_us = F.unix_micros("delivered_at") - F.unix_micros("offered_at")
    latency_us = F.when(F.col("ack_required"), F.col("ack_latency_us")).otherwise(to_receipt_us)
    lives = message_life.withColumns(
        {
            "minute": F.date_trunc("minute", "created_at"),
            "latency_us": F.when(latency_us.isNotNull(), F.greatest(latency_us, F.lit(0))),
        }
    )
    measured = distribution(
        lives,
        _LATENCY_KEY,
        F.col("latency_us"),
        messages=F.count(F.lit(1)),
        decaying=F.count_if(F.col("decay_rate") > 0),
        decay_rate_sum_ppm=F.sum(F.round(F.col("decay_rate") * 1_000_000).cast("bigint")),
        stale=F.count_if((F.col("state") == "expired") & (F.col("reason") == "stale")),
    )
    return conform(measured, _LATENCY_COLUMNS)


_RATE_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the change, UTC."),
    ("seq", "bigint", "Sequence number of the change."),
    ("changed_at", "timestamp", "When the rate of new messages changed; it holds until the next row."),
    ("old_rate", "double", "Rate before."),
    ("new_rate", "double", "Rate from then on."),
    ("average_us", "bigint", "Average processing latency that led to it, microseconds."),
    ("samples", "bigint", "How many latencies that is the average of."),
    ("threshold_us", "bigint", "Threshold that it crossed, microseconds."),
    ("rule", "string", "`latency_high`, `latency_low` or `idle`."),
)


def decay_rate(event: DataFrame) -> DataFrame:
    """List the changes of the rate."""
    changes = event.where(F.col("kind") == "DecayRateChanged").withColumns(
        {
            "changed_at": F.timestamp_micros("at"),
            "average_us": F.round(F.col("average_s") * 1_000_000),
            "threshold_us": F.round(F.col("threshold_s") * 1_000_000),
        }
    )
    return conform(changes, _RATE_COLUMNS)


PROCESSING_LATENCY = Table(
    name="processing_latency",
    layer="gold",
    about="How long recipients took with the messages of a minute, per type, and how fast those decayed.",
    columns=_LATENCY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=processing_latency,
    balance=counts_all("messages"),
)
DECAY_RATE = Table(
    name="decay_rate",
    layer="gold",
    about="Changes of the decay rate of new messages, with what led to each.",
    columns=_RATE_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=("DecayRateChanged",)),),
    transform=decay_rate,
)

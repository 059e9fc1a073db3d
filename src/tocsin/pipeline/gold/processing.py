"""Processing latency, and changes of the decay rate by the queue manager (DECAY §4)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["DECAY_RATE", "PROCESSING_LATENCY"]

_LATENCY_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("minute", "timestamp", "Minute of acceptance."),
    ("message_type", "string", "Message type."),
    ("messages", "bigint", "Number of messages accepted."),
    ("decaying", "bigint", "Of those, with a decay rate above 0."),
    ("decay_rate_sum_ppm", "bigint", "Sum of their decay rates, in millionths, so that sums are exact."),
    ("stale", "bigint", "Of those, expired because their importance had decayed."),
    *DISTRIBUTION,
)
_LATENCY_KEY = ("project", "date", "minute", "message_type")


def processing_latency(message_life: DataFrame) -> DataFrame:
    """Measure the time from the last offer to the confirmation that the contract requires."""
    to_receipt_us = F.unix_micros("delivered_at") - F.unix_micros("offered_at")
    latency_us = F.when(F.col("ack_required"), F.col("ack_latency_us")).otherwise(to_receipt_us)
    messages = message_life.withColumns(
        {
            "minute": F.date_trunc("minute", "created_at"),
            "latency_us": F.when(latency_us.isNotNull(), F.greatest(latency_us, F.lit(0))),
        }
    )
    measured = distribution(
        messages,
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
    ("changed_at", "timestamp", "Time at which the decay rate of new messages changed."),
    ("old_rate", "double", "Decay rate before."),
    ("new_rate", "double", "Decay rate until the next row."),
    ("average_us", "bigint", "Average processing latency that caused the change, microseconds."),
    ("samples", "bigint", "Number of latencies in the average."),
    ("threshold_us", "bigint", "Threshold that the average crossed, microseconds."),
    ("rule", "string", "`latency_high`, `latency_low` or `idle`."),
)


def decay_rate(event: DataFrame) -> DataFrame:
    """List the changes of the decay rate."""
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
    about="Processing latencies and decay rates of the messages of a minute, per type.",
    columns=_LATENCY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=processing_latency,
    balance=counts_all("messages"),
)
DECAY_RATE = Table(
    name="decay_rate",
    layer="gold",
    about="Changes of the decay rate of new messages, with their cause.",
    columns=_RATE_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=("DecayRateChanged",)),),
    transform=decay_rate,
)

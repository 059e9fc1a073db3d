"""Refused sends by error code: rate limits and quotas, routing, validation (LIMINAL)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["RATE_CODES", "REFUSAL"]

#: Error codes of an empty token bucket and of used-up quotas.
RATE_CODES = ("E_ADMISSION_001", "E_ADMISSION_002", "E_ADMISSION_003")

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the refusals, UTC."),
    ("minute", "timestamp", "Minute of the refusals."),
    ("sender", "string", "Agent whose send was refused."),
    ("message_type", "string", "Message type of the send."),
    ("code", "string", "Error code."),
    ("scope", "string", "`send` for a message, `copy` for one recipient of a broadcast."),
    ("refusals", "bigint", "Number of refusals."),
    ("rate_limited", "bigint", "Of those, by a rate limit or quota."),
    ("high", "bigint", "Of those, requested at Blocking or above; copies are not counted."),
    ("retry_after_max_us", "bigint", "Longest `retry_after` in a refusal, microseconds."),
)
_KEY = ("project", "date", "minute", "sender", "message_type", "code", "scope")
_KINDS = ("SendRefused", "BroadcastAccepted")


def refusal(event: DataFrame) -> DataFrame:
    """Count refusals per minute, sender, type and code."""
    sends = event.where(F.col("kind") == "SendRefused").withColumn("scope", F.lit("send"))
    left_out = event.where((F.col("kind") == "BroadcastAccepted") & (F.size("failed") > 0))
    codes = F.transform("failed", lambda entry: F.substring_index(entry, "=", -1))
    copies = left_out.withColumn("code", F.explode(codes)).withColumns(
        {
            "scope": F.lit("copy"),
            "requested": F.lit(None).cast("bigint"),
            "retry_after_s": F.lit(None).cast("double"),
        }
    )
    wanted = ["project", "date", "at", "sender", "message_type", "code", "scope", "requested", "retry_after_s"]
    counted = (
        sends.select(*wanted)
        .unionByName(copies.select(*wanted))
        .withColumn("minute", F.date_trunc("minute", F.timestamp_micros("at")))
        .groupBy(*_KEY)
        .agg(
            F.count(F.lit(1)).alias("refusals"),
            F.count_if(F.col("code").isin(*RATE_CODES)).alias("rate_limited"),
            F.count_if(F.col("requested") >= 2).alias("high"),
            F.max(F.round(F.col("retry_after_s") * 1_000_000).cast("bigint")).alias("retry_after_max_us"),
        )
    )
    return conform(counted, _COLUMNS)


REFUSAL = Table(
    name="refusal",
    layer="gold",
    about="Refusals of a minute, per sender, type and code.",
    columns=_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=_KINDS),),
    transform=refusal,
)

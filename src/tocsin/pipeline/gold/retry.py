"""Retries, dead letters and redrives (APM §3.5, §4)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["DEAD_LETTER", "RETRY"]

_RETRY_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("hour", "timestamp", "Hour of acceptance."),
    ("message_type", "string", "Message type."),
    ("recipient", "string", "Agent that they are addressed to."),
    ("messages", "bigint", "Number of messages accepted."),
    ("offered", "bigint", "Of those, offered at least once."),
    ("offers", "bigint", "Total number of offers."),
    ("requeued", "bigint", "Of those, requeued at least once."),
    ("requeues", "bigint", "Total number of requeues."),
    ("rejections", "bigint", "Total number of rejections (NACK)."),
    ("redriven", "bigint", "Of those, redriven at least once."),
    ("redrives", "bigint", "Total number of redrives."),
    ("dead", "bigint", "Of those, dead letters now, including purged ones."),
    ("purged", "bigint", "Of these, purged."),
)
_RETRY_KEY = ("project", "date", "hour", "message_type", "recipient")


def retry(message_life: DataFrame) -> DataFrame:
    """Count retries per hour, type and recipient."""
    counted = (
        message_life.withColumn("hour", F.date_trunc("hour", "created_at"))
        .groupBy(*_RETRY_KEY)
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.count_if(F.col("offers") > 0).alias("offered"),
            F.sum("offers").alias("offers"),
            F.count_if(F.col("requeues") > 0).alias("requeued"),
            F.sum("requeues").alias("requeues"),
            F.sum("rejections").alias("rejections"),
            F.count_if(F.col("redrives") > 0).alias("redriven"),
            F.sum("redrives").alias("redrives"),
            F.count_if(F.col("state").isin("dead", "purged")).alias("dead"),
            F.count_if(F.col("purged_at").isNotNull()).alias("purged"),
        )
    )
    return conform(counted, _RETRY_COLUMNS)


_DEAD_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("message_type", "string", "Message type."),
    ("recipient", "string", "Agent that they were addressed to."),
    ("reason", "string", "`ack_timeout`, `receipt_timeout`, `rejected` or `recipient_gone`."),
    ("code", "string", "Error code."),
    ("letters", "bigint", "Number of dead letters with this reason."),
    ("purged", "bigint", "Of those, purged."),
    ("attempts", "bigint", "Total number of retries used."),
    ("oldest_at", "timestamp", "Time of the first dead-lettering."),
    ("newest_at", "timestamp", "Time of the last dead-lettering."),
)
_DEAD_KEY = ("project", "date", "message_type", "recipient", "reason", "code")


def dead_letter(message_life: DataFrame) -> DataFrame:
    """Count dead letters by reason."""
    counted = (
        message_life.where(F.col("state").isin("dead", "purged"))
        .groupBy(*_DEAD_KEY)
        .agg(
            F.count(F.lit(1)).alias("letters"),
            F.count_if(F.col("purged_at").isNotNull()).alias("purged"),
            F.sum("attempts").alias("attempts"),
            F.min("dead_at").alias("oldest_at"),
            F.max("dead_at").alias("newest_at"),
        )
    )
    return conform(counted, _DEAD_COLUMNS)


RETRY = Table(
    name="retry",
    layer="gold",
    about="Offers, requeues, rejections and redrives of an hour's messages, per type and recipient.",
    columns=_RETRY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=retry,
    balance=counts_all("messages"),
)
DEAD_LETTER = Table(
    name="dead_letter",
    layer="gold",
    about="Dead letters among the messages of a day, per type, recipient, reason and code.",
    columns=_DEAD_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=dead_letter,
    balance=counts_all("letters", "state = 'dead'"),
)

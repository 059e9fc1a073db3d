"""Retries, dead letters and redrives: how often delivery was tried again, and what was given up (APM §3.5, §4)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["DEAD_LETTER", "RETRY"]

_RETRY_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("hour", "timestamp", "Hour in which they were accepted."),
    ("message_type", "string", "Their type."),
    ("recipient", "string", "Whom they are for."),
    ("messages", "bigint", "Messages accepted."),
    ("offered", "bigint", "Of those, offered at least once."),
    ("offers", "bigint", "Offers of them in all."),
    ("requeued", "bigint", "Of those, that went back to the queue at least once."),
    ("requeues", "bigint", "Times that they went back in all."),
    ("rejections", "bigint", "Times that they were rejected in all."),
    ("redriven", "bigint", "Of those, that were redriven out of the dead letters."),
    ("redrives", "bigint", "Times that they were redriven in all."),
    ("dead", "bigint", "Of those, dead now, purged ones included."),
    ("purged", "bigint", "Of these, dropped for good."),
)
_RETRY_KEY = ("project", "date", "hour", "message_type", "recipient")


def retry(message_life: DataFrame) -> DataFrame:
    """Count what had to be tried again, per hour, type and recipient."""
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
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("message_type", "string", "Their type."),
    ("recipient", "string", "Whom they were for."),
    ("reason", "string", "`ack_timeout`, `receipt_timeout`, `rejected` or `recipient_gone`."),
    ("code", "string", "Catalogue code."),
    ("letters", "bigint", "Messages that are dead for this reason."),
    ("purged", "bigint", "Of those, dropped for good."),
    ("attempts", "bigint", "Retries used on them in all."),
    ("oldest_at", "timestamp", "When the first of them died."),
    ("newest_at", "timestamp", "When the last of them died."),
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
    about="How often delivery of an hour's messages had to be tried again, per type and recipient.",
    columns=_RETRY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=retry,
    balance=counts_all("messages"),
)
DEAD_LETTER = Table(
    name="dead_letter",
    layer="gold",
    about="Messages of a day that are dead, per type, recipient, reason and code.",
    columns=_DEAD_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=dead_letter,
    balance=counts_all("letters", "state = 'dead'"),
)

"""What messages make of the policy: their TTLs, levels and recipients. The advisor's evidence.

A TTL expires what would have been read when the recipient came to take messages soon after. That is looked for in
`pickup`, minute by minute: the first minute, from the expiry on, in which the recipient was offered anything.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["LATE_PICKUP", "LEVEL_USE", "PICKUP", "RECIPIENT_LOAD", "TTL_USE"]

_TTL_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("message_type", "string", "Their type."),
    ("ttl_us", "bigint", "Time to live that they were accepted with, microseconds."),
    ("messages", "bigint", "Messages accepted and never redriven, which would give them a fresh one."),
    ("expired", "bigint", "Of those, ended unread by their TTL."),
    ("stale", "bigint", "Of those, ended unread because their importance had decayed away."),
    ("waiting", "bigint", "Of those, neither offered nor ended yet."),
    *DISTRIBUTION,
)
_TTL_KEY = ("project", "date", "message_type", "ttl_us")


def ttl_use(message_life: DataFrame) -> DataFrame:
    """Measure how much of their TTL messages needed until they were first offered."""
    lives = message_life.where(F.col("redrives") == 0).withColumn(
        "ttl_us", F.unix_micros("expires_at") - F.unix_micros("created_at")
    )
    expired = F.col("state") == "expired"
    measured = distribution(
        lives,
        _TTL_KEY,
        F.col("first_waited_us"),
        messages=F.count(F.lit(1)),
        expired=F.count_if(expired & (F.col("reason") == "ttl")),
        stale=F.count_if(expired & (F.col("reason") == "stale")),
        waiting=F.count_if((F.col("state") == "queued") & (F.col("offers") == 0)),
    )
    return conform(measured, _TTL_COLUMNS)


_PICKUP_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("recipient", "string", "Whom they are for."),
    ("minute", "timestamp", "Minute in which they were first offered, or expired."),
    ("message_type", "string", "Type of those that expired; null for those that were offered."),
    ("ttl_us", "bigint", "TTL of those that expired; null for those that were offered."),
    ("offered", "bigint", "Messages first offered in the minute."),
    ("expired", "bigint", "Messages ended unread by their TTL, and never offered, in the minute."),
)
_PICKUP_KEY = ("project", "date", "recipient", "minute", "message_type", "ttl_us")


def pickup(message_life: DataFrame) -> DataFrame:
    """Count what each recipient took, and what expired on it, per minute."""
    taken = (
        message_life.where(F.col("first_offered_at").isNotNull())
        .groupBy("project", "date", "recipient", F.date_trunc("minute", "first_offered_at").alias("minute"))
        .agg(F.count(F.lit(1)).alias("offered"))
        .withColumns(
            {
                "message_type": F.lit(None).cast("string"),
                "ttl_us": F.lit(None).cast("bigint"),
                "expired": F.lit(0).cast("bigint"),
            }
        )
    )
    lost = (
        message_life.where((F.col("reason") == "ttl") & (F.col("state") == "expired") & (F.col("offers") == 0))
        .where(F.col("redrives") == 0)
        .withColumn("minute", F.date_trunc("minute", "expired_at"))
        .withColumn("ttl_us", F.unix_micros("expires_at") - F.unix_micros("created_at"))
        .groupBy(*_PICKUP_KEY)
        .agg(F.count(F.lit(1)).alias("expired"))
        .withColumn("offered", F.lit(0).cast("bigint"))
    )
    return conform(taken.unionByName(lost), _PICKUP_COLUMNS)


_LATE_COLUMNS = columns(
    ("project", "string", "The project."),
    ("message_type", "string", "Type of messages that expired."),
    ("ttl_us", "bigint", "Their TTL, microseconds."),
    ("expired", "bigint", "Messages ended unread by it, and never offered."),
    *DISTRIBUTION,
)


def late_pickup(pickup: DataFrame) -> DataFrame:
    """Measure how long after a message's expiry its recipient next took something, to the minute."""
    minute_us = F.unix_micros("minute")
    # Backwards: a window that is open towards the end is made anew for every row, one that grows is not.
    from_here = (
        Window.partitionBy("project", "recipient").orderBy(-minute_us).rangeBetween(Window.unboundedPreceding, 0)
    )
    next_us = F.min(F.when(F.col("offered") > 0, minute_us)).over(from_here)
    late = pickup.withColumn("late_us", next_us - minute_us).where(F.col("expired") > 0)
    measured = distribution(
        late, ("project", "message_type", "ttl_us"), F.col("late_us"), F.col("expired"), expired=F.sum("expired")
    )
    return conform(measured, _LATE_COLUMNS)


_LEVEL_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("message_type", "string", "Their type."),
    ("requested", "int", "Priority asked for, by the sender or by default, 0 (Info) to 4 (DirectorOverride)."),
    ("messages", "bigint", "Messages accepted, confirmations aside."),
    ("by_default", "bigint", "Of those, whose sender left it to the contract."),
    ("lowered", "bigint", "Of those, granted less."),
    *DISTRIBUTION,
)
_LEVEL_KEY = ("project", "date", "message_type", "requested")


def level_use(message_life: DataFrame) -> DataFrame:
    """Measure how fast recipients react, per type and level: from delivery to acknowledged or processed."""
    reacted_at = F.least("acked_at", "processed_at")
    reaction_us = F.unix_micros(reacted_at) - F.unix_micros("delivered_at")
    lives = message_life.where(F.col("rule") != "confirmation").withColumn(
        "reaction_us", F.when(reaction_us.isNotNull(), F.greatest(reaction_us, F.lit(0)))
    )
    measured = distribution(
        lives,
        _LEVEL_KEY,
        F.col("reaction_us"),
        messages=F.count(F.lit(1)),
        by_default=F.count_if(F.col("rule") == "contract_default"),
        lowered=F.count_if(F.col("priority") < F.col("requested")),
    )
    return conform(measured, _LEVEL_COLUMNS)


_LOAD_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("recipient", "string", "Whom they are for."),
    ("messages", "bigint", "Messages sent to it while it listened: they took the push path."),
    ("held_back", "bigint", "Of those, that had to wait all the same, because its window was full."),
    *DISTRIBUTION,
)
_LOAD_KEY = ("project", "date", "recipient")


def recipient_load(message_life: DataFrame) -> DataFrame:
    """Measure how long messages waited for recipients that listened: a full window is what made them wait."""
    pushed = message_life.where(F.col("publish_path") == "pushed_to_ws")
    measured = distribution(
        pushed,
        _LOAD_KEY,
        F.col("first_waited_us"),
        messages=F.count(F.lit(1)),
        held_back=F.count_if(F.col("first_waited_us") > 0),
    )
    return conform(measured, _LOAD_COLUMNS)


TTL_USE = Table(
    name="ttl_use",
    layer="gold",
    about="How much of their TTL the messages of a day needed, per type and TTL.",
    columns=_TTL_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=ttl_use,
    balance=counts_all("messages", "redrives = 0"),
)
PICKUP = Table(
    name="pickup",
    layer="gold",
    about="What a recipient took, and what expired on it, per minute: what `late_pickup` looks into.",
    columns=_PICKUP_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=pickup,
)
LATE_PICKUP = Table(
    name="late_pickup",
    layer="gold",
    about="How long after messages had expired their recipients next took something, per type and TTL.",
    columns=_LATE_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("pickup", Reach.PROJECT),),
    transform=late_pickup,
)
LEVEL_USE = Table(
    name="level_use",
    layer="gold",
    about="At which levels the messages of a day were sent, per type, and how fast recipients reacted.",
    columns=_LEVEL_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=level_use,
    balance=counts_all("messages", "rule != 'confirmation'"),
)
RECIPIENT_LOAD = Table(
    name="recipient_load",
    layer="gold",
    about="How long the messages of a day waited for recipients that listened.",
    columns=_LOAD_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=recipient_load,
    balance=counts_all("messages", "publish_path = 'pushed_to_ws'"),
)

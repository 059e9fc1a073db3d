"""Use of TTLs, priority levels and delivery windows: the evidence for advice.

A TTL is too short if the recipient took messages soon after the expiry. `late_pickup` finds this in `pickup`, minute by
minute: the first minute, from the expiry on, in which the recipient was offered anything.
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
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("message_type", "string", "Message type."),
    ("ttl_us", "bigint", "TTL at acceptance, microseconds."),
    ("messages", "bigint", "Number of messages accepted and never redriven (a redrive sets a new TTL)."),
    ("expired", "bigint", "Of those, expired by their TTL."),
    ("stale", "bigint", "Of those, expired because their importance had decayed."),
    ("waiting", "bigint", "Of those, neither offered nor ended yet."),
    *DISTRIBUTION,
)
_TTL_KEY = ("project", "date", "message_type", "ttl_us")


def ttl_use(message_life: DataFrame) -> DataFrame:
    """Measure the time to the first offer, per TTL."""
    messages = message_life.where(F.col("redrives") == 0).withColumn(
        "ttl_us", F.unix_micros("expires_at") - F.unix_micros("created_at")
    )
    expired = F.col("state") == "expired"
    measured = distribution(
        messages,
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
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("recipient", "string", "Agent that they are addressed to."),
    ("minute", "timestamp", "Minute of the first offer, or of the expiry."),
    ("message_type", "string", "Message type of expired messages; null for offered ones."),
    ("ttl_us", "bigint", "TTL of expired messages, microseconds; null for offered ones."),
    ("offered", "bigint", "Number of messages first offered in the minute."),
    ("expired", "bigint", "Number of messages that expired by their TTL in the minute without an offer."),
)
_PICKUP_KEY = ("project", "date", "recipient", "minute", "message_type", "ttl_us")


def pickup(message_life: DataFrame) -> DataFrame:
    """Count offered and expired messages per recipient and minute."""
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
    ("message_type", "string", "Message type."),
    ("ttl_us", "bigint", "TTL at acceptance, microseconds."),
    ("expired", "bigint", "Number of messages that expired by it without an offer."),
    *DISTRIBUTION,
)


def late_pickup(pickup: DataFrame) -> DataFrame:
    """Measure the time from a message's expiry to the next offer to its recipient, to the minute."""
    minute_us = F.unix_micros("minute")
    # In reverse order: Spark recomputes a window with an open end for every row, but extends one with an open start.
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
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("message_type", "string", "Message type."),
    ("requested", "int", "Priority requested, by the sender or by default, 0 (Info) to 4 (DirectorOverride)."),
    ("messages", "bigint", "Number of messages accepted, without confirmations."),
    ("by_default", "bigint", "Of those, without a priority named by the sender."),
    ("lowered", "bigint", "Of those, granted a lower priority."),
    *DISTRIBUTION,
)
_LEVEL_KEY = ("project", "date", "message_type", "requested")


def level_use(message_life: DataFrame) -> DataFrame:
    """Measure the time from delivery to the ACK or processing, per type and level."""
    reacted_at = F.least("acked_at", "processed_at")
    reaction_us = F.unix_micros(reacted_at) - F.unix_micros("delivered_at")
    messages = message_life.where(F.col("rule") != "confirmation").withColumn(
        "reaction_us", F.when(reaction_us.isNotNull(), F.greatest(reaction_us, F.lit(0)))
    )
    measured = distribution(
        messages,
        _LEVEL_KEY,
        F.col("reaction_us"),
        messages=F.count(F.lit(1)),
        by_default=F.count_if(F.col("rule") == "contract_default"),
        lowered=F.count_if(F.col("priority") < F.col("requested")),
    )
    return conform(measured, _LEVEL_COLUMNS)


_LOAD_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("recipient", "string", "Agent that they are addressed to."),
    ("messages", "bigint", "Number of messages sent while it was connected (push path)."),
    ("held_back", "bigint", "Of those, that waited because its window was full."),
    *DISTRIBUTION,
)
_LOAD_KEY = ("project", "date", "recipient")


def recipient_load(message_life: DataFrame) -> DataFrame:
    """Measure the waiting time of messages to connected recipients, which is caused by a full window."""
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
    about="Times to the first offer of the messages of a day, per type and TTL.",
    columns=_TTL_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=ttl_use,
    balance=counts_all("messages", "redrives = 0"),
)
PICKUP = Table(
    name="pickup",
    layer="gold",
    about="Offered and expired messages per recipient and minute; input of `late_pickup`.",
    columns=_PICKUP_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=pickup,
)
LATE_PICKUP = Table(
    name="late_pickup",
    layer="gold",
    about="Times from the expiry of messages to the next offer to their recipient, per type and TTL.",
    columns=_LATE_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("pickup", Reach.PROJECT),),
    transform=late_pickup,
)
LEVEL_USE = Table(
    name="level_use",
    layer="gold",
    about="Priorities requested for the messages of a day, per type, and reaction times of recipients.",
    columns=_LEVEL_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=level_use,
    balance=counts_all("messages", "rule != 'confirmation'"),
)
RECIPIENT_LOAD = Table(
    name="recipient_load",
    layer="gold",
    about="Waiting times of the messages of a day to connected recipients.",
    columns=_LOAD_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=recipient_load,
    balance=counts_all("messages", "publish_path = 'pushed_to_ws'"),
)

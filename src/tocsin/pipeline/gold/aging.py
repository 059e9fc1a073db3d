"""Aging: waiting times compared with the bound of the policy, and boosts (LIMINAL).

The bound of a priority is the waiting time after which a message is overdue: from then on only messages above the
policy's `aging.top`, and messages that are both older and overdue, are delivered before it
(docs/concepts/priorities.md). It does not apply while the
recipient takes no messages, so messages to recipients that were available at send time are counted separately.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.silver.policy_span import in_force
from tocsin.pipeline.tables.balance import counts_all, counts_kinds
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["AGING_WAIT", "BOOST"]

_WAIT_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("hour", "timestamp", "Hour of acceptance."),
    ("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
    ("bound_us", "bigint", "Waiting time after which a message is overdue, microseconds; null if it does not age."),
    ("messages", "bigint", "Number of messages accepted."),
    ("boosted", "bigint", "Of those, boosted at least once."),
    ("boosts", "bigint", "Total number of boosts."),
    ("waiting", "bigint", "Of those, neither offered nor ended yet; not in the waiting times below."),
    ("over_bound", "bigint", "Of those, that waited longer than the bound."),
    ("over_bound_available", "bigint", "Of these, sent to a recipient that was available."),
    *DISTRIBUTION,
)
_WAIT_KEY = ("project", "date", "hour", "priority", "bound_us")


def aging_wait(message_life: DataFrame, policy_span: DataFrame) -> DataFrame:
    """Compare the time to the first offer, or to an end without one, with the bound of the policy in force."""
    ended_at = F.coalesce("expired_at", "recalled_at", "dead_at")
    ended_us = F.when(ended_at.isNotNull(), F.greatest(F.unix_micros(ended_at) - F.unix_micros("created_at"), F.lit(0)))
    rises = F.greatest(F.col("aging_top") - F.col("priority"), F.lit(0))
    boosts_to_front = F.ceil(rises / F.col("aging_boost_levels")) + 1
    ages = F.col("aging_enabled") & (F.col("priority") <= F.col("aging_top"))
    messages = in_force(message_life, policy_span, "created_at").withColumns(
        {
            "hour": F.date_trunc("hour", "created_at"),
            "wait_us": F.coalesce(F.col("first_waited_us"), ended_us),
            "bound_us": F.when(ages, boosts_to_front * F.col("aging_threshold_us")),
        }
    )
    over = F.col("wait_us") > F.col("bound_us")
    measured = distribution(
        messages,
        _WAIT_KEY,
        F.col("wait_us"),
        messages=F.count(F.lit(1)),
        boosted=F.count_if(F.col("boosts") > 0),
        boosts=F.sum("boosts"),
        waiting=F.count_if(F.col("wait_us").isNull()),
        over_bound=F.count_if(over),
        over_bound_available=F.count_if(over & (F.col("recipient_state") == "available")),
    )
    return conform(measured, _WAIT_COLUMNS)


_BOOST_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the boosts, UTC."),
    ("minute", "timestamp", "Minute of the boosts."),
    ("rule", "string", "Cause of the boost: `aging`, or an escalation rule."),
    ("old_level", "int", "Level before."),
    ("new_level", "int", "Level after."),
    ("boosts", "bigint", "Number of boosts."),
    ("overdue", "bigint", "Of those, that moved the message to the front of its level."),
    ("age_max_us", "bigint", "Age of the oldest message, microseconds."),
)
_BOOST_KEY = ("project", "date", "minute", "rule", "old_level", "new_level")


def boost(event: DataFrame) -> DataFrame:
    """Count boosts per minute and pair of levels."""
    counted = (
        event.where(F.col("kind") == "MessageBoosted")
        .withColumn("minute", F.date_trunc("minute", F.timestamp_micros("at")))
        .withColumn("_overdue", F.col("overdue"))
        .groupBy(*_BOOST_KEY)
        .agg(
            F.count(F.lit(1)).alias("boosts"),
            F.count_if("_overdue").alias("overdue"),
            F.max("age_us").alias("age_max_us"),
        )
    )
    return conform(counted, _BOOST_COLUMNS)


AGING_WAIT = Table(
    name="aging_wait",
    layer="gold",
    about="Waiting times of the messages of an hour, per priority, compared with the policy's bound.",
    columns=_WAIT_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"), Input("policy_span", Reach.PROJECT, touches_all=True)),
    transform=aging_wait,
    balance=counts_all("messages"),
)
BOOST = Table(
    name="boost",
    layer="gold",
    about="Boosts of a minute, per rule and pair of levels.",
    columns=_BOOST_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=("MessageBoosted",)),),
    transform=boost,
    balance=counts_kinds("boosts", "MessageBoosted"),
)

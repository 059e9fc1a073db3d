"""Delivery latency compared with the target of its priority, and sustained breaches (LIMINAL's performance_slas).

Latency is the time from acceptance to the first offer, as in the hub's metrics. The target is the one of the policy in
force at acceptance (`health.limits`, which the hub uses too), or else the default in `Targets`. A target can only be
met if the recipient is connected, so breaches are computed over messages on the push path.
"""

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.core.protocol.priority import Priority
from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.gold.signal_state import UNKNOWN_PATH
from tocsin.pipeline.silver.policy_span import in_force
from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["DELIVERY_SLA", "SLA_BREACH", "Targets"]


class Targets(msgspec.Struct, frozen=True):
    """Delivery targets for messages whose policy has none (LIMINAL)."""

    #: Longest latency by priority, Info to DirectorOverride, milliseconds: 10 for Critical and above, 50 for Blocking,
    #: 100 for other messages.
    latency_ms: tuple[float, float, float, float, float] = (100, 100, 50, 10, 10)
    #: Share of the messages that may be later: with 0.01 the target applies to the 99th percentile.
    late_share: float = 0.01
    #: Time for which the target must be missed to count as a sustained breach, seconds.
    sustained_s: int = 60
    #: Length of the slots in which messages are evaluated together, seconds.
    slot_s: int = 10

    def with_targets(self, message_life: DataFrame, policy_span: DataFrame) -> DataFrame:
        """Add the target of each message (`target_us`) and the length of a sustained breach (`sustained_us`)."""
        priority = F.col("priority")
        policy = F.when(priority >= int(Priority.CRITICAL), F.col("critical_delivery_us")).when(
            priority == int(Priority.BLOCKING), F.col("blocking_delivery_us")
        )
        limits = F.array(*(F.lit(round(limit * 1000)).cast("bigint") for limit in self.latency_ms))
        return in_force(message_life, policy_span, "created_at").withColumns(
            {
                "target_us": F.coalesce(policy, F.get(limits, priority)),
                "sustained_us": F.coalesce("breach_sustained_us", F.lit(self.sustained_s * 1_000_000)),
            }
        )


_SLA_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("minute", "timestamp", "Minute of acceptance."),
    ("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
    ("publish_path", "string", "Publish path at send time; `unknown` for rows older than the field."),
    ("messages", "bigint", "Number of messages accepted."),
    ("target_us", "bigint", "Latency target of the priority, microseconds."),
    ("within_target", "bigint", "Number of messages offered within the target."),
    *DISTRIBUTION,
)
_SLA_KEY = ("project", "date", "minute", "priority", "publish_path", "target_us")


def delivery_sla(message_life: DataFrame, policy_span: DataFrame, targets: Targets | None = None) -> DataFrame:
    """Measure the time to the first offer per minute, priority and path, and count messages within the target."""
    messages = (targets or Targets()).with_targets(message_life, policy_span)
    messages = messages.withColumns(
        {
            "minute": F.date_trunc("minute", "created_at"),
            "publish_path": F.coalesce("publish_path", F.lit(UNKNOWN_PATH)),
        }
    )
    measured = distribution(
        messages,
        _SLA_KEY,
        F.col("first_waited_us"),
        messages=F.count(F.lit(1)),
        within_target=F.count_if(F.col("first_waited_us") <= F.col("target_us")),
    )
    return conform(measured, _SLA_COLUMNS)


_BREACH_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the breach, UTC; a breach over midnight is split."),
    ("priority", "int", "Priority whose target was missed, 0 (Info) to 4 (DirectorOverride)."),
    ("began_at", "timestamp", "Start of the first slot in breach."),
    ("ended_at", "timestamp", "End of the last slot in breach."),
    ("lasted_us", "bigint", "Duration, microseconds."),
    ("messages", "bigint", "Number of messages pushed in the slots in breach."),
    ("late", "bigint", "Of those, offered later than the target."),
    ("worst_us", "bigint", "Longest latency, microseconds."),
    (
        "target_us",
        "bigint",
        "Latency target, microseconds; the largest if the policy changed during the breach.",
    ),
)
_BREACH_KEY = ("project", "date", "priority", "began_at")


def sla_breach(message_life: DataFrame, policy_span: DataFrame, targets: Targets | None = None) -> DataFrame:
    """Find the times in which a priority missed its target for at least the length of a sustained breach.

    A slot is in breach if more than `late_share` of its messages were late. A run of such slots ends with a slot that
    met the target, or when nothing was sent for the length of a sustained breach.
    """
    by = targets or Targets()
    slot_us, sustained_us = by.slot_s * 1_000_000, F.col("sustained_us")
    late = F.col("first_waited_us") > F.col("target_us")
    created_us = F.unix_micros("created_at")
    slots = (
        by.with_targets(message_life, policy_span)
        .where((F.col("publish_path") == "pushed_to_ws") & F.col("first_waited_us").isNotNull())
        .groupBy("project", "date", "priority", (created_us - created_us % slot_us).alias("slot"))
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.count_if(late).alias("late"),
            F.max("first_waited_us").alias("worst_us"),
            F.max("target_us").alias("target_us"),
            F.max("sustained_us").alias("sustained_us"),
        )
        .withColumn("broken", F.col("late") > F.col("messages") * by.late_share)
    )
    in_order = Window.partitionBy("project", "date", "priority").orderBy("slot")
    before = F.lag("broken").over(in_order)
    quiet_us = F.col("slot") - F.lag("slot").over(in_order) - slot_us
    begins = before.isNull() | ~before | (quiet_us >= sustained_us)
    runs = (
        slots.withColumn("begins", (F.col("broken") & begins).cast("int"))
        .withColumn("run", F.sum("begins").over(in_order))
        .where("broken")
        .groupBy("project", "date", "priority", "run")
        .agg(
            F.min("slot").alias("first_us"),
            (F.max("slot") + slot_us).alias("end_us"),
            F.sum("messages").alias("messages"),
            F.sum("late").alias("late"),
            F.max("worst_us").alias("worst_us"),
            F.max("target_us").alias("target_us"),
            F.max("sustained_us").alias("sustained_us"),
        )
        .withColumn("lasted_us", F.col("end_us") - F.col("first_us"))
        .where(F.col("lasted_us") >= sustained_us)
    )
    found = runs.withColumns(
        {
            "began_at": F.timestamp_micros("first_us"),
            "ended_at": F.timestamp_micros("end_us"),
        }
    )
    return conform(found, _BREACH_COLUMNS)


DELIVERY_SLA = Table(
    name="delivery_sla",
    layer="gold",
    about="Times to the first offer of the messages of a minute, per priority and path, compared with the target.",
    columns=_SLA_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"), Input("policy_span", Reach.PROJECT, touches_all=True)),
    transform=delivery_sla,
    balance=counts_all("messages"),
)
SLA_BREACH = Table(
    name="sla_breach",
    layer="gold",
    about="Times in which a priority missed its latency target, for a minute or longer by default.",
    columns=_BREACH_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"), Input("policy_span", Reach.PROJECT, touches_all=True)),
    transform=sla_breach,
)

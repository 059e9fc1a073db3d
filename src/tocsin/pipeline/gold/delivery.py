"""Delivery latency and whether it keeps the promise of its priority (LIMINAL's performance_slas).

Latency is the time from acceptance to the first offer, as in the hub's metrics. What is promised is what the policy in
force when a message was accepted says (`health.limits`, as the hub itself judges); where it says nothing, `Targets`. A
promise can only be kept where the recipient listens, so breaches are looked for among messages that took the push path.
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
    """What delivery is held to where the policy does not say; the defaults are LIMINAL's."""

    #: Longest latency by priority, Info to DirectorOverride, milliseconds. LIMINAL names 10 for Critical, 50 for
    #: Blocking and 100 for any message at all.
    latency_ms: tuple[float, float, float, float, float] = (100, 100, 50, 10, 10)
    #: Share of the messages that may be later than that: 0.01 holds the 99th percentile to it.
    late_share: float = 0.01
    #: How long latency must be over it to count as a sustained breach, seconds.
    sustained_s: int = 60
    #: Messages are judged together in slots of this length, seconds.
    slot_s: int = 10

    def judged(self, message_life: DataFrame, policy_span: DataFrame) -> DataFrame:
        """Add what each message was promised: `target_us`, and `sustained_us` for a breach."""
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
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("minute", "timestamp", "Minute in which they were accepted."),
    ("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
    ("publish_path", "string", "What the bus did at send time; `unknown` for rows older than the field."),
    ("messages", "bigint", "Messages accepted."),
    ("target_us", "bigint", "Latency that their priority is promised, microseconds."),
    ("within_target", "bigint", "Messages offered within that."),
    *DISTRIBUTION,
)
_SLA_KEY = ("project", "date", "minute", "priority", "publish_path", "target_us")


def delivery_sla(message_life: DataFrame, policy_span: DataFrame, targets: Targets | None = None) -> DataFrame:
    """Measure the time to the first offer per minute, priority and path, and count who was served in time."""
    lives = (targets or Targets()).judged(message_life, policy_span)
    lives = lives.withColumns(
        {
            "minute": F.date_trunc("minute", "created_at"),
            "publish_path": F.coalesce("publish_path", F.lit(UNKNOWN_PATH)),
        }
    )
    measured = distribution(
        lives,
        _SLA_KEY,
        F.col("first_waited_us"),
        messages=F.count(F.lit(1)),
        within_target=F.count_if(F.col("first_waited_us") <= F.col("target_us")),
    )
    return conform(measured, _SLA_COLUMNS)


_BREACH_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the breach, UTC; one that goes over midnight is cut there."),
    ("priority", "int", "Priority whose promise was broken."),
    ("began_at", "timestamp", "Start of the first slot in breach."),
    ("ended_at", "timestamp", "End of the last slot in breach."),
    ("lasted_us", "bigint", "Time between the two, microseconds."),
    ("messages", "bigint", "Messages pushed in the slots in breach."),
    ("late", "bigint", "Of those, offered later than promised."),
    ("worst_us", "bigint", "Longest latency of them, microseconds."),
    (
        "target_us",
        "bigint",
        "Latency that was promised, microseconds; the longest, where the policy changed meanwhile.",
    ),
)
_BREACH_KEY = ("project", "date", "priority", "began_at")


def sla_breach(message_life: DataFrame, policy_span: DataFrame, targets: Targets | None = None) -> DataFrame:
    """Find the times in which a priority's promise was broken for so long that it was no accident.

    A slot is in breach when more than `late_share` of its messages were late. A run of such slots ends with a slot that
    kept the promise, or when nothing was sent for as long as a breach must last to count.
    """
    by = targets or Targets()
    slot_us, sustained_us = by.slot_s * 1_000_000, F.col("sustained_us")
    late = F.col("first_waited_us") > F.col("target_us")
    created_us = F.unix_micros("created_at")
    slots = (
        by.judged(message_life, policy_span)
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
    about="How long the messages of a minute waited for their first offer, per priority and path, and who was late.",
    columns=_SLA_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"), Input("policy_span", Reach.PROJECT, touches_all=True)),
    transform=delivery_sla,
    balance=counts_all("messages"),
)
SLA_BREACH = Table(
    name="sla_breach",
    layer="gold",
    about="Times in which a priority's promise was broken for so long that it counts: by default a minute.",
    columns=_BREACH_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"), Input("policy_span", Reach.PROJECT, touches_all=True)),
    transform=sla_breach,
)

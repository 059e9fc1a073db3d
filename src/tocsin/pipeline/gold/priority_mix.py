"""Requested priorities per agent in sliding windows, to find agents that request Blocking and above too often.

The bus's own notices are left out. Only windows with the minimum number of messages are kept: one blocking message out
of one is not significant. The hub checks at each send, over the window before it; here every agent is checked at fixed
steps, whatever its role, so that other thresholds can be evaluated. Windows are cut at midnight, so that each day is
computed on its own. (LIMINAL's gaming detector.)
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.core.commands import SYSTEM
from tocsin.core.protocol.priority import Priority
from tocsin.pipeline.silver.policy_span import in_force
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["PRIORITY_MIX"]

_WINDOW_S = 60
_STEP_S = 10
_LEVELS = ("info", "coordinate", "blocking", "critical", "director_override")

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("window_start", "timestamp", f"Start of the window of {_WINDOW_S} s; a window starts every {_STEP_S} s."),
    ("agent", "string", "Agent that sent the messages."),
    (
        "messages",
        "bigint",
        "Number of messages accepted, without confirmations; a broadcast counts once per copy.",
    ),
    *((f"asked_{name}", "bigint", f"Of those, requested at {name.replace('_', ' ')}.") for name in _LEVELS),
    ("high", "bigint", "Of those, requested at Blocking or above."),
    ("lowered", "bigint", "Of those, lowered to Info by gaming detection."),
    ("high_share", "double", "`high` divided by `messages`."),
    ("threshold", "double", "Largest share allowed by the policy in force at the end of the window."),
    ("over", "boolean", "Whether `high_share` is over the threshold."),
)


def priority_mix(message_life: DataFrame, policy_span: DataFrame) -> DataFrame:
    """Count the requested priorities of each agent in every window of a day."""
    step_us, steps = _STEP_S * 1_000_000, _WINDOW_S // _STEP_S
    created_us = F.unix_micros("created_at")
    asked = [F.count_if(F.col("requested") == level).alias(f"asked_{name}") for level, name in enumerate(_LEVELS)]
    slots = (
        message_life.where((F.col("rule") != "confirmation") & (F.col("sender") != SYSTEM.agent))
        .groupBy("project", "date", F.col("sender").alias("agent"), F.floor(created_us / step_us).alias("slot"))
        .agg(
            F.count(F.lit(1)).alias("messages"),
            *asked,
            F.count_if(F.col("requested") >= int(Priority.BLOCKING)).alias("high"),
            F.count_if(F.col("rule") == "gaming").alias("lowered"),
        )
    )
    sums = ["messages", *(f"asked_{name}" for name in _LEVELS), "high", "lowered"]
    windows = (
        slots.withColumn("first", F.explode(F.sequence(F.col("slot") - (steps - 1), F.col("slot"))))
        .groupBy("project", "date", "agent", "first")
        .agg(*(F.sum(name).alias(name) for name in sums))
        .withColumn("window_start", F.timestamp_micros(F.col("first") * step_us))
        .withColumn("window_end", F.timestamp_micros((F.col("first") + steps) * step_us))
    )
    compared = (
        in_force(windows, policy_span, "window_end")
        .where(F.col("messages") >= F.coalesce("gaming_messages_min", F.lit(1)))
        .withColumn("high_share", F.col("high") / F.col("messages"))
        .withColumn("threshold", F.col("gaming_ratio"))
        .withColumn("over", F.col("high") > F.col("gaming_ratio") * F.col("messages"))
    )
    return conform(compared, _COLUMNS)


PRIORITY_MIX = Table(
    name="priority_mix",
    layer="gold",
    about="Requested priorities of an agent in a sliding window of a minute, for windows with enough messages.",
    columns=_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"), Input("policy_span", Reach.PROJECT, touches_all=True)),
    transform=priority_mix,
)

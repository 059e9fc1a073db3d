"""Which policy a project was run by, and when: one row per policy adopted, with what other tables judge by."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["POLICY_SPAN", "in_force"]

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("version", "bigint", "Counts the policies of the project, from 1."),
    ("adopted_seq", "bigint", "Sequence number of its adoption."),
    ("adopted_at", "timestamp", "Since when it has been in force."),
    ("replaced_at", "timestamp", "Until when; null for the one that still is."),
    ("by", "string", "Who adopted it."),
    ("reason", "string", "Why."),
    ("aging_enabled", "boolean", "Whether waiting raises a message."),
    ("aging_threshold_us", "bigint", "Wait after which it does, each time, microseconds."),
    ("aging_boost_levels", "int", "By how many levels."),
    ("gaming_messages_min", "int", "Fewest messages in a window to judge a sender from."),
    ("gaming_ratio", "double", "Share of Blocking and above over which it inflates its priorities."),
    (
        "critical_delivery_us",
        "bigint",
        "Longest latency that Critical messages and overrides are promised, microseconds.",
    ),
    ("blocking_delivery_us", "bigint", "Longest latency that Blocking messages are promised, microseconds."),
    ("breach_sustained_us", "bigint", "How long a promise must be broken to count, microseconds."),
    ("policy", "string", "The whole policy, as JSON."),
)


def policy_span(event: DataFrame) -> DataFrame:
    """Make a span of each adoption, up to the next."""
    adopted = event.where(F.col("kind") == "PolicyAdopted")
    next_us = F.lead("at").over(Window.partitionBy("project").orderBy("seq"))
    spans = adopted.withColumns(
        {
            "version": F.col("policy_version"),
            "adopted_seq": F.col("seq"),
            "adopted_at": F.timestamp_micros("at"),
            "replaced_at": F.timestamp_micros(next_us),
            "aging_enabled": _field("aging.enabled"),
            "aging_threshold_us": _microseconds("aging.threshold_s"),
            "aging_boost_levels": _field("aging.boost_levels"),
            "gaming_messages_min": _field("gaming.messages_min"),
            "gaming_ratio": _field("gaming.high_priority_ratio"),
            "critical_delivery_us": _microseconds("health.limits.critical_delivery_s"),
            "blocking_delivery_us": _microseconds("health.limits.blocking_delivery_s"),
            "breach_sustained_us": _microseconds("health.sustained_s"),
        }
    )
    return conform(spans, _COLUMNS)


def _field(path: str) -> Column:
    return F.get_json_object("policy", f"$.{path}")


def _microseconds(path: str) -> Column:
    return F.round(_field(path).cast("double") * 1_000_000)


def in_force(frame: DataFrame, policy_span: DataFrame, at: str) -> DataFrame:
    """Add to each row the policy of the moment that its column `at` names; nulls where there was none yet.

    A project has few policies, so they go to where the rows are.
    """
    spans = policy_span.select(
        F.col("project").alias("_project"),
        "adopted_at",
        "replaced_at",
        *(F.col(name) for name in _JUDGED_BY),
    )
    moment = F.col(at)
    during = (F.col("project") == F.col("_project")) & (moment >= F.col("adopted_at"))
    until = F.col("replaced_at").isNull() | (moment < F.col("replaced_at"))
    return frame.join(F.broadcast(spans), during & until, "left").drop("_project", "adopted_at", "replaced_at")


_JUDGED_BY = (
    *("aging_enabled", "aging_threshold_us", "aging_boost_levels", "gaming_messages_min", "gaming_ratio"),
    *("critical_delivery_us", "blocking_delivery_us", "breach_sustained_us"),
)

POLICY_SPAN = Table(
    name="policy_span",
    layer="silver",
    about="One row per policy that a project was run by, with the time in which it was in force.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("event", Reach.PROJECT, ("PolicyAdopted",)),),
    transform=policy_span,
)

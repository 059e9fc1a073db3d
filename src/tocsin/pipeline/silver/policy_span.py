"""Policies of a project: one row per adopted policy, with the values that other tables use."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["POLICY_SPAN", "in_force"]

#: Where aging ended before the policy had a setting for it.
_TOP_BEFORE = "Critical"

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("version", "bigint", "Number of the policy in its project, from 1."),
    ("adopted_seq", "bigint", "Sequence number of its adoption."),
    ("adopted_at", "timestamp", "Time of its adoption."),
    ("replaced_at", "timestamp", "Time at which the next policy replaced it; null if it is in force."),
    ("by", "string", "Agent that adopted it."),
    ("reason", "string", "Reason given."),
    ("aging_enabled", "boolean", "Whether aging boosts waiting messages."),
    ("aging_threshold_us", "bigint", "Waiting time after which a message is boosted, each time, microseconds."),
    ("aging_boost_levels", "int", "Levels of one boost."),
    ("aging_top", "int", "Level at whose front aging ends; Critical in policies that do not name one."),
    ("gaming_messages_min", "int", "Smallest number of messages in a window for gaming detection."),
    ("gaming_ratio", "double", "Share of Blocking and above over which a sender counts as gaming."),
    (
        "critical_delivery_us",
        "bigint",
        "Delivery target of Critical messages and overrides, microseconds.",
    ),
    ("blocking_delivery_us", "bigint", "Delivery target of Blocking messages, microseconds."),
    ("breach_sustained_us", "bigint", "Time for which a target must be missed to count as a breach, microseconds."),
    ("policy", "string", "The whole policy, as JSON."),
)


def policy_span(event: DataFrame) -> DataFrame:
    """Return the time span from each adoption to the next."""
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
            "aging_top": _level("aging.top", default=_TOP_BEFORE),
            "gaming_messages_min": _field("gaming.messages_min"),
            "gaming_ratio": _field("gaming.high_priority_ratio"),
            "critical_delivery_us": _microseconds("health.limits.critical_delivery_s"),
            "blocking_delivery_us": _microseconds("health.limits.blocking_delivery_s"),
            "breach_sustained_us": _microseconds("health.sustained_s"),
        }
    )
    return conform(spans, _COLUMNS)


def _level(path: str, default: str) -> Column:
    names = F.array(*(F.lit(name) for name in PRIORITY_NAMES))
    return F.array_position(names, F.coalesce(_field(path), F.lit(default))) - 1


def _field(path: str) -> Column:
    return F.get_json_object("policy", f"$.{path}")


def _microseconds(path: str) -> Column:
    return F.round(_field(path).cast("double") * 1_000_000)


def in_force(frame: DataFrame, policy_span: DataFrame, at: str) -> DataFrame:
    """Add to each row the policy in force at the time in its column `at`; nulls if there was none yet.

    A project has few policies, so they are broadcast.
    """
    spans = policy_span.select(
        F.col("project").alias("_project"),
        "adopted_at",
        "replaced_at",
        *(F.col(name) for name in _POLICY_VALUES),
    )
    moment = F.col(at)
    during = (F.col("project") == F.col("_project")) & (moment >= F.col("adopted_at"))
    until = F.col("replaced_at").isNull() | (moment < F.col("replaced_at"))
    return frame.join(F.broadcast(spans), during & until, "left").drop("_project", "adopted_at", "replaced_at")


_POLICY_VALUES = (
    *("aging_enabled", "aging_threshold_us", "aging_boost_levels", "aging_top", "gaming_messages_min", "gaming_ratio"),
    *("critical_delivery_us", "blocking_delivery_us", "breach_sustained_us"),
)

POLICY_SPAN = Table(
    name="policy_span",
    layer="silver",
    about="One row per adopted policy, with the time span in which it was in force.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("event", Reach.PROJECT, ("PolicyAdopted",)),),
    transform=policy_span,
)

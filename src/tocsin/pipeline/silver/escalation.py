"""Escalations: one row each, from the cause to the resolution."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["ESCALATION"]

_KINDS = ("EscalationOpened", "EscalationMoved")
#: States in which a director has been notified.
_DIRECTOR = ("director_notified", "critical_alert")
#: State in which a human has been notified.
_HUMAN = "human_escalation"
#: The state that a closed escalation returns to.
_CLOSED = "normal"

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which it was opened, UTC."),
    ("escalation", "string", "Id of the escalation."),
    ("rule", "string", "Name of the rule that opened it."),
    ("trigger", "string", "Trigger of the rule."),
    ("subject", "string", "Subject: a messageId, a resource, an agent or a metric."),
    ("cause", "string", "Cause of the escalation."),
    ("message", "bigint", "Number of the message that it is about; null if none."),
    ("threshold", "double", "The threshold that was crossed, in the rule's unit."),
    ("opened_at", "timestamp", "Time of opening."),
    ("director_at", "timestamp", "Time at which a director was first notified; null if none was."),
    ("human_at", "timestamp", "Time at which a human was first notified; null if none was."),
    ("closed_at", "timestamp", "Time at which it was closed; null while it is open."),
    ("open_us", "bigint", "Time from opening to closing, microseconds."),
    ("moves", "bigint", "Number of state changes."),
    ("state", "string", "Current state; `normal` once it is closed."),
    ("resolved_by", "string", "Who made the last state change."),
)


def escalation(event: DataFrame) -> DataFrame:
    """Join the steps of each escalation."""
    key = ["project", "escalation"]
    opened = event.where(F.col("kind") == "EscalationOpened").select(
        *key,
        "date",
        "rule",
        "trigger",
        "subject",
        "cause",
        "threshold",
        F.when(F.col("about") > 0, F.col("about")).alias("message"),
        F.col("at").alias("opened_us"),
    )
    moves = event.where(F.col("kind") == "EscalationMoved")
    path = moves.groupBy(*key).agg(
        F.count(F.lit(1)).alias("moves"),
        F.max("seq").alias("last_seq"),
        F.min(F.when(F.col("new_state").isin(*_DIRECTOR), F.col("at"))).alias("director_us"),
        F.min(F.when(F.col("new_state") == _HUMAN, F.col("at"))).alias("human_us"),
    )
    last = moves.select(
        "project",
        F.col("seq").alias("last_seq"),
        F.col("at").alias("last_us"),
        F.col("new_state").alias("state"),
        F.col("by").alias("resolved_by"),
    )
    joined = opened.join(path, key, "left").join(last, ["project", "last_seq"], "left")
    closed_us = F.when(F.col("state") == _CLOSED, F.col("last_us"))
    named = joined.withColumns(
        {
            "opened_at": F.timestamp_micros("opened_us"),
            "director_at": F.timestamp_micros("director_us"),
            "human_at": F.timestamp_micros("human_us"),
            "closed_at": F.timestamp_micros(closed_us),
            "open_us": F.when(closed_us.isNotNull(), F.greatest(closed_us - F.col("opened_us"), F.lit(0))),
            "moves": F.coalesce("moves", F.lit(0)),
            "state": F.coalesce("state", F.lit("opened")),
        }
    )
    return conform(named, _COLUMNS)


ESCALATION = Table(
    name="escalation",
    layer="silver",
    about="One row per escalation: cause, notifications, duration and state.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("event", Reach.PROJECT, _KINDS),),
    transform=escalation,
)

"""Escalations of an hour per rule: number, notifications and duration."""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution_of
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["ESCALATION_OUTCOME"]

ESCALATION_OUTCOME = View(
    name="escalation_outcome",
    layer="gold",
    about="Escalations of an hour per rule: number, notifications and duration.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of opening, UTC."),
        ("hour", "timestamp", "Hour of opening."),
        ("rule", "string", "Name of the rule."),
        ("trigger", "string", "Trigger of the rule."),
        ("escalations", "bigint", "Number of escalations opened."),
        ("to_director", "bigint", "Of those, with a notification to a director."),
        ("to_human", "bigint", "Of those, with a notification to a human."),
        ("closed", "bigint", "Of those, closed; the times below are from opening to closing."),
        *DISTRIBUTION,
    ),
    reads=("escalation",),
    sql=distribution_of(
        "(SELECT *, hour_of(us(opened_at)) AS hour FROM escalation)",
        ("project", "date", "hour", "rule", '"trigger"'),
        "open_us",
        {
            "escalations": "count(*)",
            "to_director": "count(director_at)",
            "to_human": "count(human_at)",
            "closed": "count(closed_at)",
        },
    ),
    balance=Balance("escalations", "escalation"),
    by_day=False,
)

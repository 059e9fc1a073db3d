"""Recalls of a minute, by outcome; many `already_delivered` mean that recalls come too late (SPEC-071 §11)."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["RECALL"]

RECALL = View(
    name="recall",
    layer="gold",
    about="Recalls of a minute, by outcome.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the recalls, UTC."),
        ("minute", "timestamp", "Minute of the recalls."),
        ("outcome", "string", "`recalled`, `already_delivered`, `already_expired` or `not_found`."),
        (
            "recalls",
            "bigint",
            "Number of recalls; each copy of a recalled broadcast counts, a refused recall counts once.",
        ),
    ),
    reads=("occurrence",),
    sql="""
SELECT project, date, minute_of(us) AS minute,
    CASE WHEN kind = 'MessageRecalled' THEN 'recalled' ELSE outcome END AS outcome,
    count(*) AS recalls
FROM occurrence WHERE kind IN ('MessageRecalled', 'RecallRefused') GROUP BY ALL
""",
    balance=Balance("recalls", "event", "kind IN ('MessageRecalled', 'RecallRefused')"),
)

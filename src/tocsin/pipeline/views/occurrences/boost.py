"""Boosts of a minute, per rule and pair of levels."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["BOOST"]

BOOST = View(
    name="boost",
    layer="gold",
    about="Boosts of a minute, per rule and pair of levels.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the boosts, UTC."),
        ("minute", "timestamp", "Minute of the boosts."),
        ("rule", "string", "Cause of the boost: `aging`, or an escalation rule."),
        ("old_level", "int", "Level before."),
        ("new_level", "int", "Level after."),
        ("boosts", "bigint", "Number of boosts."),
        ("overdue", "bigint", "Of those, that moved the message to the front of its level."),
        ("age_max_us", "bigint", "Age of the oldest message, microseconds."),
    ),
    reads=("occurrence",),
    sql="""
SELECT project, date, minute_of(us) AS minute, rule, old_level::INTEGER AS old_level, new_level::INTEGER AS new_level,
    count(*) AS boosts, count(*) FILTER (WHERE overdue) AS overdue, max(age_us) AS age_max_us
FROM occurrence WHERE kind = 'MessageBoosted' GROUP BY ALL
""",
    balance=Balance("boosts", "event", "kind = 'MessageBoosted'"),
)

"""Every deadlock that was found and resolved."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["DEADLOCK"]

DEADLOCK = View(
    name="deadlock",
    layer="gold",
    about="Every deadlock that was found and resolved.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day, UTC."),
        ("seq", "bigint", "Sequence number of the event."),
        ("found_at", "timestamp", "Time at which it was found and resolved."),
        ("cycle", "array<string>", "Agents in the cycle: each waits for the next, the last for the first."),
        ("agents", "bigint", "Number of agents in the cycle."),
        ("waits", "array<string>", "What each of them waits for, as `kind:ref`."),
        ("victim", "string", "Agent whose wait was refused."),
        ("refused", "string", "The refused wait, as `kind:ref`."),
    ),
    reads=("occurrence",),
    sql="""
SELECT project, date, seq, stamp(us) AS found_at, cycle, len(cycle)::BIGINT AS agents, waits, victim, refused
FROM occurrence WHERE kind = 'DeadlockFound'
""",
)

"""Changes of the inherited priority of an agent in a minute."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["INVERSION"]

INVERSION = View(
    name="inversion",
    layer="gold",
    about="Changes of the inherited priority of an agent in a minute.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day, UTC."),
        ("minute", "timestamp", "The minute."),
        ("agent", "string", "Agent that inherited priority from agents that wait for it."),
        ("raised", "bigint", "Number of times its inherited priority rose."),
        ("restored", "bigint", "Number of times its inherited priority fell or ended."),
        ("highest", "int", "Highest inherited priority, 0 (Info) to 4 (DirectorOverride)."),
        ("messages", "bigint", "Number of messages raised with it; a message counts each time."),
    ),
    reads=("occurrence",),
    sql="""
SELECT project, date, minute_of(us) AS minute, agent, count(*) FILTER (WHERE lent) AS raised,
    count(*) FILTER (WHERE NOT lent) AS restored, (max(new_level) FILTER (WHERE lent))::INTEGER AS highest,
    sum(CASE WHEN lent THEN len(lifted) ELSE 0 END)::BIGINT AS messages
FROM (
    SELECT * EXCLUDE (raised), kind = 'PriorityInherited' AS lent, raised AS lifted FROM occurrence
    WHERE kind IN ('PriorityInherited', 'PriorityRestored'))
GROUP BY ALL
""",
    balance=Balance("raised", "event", "kind = 'PriorityInherited'"),
)

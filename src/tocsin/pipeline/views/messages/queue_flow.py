"""Messages that entered and left a level of any mailbox in a minute; input of `queue_depth`.

A message that enters and leaves within one second counts in `entered` and `left`, but not in the peak.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["QUEUE_FLOW"]

QUEUE_FLOW = View(
    name="queue_flow",
    layer="gold",
    about="Messages that entered and left a level of any mailbox in a minute; input of `queue_depth`.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day, UTC."),
        ("minute", "timestamp", "The minute."),
        ("level", "int", "Priority granted plus boosts, 0 (Info) to 4 (DirectorOverride)."),
        ("entered", "bigint", "Number of times a message entered this level of a mailbox."),
        ("left", "bigint", "Number of times a message left it."),
        ("peak", "bigint", "Highest `entered` minus `left` since the start of the minute, per second; at least 0."),
    ),
    reads=("queue_second",),
    sql="""
WITH running AS (
    SELECT *, sum(entered - "left") OVER (PARTITION BY project, level, minute ORDER BY second) AS so_far
    FROM (
        SELECT project, level, second, minute_of(us(second)) AS minute, sum(entered)::BIGINT AS entered,
            sum("left")::BIGINT AS "left"
        FROM queue_second GROUP BY ALL))
SELECT project, to_day(us(minute)) AS date, minute, level, sum(entered)::BIGINT AS entered,
    sum("left")::BIGINT AS "left", greatest(max(so_far), 0)::BIGINT AS peak
FROM running GROUP BY ALL
""",
    by_day=False,
)

"""Number of waiting messages at the start, peak and end of a minute, per level."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["QUEUE_DEPTH"]

QUEUE_DEPTH = View(
    name="queue_depth",
    layer="gold",
    about="Number of waiting messages at the start, peak and end of a minute, per level.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day, UTC."),
        ("minute", "timestamp", "A minute with a change; between two rows the depth is constant."),
        ("level", "int", "Priority granted plus boosts, 0 (Info) to 4 (DirectorOverride)."),
        ("depth_start", "bigint", "Messages waiting at the start of the minute."),
        ("depth_max", "bigint", "Largest number of messages waiting in the minute, per second."),
        ("depth_end", "bigint", "Messages waiting at the end of the minute."),
    ),
    reads=("queue_flow",),
    sql="""
SELECT project, date, minute, level, depth_start, depth_start + peak AS depth_max,
    depth_start + entered - "left" AS depth_end
FROM (
    SELECT *, coalesce(sum(entered - "left") OVER (
        PARTITION BY project, level ORDER BY minute ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT
        AS depth_start
    FROM queue_flow)
""",
    by_day=False,
)

"""Drop shares of a minute by subscriber priority, and effectiveness of load shedding (FRAMES)."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["LOAD_SHEDDING"]

_PRIORITIES = ("critical", "high", "normal", "best_effort")
_SHARES = ", ".join(f"{name}_drop_share" for name in _PRIORITIES)


def _share(name: str) -> str:
    """Return the SQL of the drop share of one priority."""
    of = f"FILTER (WHERE subscriber_priority = '{name}')"
    return f"sum(dropped) {of}::DOUBLE / nullif(sum(offered) {of}, 0) AS {name}_drop_share"


LOAD_SHEDDING = View(
    name="load_shedding",
    layer="gold",
    about="Drop shares of a minute by subscriber priority, and effectiveness of load shedding.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the reports, UTC."),
        ("minute", "timestamp", "Minute of the reports."),
        ("offered", "bigint", "Frames addressed to any subscriber; a frame counts once per subscriber."),
        ("dropped", "bigint", "Of those, dropped."),
        ("shed", "bigint", "Of those, dropped to protect more important subscribers."),
        ("drop_share", "double", "`dropped` divided by `offered`."),
        *(
            (f"{name}_drop_share", "double", f"The same for {name} subscribers; null if there are none.")
            for name in _PRIORITIES
        ),
        (
            "effectiveness",
            "double",
            "1 minus the drop share of the most important subscribers divided by that of all: 1 if they lost nothing, "
            "0 if they lost as much as all, below 0 if more; null if nothing was dropped.",
        ),
        ("in_order", "boolean", "Whether no priority lost a larger share than a lower one."),
    ),
    reads=("frame_drop",),
    sql=f"""
WITH summed AS (
    SELECT project, date, minute, sum(offered)::BIGINT AS offered, sum(dropped)::BIGINT AS dropped,
        sum(shed)::BIGINT AS shed,
        {", ".join(_share(name) for name in _PRIORITIES)}
    FROM frame_drop GROUP BY project, date, minute),
rated AS (
    SELECT *, dropped::DOUBLE / nullif(offered, 0) AS drop_share,
        list_filter([{_SHARES}], lambda share: share IS NOT NULL) AS known
    FROM summed)
SELECT project, date, minute, offered, dropped, shed, drop_share,
    {_SHARES},
    CASE WHEN dropped > 0 THEN 1 - known[1] / drop_share END AS effectiveness, known = list_sort(known) AS in_order
FROM rated
""",
)

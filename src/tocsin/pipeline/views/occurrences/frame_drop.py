"""Dropped frames of a minute, per subscriber priority (FRAMES)."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["FRAME_DROP"]

FRAME_DROP = View(
    name="frame_drop",
    layer="gold",
    about="Dropped frames of a minute, per subscriber priority.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the reports, UTC."),
        ("minute", "timestamp", "Minute of the reports."),
        (
            "subscriber_priority",
            "string",
            "Priority of the subscribers: `critical`, `high`, `normal` or `best_effort`.",
        ),
        ("reports", "bigint", "Number of reports in the minute."),
        ("published", "bigint", "Frames published in the time that the reports cover."),
        ("offered", "bigint", "Frames addressed to these subscribers; a frame counts once per subscriber."),
        ("dropped", "bigint", "Of those, dropped."),
        ("shed", "bigint", "Of those, dropped to protect more important subscribers."),
        ("drop_share", "double", "`dropped` divided by `offered`; should be 0 for critical subscribers."),
    ),
    reads=("occurrence",),
    sql="""
SELECT project, date, minute_of(us) AS minute, subscriber_priority, count(*) AS reports,
    sum(published)::BIGINT AS published,
    sum(offered)::BIGINT AS offered, sum(dropped)::BIGINT AS dropped, sum(shed)::BIGINT AS shed,
    sum(dropped)::DOUBLE / sum(offered) AS drop_share
FROM occurrence WHERE kind = 'FramesShed' GROUP BY ALL
""",
    balance=Balance("reports", "event", "kind = 'FramesShed'"),
)

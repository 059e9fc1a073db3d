"""Live and stale sessions at the end of a minute, per kind of session (SPEC-071 §11)."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["SESSION_COUNT"]

SESSION_COUNT = View(
    name="session_count",
    layer="gold",
    about="Live and stale sessions at the end of a minute, per kind of session.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day, UTC."),
        ("minute", "timestamp", "A minute with a change; between two rows the counts are constant."),
        ("session_kind", "string", "`push`, `piggyback` or `daemon`."),
        ("opened", "bigint", "Sessions opened in the minute."),
        ("closed", "bigint", "Sessions ended in the minute."),
        ("went_stale", "bigint", "Sessions that went stale in the minute."),
        ("live", "bigint", "Live sessions at the end of the minute."),
        ("stale", "bigint", "Stale sessions at the end of the minute."),
    ),
    reads=("agent_session",),
    sql="""
WITH changes AS (
    SELECT project, agent, session_kind, opened_at AS moment, 'opened' AS what, 1 AS live, 0 AS stale FROM agent_session
    UNION ALL SELECT project, agent, session_kind, closed_at, 'closed', -1, 0 FROM agent_session
    UNION ALL SELECT project, agent, session_kind, unnest(stale_from), 'stale', -1, 1 FROM agent_session
    UNION ALL SELECT project, agent, session_kind, unnest(stale_to), 'fresh', 1, -1 FROM agent_session),
minutes AS (
    SELECT project, session_kind, minute_of(us(moment)) AS minute, count(*) FILTER (WHERE what = 'opened') AS opened,
        count(*) FILTER (WHERE what = 'closed') AS closed, count(*) FILTER (WHERE what = 'stale') AS went_stale,
        sum(live) AS live, sum(stale) AS stale
    FROM changes WHERE moment IS NOT NULL GROUP BY ALL)
SELECT project, to_day(us(minute)) AS date, minute, session_kind, opened, closed, went_stale,
    (sum(live) OVER so_far)::BIGINT AS live, (sum(stale) OVER so_far)::BIGINT AS stale
FROM minutes WINDOW so_far AS (PARTITION BY project, session_kind ORDER BY minute)
""",
    by_day=False,
)

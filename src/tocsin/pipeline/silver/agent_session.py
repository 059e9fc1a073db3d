"""One row per session, put together from its parts (`session_part`)."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["AGENT_SESSION"]

AGENT_SESSION = View(
    name="agent_session",
    layer="silver",
    about="One row per session: agent, kind, opening, end and stale times.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day on which it was opened, UTC."),
        ("session", "string", "The session."),
        ("agent", "string", "Agent of the session."),
        ("session_kind", "string", "`push`, `piggyback` or `daemon`."),
        ("window", "bigint", "Largest number of unconfirmed offers."),
        ("opened_at", "timestamp", "Time of opening."),
        ("closed_at", "timestamp", "Time of its end; null while it is open."),
        ("close_reason", "string", "`closed`, `lapsed` (no heartbeats), `replaced` by a new session, or `retired`."),
        ("state", "string", "`live`, `stale` or `closed`."),
        ("heartbeats", "bigint", "Number of heartbeats recorded."),
        ("last_heartbeat_at", "timestamp", "Time of the last heartbeat."),
        ("stales", "bigint", "Number of times it went stale."),
        ("stale_us", "bigint", "Total length of its ended stale times, microseconds."),
        ("stale_from", "array<timestamp>", "Times at which it went stale, in order."),
        ("stale_to", "array<timestamp>", "Times at which each of them ended; null for one that lasts."),
    ),
    reads=("session_part",),
    sql="""
WITH parts AS (
    SELECT *, first_value(least(first_heartbeat_us, closed_us) IGNORE NULLS) OVER (
        PARTITION BY project, session ORDER BY first_seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_us
    FROM session_part),
spans AS (
    SELECT project, session, list(start_us ORDER BY start_us) AS stale_from,
        list(end_us ORDER BY start_us) AS stale_to, sum(greatest(coalesce(end_us - start_us, 0), 0))::BIGINT AS stale_us
    FROM (
        SELECT project, session, unnest(stale_from_us) AS start_us,
            coalesce(unnest(stale_to_us), next_us) AS end_us
        FROM parts)
    GROUP BY ALL),
whole AS (
    SELECT project, session, min(date) FILTER (WHERE opened_us IS NOT NULL) AS date,
        any_value(agent) FILTER (WHERE opened_us IS NOT NULL) AS agent, any_value(session_kind) AS session_kind,
        any_value("window") AS "window", any_value(opened_us) AS opened_us, any_value(closed_us) AS closed_us,
        any_value(close_reason) AS close_reason, sum(heartbeats)::BIGINT AS heartbeats,
        max(last_heartbeat_us) AS last_us
    FROM parts GROUP BY ALL)
SELECT project, date, session, agent, session_kind, "window", stamp(opened_us) AS opened_at,
    stamp(closed_us) AS closed_at, close_reason,
    CASE WHEN closed_us IS NOT NULL THEN 'closed'
        WHEN len(stale_from) > coalesce(len(list_filter(stale_to, lambda us: us IS NOT NULL)), 0) THEN 'stale'
        ELSE 'live' END AS state,
    heartbeats, stamp(last_us) AS last_heartbeat_at, coalesce(len(stale_from), 0)::BIGINT AS stales,
    coalesce(stale_us, 0) AS stale_us,
    list_transform(coalesce(stale_from, []), lambda us: make_timestamptz(us)) AS stale_from,
    list_transform(coalesce(stale_to, []), lambda us: make_timestamptz(us)) AS stale_to
FROM whole LEFT JOIN spans USING (project, session) WHERE opened_us IS NOT NULL
""",
    by_day=False,
)

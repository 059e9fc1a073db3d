"""Events of a session in one file of `event`; `agent_session` puts the parts together.

Theory of operation. There are many heartbeats and sessions last for days, so they are never read all at once: the
events of a file become one row per session, once. A stale session is live again with its next heartbeat; if none comes
in the same file, the first heartbeat or close of a later part ends the stale time.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Table

__all__ = ["SESSION_KINDS", "SESSION_PART"]

SESSION_KINDS = ("SessionOpened", "SessionHeartbeat", "SessionWentStale", "SessionClosed")

SESSION_PART = Table(
    name="session_part",
    layer="silver",
    about="One row per session and file of events; input of `agent_session`.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day, UTC."),
        ("session", "string", "The session."),
        ("first_seq", "bigint", "Sequence number of its first event in this part."),
        ("agent", "string", "Agent of the session; null in a part in which it was not opened, closed or stale."),
        ("session_kind", "string", "`push`, `piggyback` or `daemon`; null unless it was opened in this part."),
        ("window", "bigint", "Largest number of unconfirmed offers; null unless it was opened in this part."),
        ("opened_us", "bigint", "Time of opening, if in this part, microseconds since the epoch."),
        ("closed_us", "bigint", "Time of its end, if in this part, microseconds since the epoch."),
        ("close_reason", "string", "`closed`, `lapsed`, `replaced` or `retired`, if in this part."),
        ("heartbeats", "bigint", "Number of heartbeats recorded in this part."),
        ("first_heartbeat_us", "bigint", "Time of the first heartbeat, microseconds since the epoch."),
        ("last_heartbeat_us", "bigint", "Time of the last heartbeat, microseconds since the epoch."),
        ("stale_from_us", "array<bigint>", "Times at which it went stale in this part, microseconds since the epoch."),
        (
            "stale_to_us",
            "array<bigint>",
            "End of each stale time; null if not in this part; microseconds since the epoch.",
        ),
    ),
    reads=("event",),
    sql=f"""
WITH ours AS (
    SELECT project, date, file, session, seq, "at" AS us, kind, agent, session_kind, "window", reason
    FROM event WHERE kind IN ({", ".join(f"'{kind}'" for kind in SESSION_KINDS)})),
followed AS (
    SELECT *, lead(us) OVER (PARTITION BY file, session ORDER BY seq) AS to_us
    FROM ours WHERE (file, session) IN (SELECT file, session FROM ours WHERE kind = 'SessionWentStale')),
spans AS (
    SELECT file, session, list(us ORDER BY seq) AS stale_from_us, list(to_us ORDER BY seq) AS stale_to_us
    FROM followed WHERE kind = 'SessionWentStale' GROUP BY ALL),
whole AS (
    SELECT project, date, file, session, min(seq) AS first_seq,
        any_value(agent) FILTER (WHERE kind <> 'SessionHeartbeat') AS agent,
        any_value(session_kind) FILTER (WHERE kind = 'SessionOpened') AS session_kind,
        any_value("window") FILTER (WHERE kind = 'SessionOpened') AS "window",
        max(us) FILTER (WHERE kind = 'SessionOpened') AS opened_us,
        max(us) FILTER (WHERE kind = 'SessionClosed') AS closed_us,
        any_value(reason) FILTER (WHERE kind = 'SessionClosed') AS close_reason,
        count(*) FILTER (WHERE kind = 'SessionHeartbeat') AS heartbeats,
        min(us) FILTER (WHERE kind = 'SessionHeartbeat') AS first_heartbeat_us,
        max(us) FILTER (WHERE kind = 'SessionHeartbeat') AS last_heartbeat_us
    FROM ours GROUP BY ALL)
SELECT whole.* EXCLUDE (file), coalesce(stale_from_us, []) AS stale_from_us, coalesce(stale_to_us, []) AS stale_to_us
FROM whole LEFT JOIN spans USING (file, session)
""",
)

"""Attachment of agents to their daemons at the end of a minute (SPEC-071 §11).

A daemon is `live` while it sends heartbeats and `stale` once it has missed them. A daemon that shuts down closes its
session at once, so there is no state in between.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["AGENT_ATTACHMENT"]

AGENT_ATTACHMENT = View(
    name="agent_attachment",
    layer="gold",
    about="Whether an agent had a live daemon at the end of a minute.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "The day, UTC."),
        ("minute", "timestamp", "A minute with a change; between two rows the counts are constant."),
        ("agent", "string", "The agent."),
        ("shims", "bigint", "Live push and piggyback sessions at the end of the minute."),
        ("daemons", "bigint", "Live daemons at the end of the minute."),
        ("stale_daemons", "bigint", "Stale daemons at the end of the minute."),
        (
            "attachment",
            "string",
            "`attached` with a live daemon, `daemonless` with other sessions only, else `absent`.",
        ),
    ),
    reads=("agent_session",),
    sql="""
WITH changes AS (
    SELECT project, agent, session_kind, opened_at AS moment, 'opened' AS what, 1 AS live, 0 AS stale FROM agent_session
    UNION ALL SELECT project, agent, session_kind, closed_at, 'closed', -1, 0 FROM agent_session
    UNION ALL SELECT project, agent, session_kind, unnest(stale_from), 'stale', -1, 1 FROM agent_session
    UNION ALL SELECT project, agent, session_kind, unnest(stale_to), 'fresh', 1, -1 FROM agent_session),
minutes AS (
    SELECT project, agent, minute_of(us(moment)) AS minute,
        sum(CASE WHEN session_kind <> 'daemon' THEN live ELSE 0 END) AS shims,
        sum(CASE WHEN session_kind = 'daemon' THEN live ELSE 0 END) AS daemons,
        sum(CASE WHEN session_kind = 'daemon' THEN stale ELSE 0 END) AS stale_daemons
    FROM changes WHERE moment IS NOT NULL GROUP BY ALL),
counted AS (
    SELECT project, to_day(us(minute)) AS date, minute, agent, (sum(shims) OVER so_far)::BIGINT AS shims,
        (sum(daemons) OVER so_far)::BIGINT AS daemons, (sum(stale_daemons) OVER so_far)::BIGINT AS stale_daemons
    FROM minutes WINDOW so_far AS (PARTITION BY project, agent ORDER BY minute))
SELECT *, CASE WHEN daemons > 0 THEN 'attached' WHEN shims > 0 THEN 'daemonless' ELSE 'absent' END AS attachment
FROM counted
""",
    by_day=False,
)

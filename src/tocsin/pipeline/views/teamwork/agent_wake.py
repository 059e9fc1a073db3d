"""Every wake of an agent, with the times from the acceptance of its message to the wake and to the delivery."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["AGENT_WAKE"]

AGENT_WAKE = View(
    name="agent_wake",
    layer="gold",
    about="Every wake of an agent, with the times from the acceptance of its message to the wake and to the delivery.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the request, UTC."),
        ("wake", "string", "Id of the wake."),
        ("agent", "string", "Agent that was woken."),
        ("message", "bigint", "Number of the message that it was woken for."),
        ("message_id", "string", "messageId of that message; null if its acceptance is not in the tables."),
        ("level", "int", "Priority of the message at admission, 0 (Info) to 4 (DirectorOverride)."),
        ("attempt", "bigint", "Number of the attempt; 1 is the first."),
        (
            "outcome",
            "string",
            "`woken`, `waker_failed`, `not_attached`, `not_taken`, `moot`, `retired`, or `under_way` while it is open.",
        ),
        ("given_up", "boolean", "Whether it failed and the attempts were used up, which is escalated."),
        ("accepted_at", "timestamp", "Time at which the message was accepted."),
        ("requested_at", "timestamp", "Time at which the wake was requested."),
        ("ended_at", "timestamp", "Time at which the agent took the message, or the wake failed."),
        ("delivered_at", "timestamp", "Time at which the message was delivered; null unless this wake worked."),
        ("to_request_us", "bigint", "Time from the acceptance to the request, microseconds."),
        ("to_woken_us", "bigint", "Time from the acceptance to the agent's taking the message, microseconds."),
        ("to_delivered_us", "bigint", "Time from the acceptance to the delivery, microseconds."),
    ),
    reads=("message_life", "occurrence"),
    sql="""
WITH requested AS (
    SELECT project, date, wake, agent, message, level::INTEGER AS level, attempt, us AS requested_us
    FROM occurrence WHERE kind = 'AgentWakeRequested'),
ended AS (
    SELECT project, wake, us AS ended_us, kind = 'AgentWoken' AS worked,
        CASE kind WHEN 'AgentWoken' THEN 'woken' ELSE reason END AS outcome, coalesce(final, false) AS given_up
    FROM occurrence WHERE kind IN ('AgentWoken', 'AgentWakeFailed')),
sent AS (
    SELECT project, message, message_id, us(created_at) AS accepted_us, us(delivered_at) AS delivered_us
    FROM message_life WHERE message_id IS NOT NULL),
whole AS (
    SELECT * REPLACE (CASE WHEN worked AND delivered_us >= ended_us THEN delivered_us END AS delivered_us)
    FROM requested LEFT JOIN ended USING (project, wake) LEFT JOIN sent USING (project, message))
SELECT project, date, wake, agent, message, message_id, level, attempt, coalesce(outcome, 'under_way') AS outcome,
    coalesce(given_up, false) AS given_up, stamp(accepted_us) AS accepted_at, stamp(requested_us) AS requested_at,
    stamp(ended_us) AS ended_at, stamp(delivered_us) AS delivered_at,
    not_negative(requested_us - accepted_us) AS to_request_us,
    CASE WHEN worked THEN not_negative(ended_us - accepted_us) END AS to_woken_us,
    not_negative(delivered_us - accepted_us) AS to_delivered_us
FROM whole
""",
    by_day=False,
)

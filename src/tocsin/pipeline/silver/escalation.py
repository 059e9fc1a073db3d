"""One row per escalation: cause, notifications, duration and state."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["ESCALATION"]

ESCALATION = View(
    name="escalation",
    layer="silver",
    about="One row per escalation: cause, notifications, duration and state.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day on which it was opened, UTC."),
        ("escalation", "string", "Id of the escalation."),
        ("rule", "string", "Name of the rule that opened it."),
        ("trigger", "string", "Trigger of the rule."),
        ("subject", "string", "Subject: a messageId, a resource, an agent or a metric."),
        ("cause", "string", "Cause of the escalation."),
        ("message", "bigint", "Number of the message that it is about; null if none."),
        ("threshold", "double", "The threshold that was crossed, in the rule's unit."),
        ("opened_at", "timestamp", "Time of opening."),
        ("director_at", "timestamp", "Time at which a director was first notified; null if none was."),
        ("human_at", "timestamp", "Time at which a human was first notified; null if none was."),
        ("closed_at", "timestamp", "Time at which it was closed; null while it is open."),
        ("open_us", "bigint", "Time from opening to closing, microseconds."),
        ("moves", "bigint", "Number of state changes."),
        ("state", "string", "Current state; `normal` once it is closed."),
        ("resolved_by", "string", "Who made the last state change."),
    ),
    reads=("occurrence",),
    sql="""
WITH opened AS (
    SELECT project, escalation, date, rule, "trigger", subject, cause, threshold,
        CASE WHEN about > 0 THEN about END AS message, us AS opened_us
    FROM occurrence WHERE kind = 'EscalationOpened'),
moved AS (
    SELECT project, escalation, count(*) AS moves, arg_max(us, seq) AS last_us, arg_max(new_state, seq) AS state,
        arg_max("by", seq) AS resolved_by,
        min(us) FILTER (WHERE new_state IN ('director_notified', 'critical_alert')) AS director_us,
        min(us) FILTER (WHERE new_state = 'human_escalation') AS human_us
    FROM occurrence WHERE kind = 'EscalationMoved' GROUP BY ALL),
both_parts AS (
    SELECT *, CASE WHEN state = 'normal' THEN last_us END AS closed_us
    FROM opened LEFT JOIN moved USING (project, escalation))
SELECT project, date, escalation, rule, "trigger", subject, cause, message, threshold, stamp(opened_us) AS opened_at,
    stamp(director_us) AS director_at, stamp(human_us) AS human_at, stamp(closed_us) AS closed_at,
    not_negative(closed_us - opened_us) AS open_us, coalesce(moves, 0) AS moves, coalesce(state, 'opened') AS state,
    resolved_by
FROM both_parts
""",
    by_day=False,
)

"""One row per thread, put together from its days (`thread_day`)."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["THREAD"]

THREAD = View(
    name="thread",
    layer="silver",
    about="One row per thread: its agents, counts of messages, times and outcome.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day on which it was opened, UTC."),
        ("thread", "bigint", "Number of the message that opened it."),
        ("correlation_id", "string", "correlationId of the thread."),
        ("thread_kind", "string", "`task` for an assignment, `handoff`, or `request` for anything else."),
        ("message_type", "string", "Type of the message that opened it."),
        ("requester", "string", "Agent that opened it."),
        ("responder", "string", "Agent that it was opened with; null if there were several."),
        ("copies", "bigint", "Number of recipients of the opening message."),
        ("messages", "bigint", "Number of messages."),
        ("updates", "bigint", "Number of task updates."),
        ("responses", "bigint", "Number of messages back to the requester, without ACKs and NACKs."),
        ("opened_at", "timestamp", "Time of opening."),
        ("delivered_at", "timestamp", "Time of the first delivery of the opening message."),
        ("acked_at", "timestamp", "Time of the first ACK of the opening message."),
        ("first_update_at", "timestamp", "Time of the first task update."),
        ("first_response_at", "timestamp", "Time of the first response."),
        ("completed_at", "timestamp", "Time at which the opening message was first processed."),
        ("last_at", "timestamp", "Time of acceptance of its last message."),
        ("outcome", "string", "`completed`, `lost` if no copy of the opening message can be answered, or `open`."),
    ),
    reads=("thread_day",),
    sql="""
-- An opening message is the first of its row, and messages before a day's first opening are in separate rows: so the
-- thread of each row is opened by that row or an earlier one.
WITH days AS (
    SELECT * FROM (
        SELECT *, last_value(opener IGNORE NULLS) OVER (
            PARTITION BY project, correlation_id ORDER BY first_message
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS thread
        FROM thread_day) WHERE thread IS NOT NULL),
openings AS (
    SELECT project, thread, date, correlation_id, message_type, sender AS requester, recipient AS asked, opened_us
    FROM days WHERE message_type IS NOT NULL),
whole AS (
    SELECT project, thread, sum(copies)::BIGINT AS copies, sum(messages)::BIGINT AS messages,
        sum(updates)::BIGINT AS updates,
        sum(CASE WHEN recipient = requester THEN answers ELSE 0 END)::BIGINT AS responses,
        min(delivered_us) AS delivered_us, min(acked_us) AS acked_us, min(first_update_us) AS first_update_us,
        min(first_answer_us) FILTER (WHERE recipient = requester) AS first_response_us,
        min(processed_us) AS completed_us, max(last_us) AS last_us, sum(lost)::BIGINT AS lost
    FROM (SELECT * EXCLUDE (date, correlation_id, message_type, opened_us) FROM days)
        JOIN (SELECT project, thread, requester FROM openings) USING (project, thread)
    GROUP BY ALL)
SELECT project, date, thread, correlation_id,
    CASE message_type WHEN 'TASK_ASSIGNMENT' THEN 'task' WHEN 'HANDOFF_REQUEST' THEN 'handoff' ELSE 'request' END
        AS thread_kind,
    message_type, requester, CASE WHEN copies = 1 THEN asked END AS responder, copies, messages, updates, responses,
    stamp(opened_us) AS opened_at, stamp(delivered_us) AS delivered_at, stamp(acked_us) AS acked_at,
    stamp(first_update_us) AS first_update_at, stamp(first_response_us) AS first_response_at,
    stamp(completed_us) AS completed_at, stamp(last_us) AS last_at,
    CASE WHEN completed_us IS NOT NULL THEN 'completed' WHEN lost = copies THEN 'lost' ELSE 'open' END AS outcome
FROM openings JOIN whole USING (project, thread)
""",
    by_day=False,
)

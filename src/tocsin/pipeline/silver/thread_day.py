"""Messages of a day by thread and pair of agents; `thread` puts the days together.

Theory of operation. A message belongs to the thread that the last opening message with its correlationId opened, at or
before it; an id may be used again once its thread is forgotten. A thread may span days, so a day's messages first
become one row per thread and pair of agents, where messages before the day's first opening have no thread yet. A
request is completed when its opening message is processed: the exchange decides which answer means that, and payloads
are not read. ACKs and NACKs are not answers.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Table

__all__ = ["THREAD_DAY"]

_ANSWER = "NOT opens_thread AND message_type NOT IN ('ACK', 'NACK')"
_UPDATE = "message_type = 'TASK_UPDATE'"
_LOST = "state IN ('expired', 'recalled', 'dead', 'purged')"

THREAD_DAY = Table(
    name="thread_day",
    layer="silver",
    about="One row per thread, day and pair of agents; input of `thread`.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day on which the messages were accepted, UTC."),
        ("correlation_id", "string", "correlationId of the thread."),
        ("opener", "bigint", "Number of the message that opened the thread on this day; null if opened earlier."),
        ("sender", "string", "Agent that sent the messages of this row."),
        ("recipient", "string", "Agent that they are addressed to."),
        ("first_message", "bigint", "Number of the first message."),
        ("messages", "bigint", "Number of messages."),
        ("updates", "bigint", "Number of task updates among them."),
        ("answers", "bigint", "Number of messages that are neither the opening message nor an ACK or NACK."),
        ("last_us", "bigint", "Time of acceptance of the last message, microseconds since the epoch."),
        ("first_update_us", "bigint", "Time of acceptance of the first update, microseconds since the epoch."),
        ("first_answer_us", "bigint", "Time of acceptance of the first answer, microseconds since the epoch."),
        ("copies", "bigint", "Number of copies of the opening message in this row."),
        ("opened_us", "bigint", "Time of acceptance of the first copy, microseconds since the epoch."),
        ("delivered_us", "bigint", "Time of delivery of the first copy, microseconds since the epoch."),
        ("acked_us", "bigint", "Time of the first ACK of a copy, microseconds since the epoch."),
        ("processed_us", "bigint", "Time at which the first copy was processed, microseconds since the epoch."),
        (
            "lost",
            "bigint",
            "Number of copies of the opening message that expired, were recalled or became dead letters.",
        ),
        ("message_type", "string", "Type of the opening message, in the row of its first copy."),
    ),
    reads=("message_life",),
    sql=f"""
WITH opening AS (
    SELECT *, opens_thread AND NOT coalesce(lag(message_id) OVER in_order = message_id, false) AS first_copy
    FROM message WHERE correlation_id IS NOT NULL
    WINDOW in_order AS (PARTITION BY project, date, correlation_id ORDER BY message)),
threaded AS (
    SELECT *, last_value(CASE WHEN first_copy THEN message END IGNORE NULLS) OVER (
        PARTITION BY project, date, correlation_id ORDER BY message
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS opener
    FROM opening)
SELECT project, date, correlation_id, opener, sender, recipient, min(message) AS first_message, count(*) AS messages,
    count(*) FILTER (WHERE {_UPDATE}) AS updates, count(*) FILTER (WHERE {_ANSWER}) AS answers,
    max(us(created_at)) AS last_us, min(us(created_at)) FILTER (WHERE {_UPDATE}) AS first_update_us,
    min(us(created_at)) FILTER (WHERE {_ANSWER}) AS first_answer_us, count(*) FILTER (WHERE opens_thread) AS copies,
    min(us(created_at)) FILTER (WHERE opens_thread) AS opened_us,
    min(us(delivered_at)) FILTER (WHERE opens_thread) AS delivered_us,
    min(us(acked_at)) FILTER (WHERE opens_thread) AS acked_us,
    min(us(processed_at)) FILTER (WHERE opens_thread) AS processed_us,
    count(*) FILTER (WHERE opens_thread AND {_LOST}) AS lost,
    any_value(message_type) FILTER (WHERE first_copy) AS message_type
FROM threaded GROUP BY project, date, correlation_id, opener, sender, recipient
""",
)

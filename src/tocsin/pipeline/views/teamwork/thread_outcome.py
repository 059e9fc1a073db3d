"""Outcomes of the threads opened on a day, per kind, type, requester and responder."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["THREAD_OUTCOME"]

THREAD_OUTCOME = View(
    name="thread_outcome",
    layer="gold",
    about="Outcomes of the threads opened on a day, per kind, type, requester and responder.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of opening of the threads, UTC."),
        ("thread_kind", "string", "`task`, `handoff` or `request`."),
        ("message_type", "string", "Message type of the opening message."),
        ("requester", "string", "Agent that opened the threads."),
        ("responder", "string", "Agent that was asked; null if there were several."),
        ("threads", "bigint", "Number of threads opened."),
        ("completed", "bigint", "Of those, completed."),
        ("lost", "bigint", "Of those, whose opening message expired, was recalled or became a dead letter."),
        ("open", "bigint", "Of those, neither completed nor lost."),
        ("messages", "bigint", "Number of messages."),
        ("updates", "bigint", "Number of task updates."),
        ("responses", "bigint", "Number of messages back to the requester."),
    ),
    reads=("thread",),
    sql="""
SELECT project, date, thread_kind, message_type, requester, responder, count(*) AS threads,
    count(*) FILTER (WHERE outcome = 'completed') AS completed, count(*) FILTER (WHERE outcome = 'lost') AS lost,
    count(*) FILTER (WHERE outcome = 'open') AS open, sum(messages)::BIGINT AS messages,
    sum(updates)::BIGINT AS updates,
    sum(responses)::BIGINT AS responses
FROM thread GROUP BY ALL
""",
    balance=Balance("threads", "thread"),
    by_day=False,
)

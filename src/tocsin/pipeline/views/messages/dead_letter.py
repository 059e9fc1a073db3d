"""Dead letters among the messages of a day, per type, recipient, reason and code."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["DEAD_LETTER"]

DEAD_LETTER = View(
    name="dead_letter",
    layer="gold",
    about="Dead letters among the messages of a day, per type, recipient, reason and code.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("message_type", "string", "Message type."),
        ("recipient", "string", "Agent that they were addressed to."),
        ("reason", "string", "`ack_timeout`, `receipt_timeout`, `rejected` or `recipient_gone`."),
        ("code", "string", "Error code."),
        ("letters", "bigint", "Number of dead letters with this reason."),
        ("purged", "bigint", "Of those, purged."),
        ("attempts", "bigint", "Total number of retries used."),
        ("oldest_at", "timestamp", "Time of the first dead-lettering."),
        ("newest_at", "timestamp", "Time of the last dead-lettering."),
    ),
    reads=("message_hour",),
    sql="""
SELECT project, date, message_type, recipient, reason, code, sum(messages)::BIGINT AS letters,
    sum(purged)::BIGINT AS purged,
    sum(attempts)::BIGINT AS attempts, min(first_dead_at) AS oldest_at, max(last_dead_at) AS newest_at
FROM message_hour WHERE state IN ('dead', 'purged') GROUP BY ALL
""",
    balance=Balance("letters", "message", "state = 'dead'"),
)

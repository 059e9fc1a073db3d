"""Messages of an hour per sender, recipient and type."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["TRAFFIC"]

_LEVELS = ("info", "coordinate", "blocking", "critical", "director_override")
_BY_LEVEL = ", ".join(
    f"coalesce(sum(messages) FILTER (WHERE priority = {level}), 0)::BIGINT AS {name}"
    for level, name in enumerate(_LEVELS)
)

TRAFFIC = View(
    name="traffic",
    layer="gold",
    about="Messages of an hour per sender, recipient and type.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("hour", "timestamp", "Hour of acceptance."),
        ("sender", "string", "Agent that sent them."),
        ("recipient", "string", "Agent that they are addressed to."),
        ("message_type", "string", "Message type."),
        ("messages", "bigint", "Number of messages accepted."),
        *((name, "bigint", f"Of those, with granted priority {name.replace('_', ' ')}.") for name in _LEVELS),
        ("broadcast_copies", "bigint", "Of those, copies of broadcasts."),
        ("lowered", "bigint", "Of those, granted a lower priority than requested."),
        ("delivered", "bigint", "Of those, delivered, acknowledged or processed."),
        ("unread", "bigint", "Of those, expired, recalled or dead."),
    ),
    reads=("message_hour",),
    sql=f"""
SELECT project, date, hour, sender, recipient, message_type, sum(messages)::BIGINT AS messages,
    {_BY_LEVEL},
    sum(broadcast_copies)::BIGINT AS broadcast_copies,
    coalesce(sum(messages) FILTER (WHERE priority < requested), 0)::BIGINT AS lowered,
    coalesce(sum(messages) FILTER (WHERE state IN ('delivered', 'acknowledged', 'processed')), 0)::BIGINT AS delivered,
    coalesce(sum(messages) FILTER (WHERE state IN ('expired', 'recalled', 'dead', 'purged')), 0)::BIGINT AS unread
FROM message_hour GROUP BY ALL
""",
    balance=Balance("messages", "message"),
)

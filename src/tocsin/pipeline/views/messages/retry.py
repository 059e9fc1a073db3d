"""Offers, requeues, rejections and redrives of an hour's messages, per type and recipient."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["RETRY"]

RETRY = View(
    name="retry",
    layer="gold",
    about="Offers, requeues, rejections and redrives of an hour's messages, per type and recipient.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("hour", "timestamp", "Hour of acceptance."),
        ("message_type", "string", "Message type."),
        ("recipient", "string", "Agent that they are addressed to."),
        ("messages", "bigint", "Number of messages accepted."),
        ("offered", "bigint", "Of those, offered at least once."),
        ("offers", "bigint", "Total number of offers."),
        ("requeued", "bigint", "Of those, requeued at least once."),
        ("requeues", "bigint", "Total number of requeues."),
        ("rejections", "bigint", "Total number of rejections (NACK)."),
        ("redriven", "bigint", "Of those, redriven at least once."),
        ("redrives", "bigint", "Total number of redrives."),
        ("dead", "bigint", "Of those, dead letters now, including purged ones."),
        ("purged", "bigint", "Of these, purged."),
    ),
    reads=("message_hour",),
    sql="""
SELECT project, date, hour, message_type, recipient, sum(messages)::BIGINT AS messages, sum(offered)::BIGINT AS offered,
    sum(offers)::BIGINT AS offers, sum(requeued)::BIGINT AS requeued, sum(requeues)::BIGINT AS requeues,
    sum(rejections)::BIGINT AS rejections, sum(redriven)::BIGINT AS redriven, sum(redrives)::BIGINT AS redrives,
    coalesce(sum(messages) FILTER (WHERE state IN ('dead', 'purged')), 0)::BIGINT AS dead, sum(purged)::BIGINT AS purged
FROM message_hour GROUP BY ALL
""",
    balance=Balance("messages", "message"),
)

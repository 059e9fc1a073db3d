"""Times to the first offer of the messages of a day, per type and TTL."""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["TTL_USE"]

TTL_USE = View(
    name="ttl_use",
    layer="gold",
    about="Times to the first offer of the messages of a day, per type and TTL.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("message_type", "string", "Message type."),
        ("ttl_us", "bigint", "TTL at acceptance, microseconds."),
        ("messages", "bigint", "Number of messages accepted and never redriven (a redrive sets a new TTL)."),
        ("expired", "bigint", "Of those, expired by their TTL."),
        ("stale", "bigint", "Of those, expired because their importance had decayed."),
        ("waiting", "bigint", "Of those, neither offered nor ended yet."),
        *DISTRIBUTION,
    ),
    reads=("message_hour",),
    sql=distribution(
        "message_hour",
        ("project", "date", "message_type", "ttl_us"),
        "wait",
        {
            "messages": "sum(messages)",
            "expired": "coalesce(sum(messages) FILTER (WHERE state = 'expired' AND reason = 'ttl'), 0)",
            "stale": "coalesce(sum(messages) FILTER (WHERE state = 'expired' AND reason = 'stale'), 0)",
            "waiting": "coalesce(sum(messages) FILTER (WHERE state = 'queued' AND offers = 0), 0)",
        },
        where="ttl_us IS NOT NULL",
    ),
    balance=Balance("messages", "message", "redrives = 0"),
)

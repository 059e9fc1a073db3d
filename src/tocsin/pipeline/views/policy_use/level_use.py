"""Priorities requested for the messages of a day, per type, and reaction times of recipients."""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["LEVEL_USE"]

LEVEL_USE = View(
    name="level_use",
    layer="gold",
    about="Priorities requested for the messages of a day, per type, and reaction times of recipients.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("message_type", "string", "Message type."),
        ("requested", "int", "Priority requested, by the sender or by default, 0 (Info) to 4 (DirectorOverride)."),
        ("messages", "bigint", "Number of messages accepted, without confirmations."),
        ("by_default", "bigint", "Of those, without a priority named by the sender."),
        ("lowered", "bigint", "Of those, granted a lower priority."),
        *DISTRIBUTION,
    ),
    reads=("message_hour",),
    sql=distribution(
        "message_hour",
        ("project", "date", "message_type", "requested"),
        "reaction",
        {
            "messages": "sum(messages)",
            "by_default": "coalesce(sum(messages) FILTER (WHERE rule = 'contract_default'), 0)",
            "lowered": "coalesce(sum(messages) FILTER (WHERE priority < requested), 0)",
        },
        where="rule <> 'confirmation'",
    ),
    balance=Balance("messages", "message", "rule <> 'confirmation'"),
)

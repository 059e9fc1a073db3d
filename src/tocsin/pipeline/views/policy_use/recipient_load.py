"""Waiting times of the messages of a day to connected recipients."""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["RECIPIENT_LOAD"]

RECIPIENT_LOAD = View(
    name="recipient_load",
    layer="gold",
    about="Waiting times of the messages of a day to connected recipients.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("recipient", "string", "Agent that they are addressed to."),
        ("messages", "bigint", "Number of messages sent while it was connected (push path)."),
        ("held_back", "bigint", "Of those, that waited because its window was full."),
        *DISTRIBUTION,
    ),
    reads=("message_hour",),
    sql=distribution(
        "message_hour",
        ("project", "date", "recipient"),
        "wait",
        {"messages": "sum(messages)", "held_back": "sum(held_back)"},
        where="publish_path = 'pushed_to_ws'",
    ),
    balance=Balance("messages", "message", "publish_path = 'pushed_to_ws'"),
)

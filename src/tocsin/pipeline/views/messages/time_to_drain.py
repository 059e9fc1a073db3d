"""Times to the first offer of the messages of an hour, per type and publish path (SPEC-071 §11)."""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["TIME_TO_DRAIN"]

TIME_TO_DRAIN = View(
    name="time_to_drain",
    layer="gold",
    about="Times to the first offer of the messages of an hour, per type and publish path.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("hour", "timestamp", "Hour of acceptance."),
        ("message_type", "string", "Message type."),
        ("publish_path", "string", "Publish path at send time; `unknown` for rows older than the field."),
        ("messages", "bigint", "Number of messages accepted, including those that were never offered."),
        *DISTRIBUTION,
    ),
    reads=("message_hour",),
    sql=distribution(
        "message_hour",
        ("project", "date", "hour", "message_type", "publish_path"),
        "wait",
        {"messages": "sum(messages)"},
    ),
    balance=Balance("messages", "message"),
)

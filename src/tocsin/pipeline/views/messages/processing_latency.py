"""Processing latencies and decay rates of the messages of a minute, per type (DECAY §4).

Latency is the time from the last offer to the confirmation that the contract requires.
"""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["PROCESSING_LATENCY"]

PROCESSING_LATENCY = View(
    name="processing_latency",
    layer="gold",
    about="Processing latencies and decay rates of the messages of a minute, per type.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("minute", "timestamp", "Minute of acceptance."),
        ("message_type", "string", "Message type."),
        ("messages", "bigint", "Number of messages accepted."),
        ("decaying", "bigint", "Of those, with a decay rate above 0."),
        ("decay_rate_sum_ppm", "bigint", "Sum of their decay rates, in millionths, so that sums are exact."),
        ("stale", "bigint", "Of those, expired because their importance had decayed."),
        *DISTRIBUTION,
    ),
    reads=("message_minute",),
    sql=distribution(
        "message_minute",
        ("project", "date", "minute", "message_type"),
        "processing",
        {
            "messages": "sum(messages)",
            "decaying": "sum(decaying)",
            "decay_rate_sum_ppm": "sum(decay_rate_sum_ppm)",
            "stale": "sum(stale)",
        },
    ),
    balance=Balance("messages", "message"),
)

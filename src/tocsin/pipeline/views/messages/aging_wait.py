"""Waiting times of the messages of an hour, per priority, compared with the policy's bound (LIMINAL).

The bound of a priority is the waiting time after which a message is overdue: from then on only messages above the
policy's `aging.top`, and messages that are both older and overdue, are delivered before it
(docs/concepts/priorities.md). It does not apply while the recipient takes no messages, so messages to recipients that
were available at send time are counted separately.
"""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["AGING_WAIT"]

AGING_WAIT = View(
    name="aging_wait",
    layer="gold",
    about="Waiting times of the messages of an hour, per priority, compared with the policy's bound.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("hour", "timestamp", "Hour of acceptance."),
        ("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
        ("bound_us", "bigint", "Waiting time after which a message is overdue, microseconds; null if it does not age."),
        ("messages", "bigint", "Number of messages accepted."),
        ("boosted", "bigint", "Of those, boosted at least once."),
        ("boosts", "bigint", "Total number of boosts."),
        ("waiting", "bigint", "Of those, neither offered nor ended yet; not in the waiting times below."),
        ("over_bound", "bigint", "Of those, that waited longer than the bound."),
        ("over_bound_available", "bigint", "Of these, sent to a recipient that was available."),
        *DISTRIBUTION,
    ),
    reads=("message_hour",),
    sql=distribution(
        """(SELECT *, coalesce(wait_bucket, end_bucket) AS aged_bucket,
            coalesce(wait_sum_us, end_sum_us) AS aged_sum_us,
            coalesce(wait_min_us, end_min_us) AS aged_min_us, coalesce(wait_max_us, end_max_us) AS aged_max_us
        FROM message_hour)""",
        ("project", "date", "hour", "priority", "bound_us"),
        "aged",
        {
            "messages": "sum(messages)",
            "boosted": "sum(boosted)",
            "boosts": "sum(boosts)",
            "waiting": "coalesce(sum(messages) FILTER (WHERE aged_bucket IS NULL), 0)",
            "over_bound": "sum(over_bound)",
            "over_bound_available": "sum(over_bound_available)",
        },
    ),
    balance=Balance("messages", "message"),
)

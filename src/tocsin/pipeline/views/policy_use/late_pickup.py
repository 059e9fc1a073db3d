"""Times from the expiry of messages to the next offer to their recipient, per type and TTL.

A TTL is too short if the recipient took messages soon after the expiry: the first minute, from the expiry on, in which
the recipient was offered anything.
"""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution_of
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["LATE_PICKUP"]

LATE_PICKUP = View(
    name="late_pickup",
    layer="gold",
    about="Times from the expiry of messages to the next offer to their recipient, per type and TTL.",
    columns=columns(
        ("project", "string", "The project."),
        ("message_type", "string", "Message type."),
        ("ttl_us", "bigint", "TTL at acceptance, microseconds."),
        ("expired", "bigint", "Number of messages that expired by it without an offer."),
        *DISTRIBUTION,
    ),
    reads=("pickup",),
    sql=distribution_of(
        """(SELECT *, next_us - us(minute) AS late_us FROM (
            SELECT *, min(CASE WHEN offered > 0 THEN us(minute) END) OVER (
                PARTITION BY project, recipient ORDER BY us(minute) DESC
                RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS next_us FROM pickup) WHERE expired > 0)""",
        ("project", "message_type", "ttl_us"),
        "late_us",
        {"expired": "sum(expired)"},
        "expired",
    ),
    by_day=False,
)

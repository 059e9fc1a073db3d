"""Offered and expired messages per recipient and minute; input of `late_pickup`.

It reads `message_life`: a fact by recipient and minute of the offer would have nearly as many rows.
"""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["PICKUP"]

PICKUP = View(
    name="pickup",
    layer="gold",
    about="Offered and expired messages per recipient and minute; input of `late_pickup`.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("recipient", "string", "Agent that they are addressed to."),
        ("minute", "timestamp", "Minute of the first offer, or of the expiry."),
        ("message_type", "string", "Message type of expired messages; null for offered ones."),
        ("ttl_us", "bigint", "TTL of expired messages, microseconds; null for offered ones."),
        ("offered", "bigint", "Number of messages first offered in the minute."),
        ("expired", "bigint", "Number of messages that expired by their TTL in the minute without an offer."),
    ),
    reads=("message_life",),
    sql="""
SELECT project, date, recipient, minute_of(us(first_offered_at)) AS minute, NULL::VARCHAR AS message_type,
    NULL::BIGINT AS ttl_us, count(*) AS offered, 0::BIGINT AS expired
FROM message WHERE first_offered_at IS NOT NULL GROUP BY ALL
UNION ALL
SELECT project, date, recipient, minute_of(us(expired_at)), message_type, us(expires_at) - us(created_at), 0, count(*)
FROM message WHERE reason = 'ttl' AND state = 'expired' AND offers = 0 AND redrives = 0 GROUP BY ALL
""",
)

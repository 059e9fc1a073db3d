"""Messages of a minute by type, sender, path and priority: outcomes, waiting times and processing latencies."""

from tocsin.pipeline.facts.histogram import bucket, measure
from tocsin.pipeline.facts.policy_in_force import DELIVERY_TARGET_US, in_force
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Table

__all__ = ["MESSAGE_MINUTE", "UNKNOWN_PATH"]

#: Publish path of messages that were recorded before the field existed (SPEC-071 §10).
UNKNOWN_PATH = "unknown"

_KEYS = ("project", "date", "minute", "message_type", "sender", "publish_path", "priority", "target_us")
_DELIVERED = "state IN ('delivered', 'acknowledged', 'processed')"
_PUSHED = "(coalesce(publish_path = 'pushed_to_ws', false) OR broadcast IS NOT NULL)"
_WAITING = "state IN ('queued', 'offered')"
_THERE = "coalesce(recipient_state = 'available', false)"
_COUNTS = {
    "available_now": (f"{_DELIVERED} AND {_PUSHED}", "Of those, delivered by push, or as a copy of a broadcast."),
    "drained": (f"{_DELIVERED} AND NOT {_PUSHED}", "Of those, delivered on another path."),
    "pending_pickup": (f"{_WAITING} AND NOT {_THERE}", "Of those, not delivered; the recipient was not available."),
    "waiting": (f"{_WAITING} AND {_THERE}", "Of those, not delivered; the recipient was available."),
    "held": ("state = 'held'", "Of those, held for an approval."),
    "expired": ("state = 'expired'", "Of those, expired by TTL or decay."),
    "recalled": ("state = 'recalled'", "Of those, recalled by the sender."),
    "dead": ("state IN ('dead', 'purged')", "Of those, dead letters, including purged ones."),
    "within_target": ("wait_us <= target_us", "Of those, first offered within the target."),
    "decaying": ("decay_rate > 0", "Of those, with a decay rate above 0."),
    "stale": ("state = 'expired' AND reason = 'stale'", "Of those, expired because their importance had decayed."),
}

MESSAGE_MINUTE = Table(
    name="message_minute",
    layer="facts",
    about="Counts of the messages of a minute per type, sender, path, priority, target and buckets of two latencies.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance, UTC."),
        ("minute", "timestamp", "Minute of acceptance."),
        ("message_type", "string", "Message type."),
        ("sender", "string", "Agent that sent them."),
        ("publish_path", "string", "Publish path at send time; `unknown` for rows older than the field."),
        ("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
        ("target_us", "bigint", "Latency target of the priority, microseconds."),
        ("wait_bucket", "int", "Bucket of the time to the first offer; null without an offer."),
        ("processing_bucket", "int", "Bucket of the processing latency; null without a confirmation."),
        ("messages", "bigint", "Number of messages accepted."),
        *((name, "bigint", about) for name, (_, about) in _COUNTS.items()),
        ("decay_rate_sum_ppm", "bigint", "Sum of their decay rates, in millionths, so that sums are exact."),
        ("wait_sum_us", "bigint", "Sum of the times to the first offer, microseconds."),
        ("wait_min_us", "bigint", "Shortest of them."),
        ("wait_max_us", "bigint", "Longest of them."),
        ("processing_sum_us", "bigint", "Sum of the processing latencies, microseconds."),
        ("processing_min_us", "bigint", "Shortest of them."),
        ("processing_max_us", "bigint", "Longest of them."),
    ),
    reads=("message_life", "policy_span"),
    sql=f"""
SELECT {", ".join(_KEYS)}, {bucket("wait_us")} AS wait_bucket, {bucket("processing_us")} AS processing_bucket,
    count(*) AS messages,
    {", ".join(f"count(*) FILTER (WHERE {when}) AS {name}" for name, (when, _) in _COUNTS.items())},
    sum(round(decay_rate * 1000000)::BIGINT)::BIGINT AS decay_rate_sum_ppm, {measure("wait")}, {measure("processing")}
FROM (
    SELECT * REPLACE (coalesce(publish_path, '{UNKNOWN_PATH}') AS publish_path), minute_of(us(created_at)) AS minute,
        {DELIVERY_TARGET_US} AS target_us, first_waited_us AS wait_us,
        not_negative(CASE WHEN ack_required THEN ack_latency_us ELSE us(delivered_at) - us(offered_at) END)
            AS processing_us
    FROM {in_force("message", "created_at")})
GROUP BY ALL
""",
)

"""SQL that adds the policy in force to rows, and the delivery targets of messages whose policy has none."""

__all__ = ["DELIVERY_TARGET_US", "SUSTAINED_US", "in_force"]

#: Longest latency by priority, Info to DirectorOverride, microseconds, for messages without a policy (LIMINAL).
_TARGETS_US = (100_000, 100_000, 50_000, 10_000, 10_000)
_SUSTAINED_US = 60_000_000

#: Latency target of a message: the policy's (`health.limits`, which the hub uses too), or else the default.
DELIVERY_TARGET_US = (
    "coalesce(CASE WHEN priority >= 3 THEN critical_delivery_us WHEN priority = 2 THEN blocking_delivery_us END,"
    f" {list(_TARGETS_US)}[priority + 1])::BIGINT"
)
#: Time for which a target must be missed to count as a sustained breach.
SUSTAINED_US = f"coalesce(breach_sustained_us, {_SUSTAINED_US})::BIGINT"

_VALUES = (
    "aging_enabled, aging_threshold_us, aging_boost_levels, aging_top, gaming_messages_min, gaming_ratio,"
    " critical_delivery_us, blocking_delivery_us, breach_sustained_us"
)


def in_force(source: str, at: str) -> str:
    """Return the SQL of a relation with the policy in force at the time in a column; nulls if there was none yet.

    A policy that was replaced at once, or before its adoption by a clock that went back, was never in force.
    """
    spans = (
        f"SELECT project, adopted_at, {_VALUES} FROM policy_span WHERE replaced_at IS NULL OR replaced_at > adopted_at"
    )
    return (
        f"(SELECT judged.*, {_VALUES} FROM {source} AS judged ASOF LEFT JOIN ({spans}) AS span"
        f" ON judged.project = span.project AND judged.{at} >= span.adopted_at)"
    )

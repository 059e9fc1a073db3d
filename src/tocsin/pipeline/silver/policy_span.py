"""One row per adopted policy, with the time span in which it was in force."""

from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["POLICY_SPAN"]

#: Where aging ended before the policy had a setting for it.
_TOP_BEFORE = "Critical"

POLICY_SPAN = View(
    name="policy_span",
    layer="silver",
    about="One row per adopted policy, with the time span in which it was in force.",
    columns=columns(
        ("project", "string", "The project."),
        ("version", "bigint", "Number of the policy in its project, from 1."),
        ("adopted_seq", "bigint", "Sequence number of its adoption."),
        ("adopted_at", "timestamp", "Time of its adoption."),
        ("replaced_at", "timestamp", "Time at which the next policy replaced it; null if it is in force."),
        ("by", "string", "Agent that adopted it."),
        ("reason", "string", "Reason given."),
        ("aging_enabled", "boolean", "Whether aging boosts waiting messages."),
        ("aging_threshold_us", "bigint", "Waiting time after which a message is boosted, each time, microseconds."),
        ("aging_boost_levels", "int", "Levels of one boost."),
        ("aging_top", "int", "Level at whose front aging ends; Critical in policies that do not name one."),
        ("gaming_messages_min", "int", "Smallest number of messages in a window for gaming detection."),
        ("gaming_ratio", "double", "Share of Blocking and above over which a sender counts as gaming."),
        (
            "critical_delivery_us",
            "bigint",
            "Delivery target of Critical messages and overrides, microseconds.",
        ),
        ("blocking_delivery_us", "bigint", "Delivery target of Blocking messages, microseconds."),
        ("breach_sustained_us", "bigint", "Time for which a target must be missed to count as a breach, microseconds."),
        ("policy", "string", "The whole policy, as JSON."),
    ),
    reads=("occurrence",),
    sql=f"""
SELECT project, policy_version AS version, seq AS adopted_seq, stamp(us) AS adopted_at,
    stamp(lead(us) OVER (PARTITION BY project ORDER BY seq)) AS replaced_at, "by", reason,
    (policy->>'$.aging.enabled')::BOOLEAN AS aging_enabled,
    round((policy->>'$.aging.threshold_s')::DOUBLE * 1000000)::BIGINT AS aging_threshold_us,
    (policy->>'$.aging.boost_levels')::INTEGER AS aging_boost_levels,
    list_position({list(PRIORITY_NAMES)}, coalesce(policy->>'$.aging.top', '{_TOP_BEFORE}')) - 1 AS aging_top,
    (policy->>'$.gaming.messages_min')::INTEGER AS gaming_messages_min,
    (policy->>'$.gaming.high_priority_ratio')::DOUBLE AS gaming_ratio,
    round((policy->>'$.health.limits.critical_delivery_s')::DOUBLE * 1000000)::BIGINT AS critical_delivery_us,
    round((policy->>'$.health.limits.blocking_delivery_s')::DOUBLE * 1000000)::BIGINT AS blocking_delivery_us,
    round((policy->>'$.health.sustained_s')::DOUBLE * 1000000)::BIGINT AS breach_sustained_us,
    policy
FROM occurrence WHERE kind = 'PolicyAdopted'
""",
    by_day=False,
)

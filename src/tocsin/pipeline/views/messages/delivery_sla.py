"""Times to the first offer of the messages of a minute, per priority and path, compared with the target (LIMINAL).

Latency is the time from acceptance to the first offer, as in the hub's metrics. The target is the one of the policy in
force at acceptance, or else a default (`tocsin.pipeline.facts.policy_in_force`).
"""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["DELIVERY_SLA"]

DELIVERY_SLA = View(
    name="delivery_sla",
    layer="gold",
    about="Times to the first offer of the messages of a minute, per priority and path, compared with the target.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance of the messages, UTC."),
        ("minute", "timestamp", "Minute of acceptance."),
        ("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
        ("publish_path", "string", "Publish path at send time; `unknown` for rows older than the field."),
        ("messages", "bigint", "Number of messages accepted."),
        ("target_us", "bigint", "Latency target of the priority, microseconds."),
        ("within_target", "bigint", "Number of messages offered within the target."),
        *DISTRIBUTION,
    ),
    reads=("message_minute",),
    sql=distribution(
        "message_minute",
        ("project", "date", "minute", "priority", "publish_path", "target_us"),
        "wait",
        {"messages": "sum(messages)", "within_target": "sum(within_target)"},
    ),
    balance=Balance("messages", "message"),
)

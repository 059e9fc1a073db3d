"""Times in which a priority missed its latency target, for a minute or longer by default (LIMINAL).

A target can only be met if the recipient is connected, so breaches are computed over messages on the push path. A slot
is in breach if more than one in a hundred of its messages was late. A run of such slots ends with a slot that met the
target, or when nothing was sent for the length of a sustained breach. It reads `message_life`, because slots are
shorter than the minutes of the facts.
"""

from tocsin.pipeline.facts.policy_in_force import DELIVERY_TARGET_US, SUSTAINED_US, in_force
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["SLA_BREACH"]

#: Length of the slots in which messages are evaluated together, microseconds.
_SLOT_US = 10_000_000
#: Share of the messages that may be later: the target applies to the 99th percentile.
_LATE_SHARE = 0.01

SLA_BREACH = View(
    name="sla_breach",
    layer="gold",
    about="Times in which a priority missed its latency target, for a minute or longer by default.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the breach, UTC; a breach over midnight is split."),
        ("priority", "int", "Priority whose target was missed, 0 (Info) to 4 (DirectorOverride)."),
        ("began_at", "timestamp", "Start of the first slot in breach."),
        ("ended_at", "timestamp", "End of the last slot in breach."),
        ("lasted_us", "bigint", "Duration, microseconds."),
        ("messages", "bigint", "Number of messages pushed in the slots in breach."),
        ("late", "bigint", "Of those, offered later than the target."),
        ("worst_us", "bigint", "Longest latency, microseconds."),
        (
            "target_us",
            "bigint",
            "Latency target, microseconds; the largest if the policy changed during the breach.",
        ),
    ),
    reads=("message_life", "policy_span"),
    sql=f"""
WITH slots AS (
    SELECT project, date, priority, us(created_at) - us(created_at) % {_SLOT_US} AS slot, count(*) AS messages,
        count(*) FILTER (WHERE first_waited_us > target_us) AS late, max(first_waited_us) AS worst_us,
        max(target_us) AS target_us, max(sustained_us) AS sustained_us
    FROM (
        SELECT *, {DELIVERY_TARGET_US} AS target_us, {SUSTAINED_US} AS sustained_us
        FROM {in_force("message", "created_at")}
        WHERE publish_path = 'pushed_to_ws' AND first_waited_us IS NOT NULL)
    GROUP BY ALL),
broken AS (SELECT *, late > messages * {_LATE_SHARE}::DOUBLE AS broken FROM slots),
begun AS (
    SELECT *, CASE WHEN broken AND (lag(broken) OVER in_order IS NULL OR NOT lag(broken) OVER in_order
        OR slot - lag(slot) OVER in_order - {_SLOT_US} >= sustained_us) THEN 1 ELSE 0 END AS begins
    FROM broken WINDOW in_order AS (PARTITION BY project, date, priority ORDER BY slot)),
runs AS (SELECT *, sum(begins) OVER (PARTITION BY project, date, priority ORDER BY slot) AS run FROM begun)
SELECT project, date, priority, stamp(min(slot)) AS began_at, stamp(max(slot) + {_SLOT_US}) AS ended_at,
    max(slot) + {_SLOT_US} - min(slot) AS lasted_us, sum(messages)::BIGINT AS messages, sum(late)::BIGINT AS late,
    max(worst_us) AS worst_us, max(target_us) AS target_us
FROM runs WHERE broken GROUP BY project, date, priority, run
HAVING max(slot) + {_SLOT_US} - min(slot) >= max(sustained_us)
""",
)

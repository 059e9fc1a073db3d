"""Refusals of a minute, per sender, type and code: rate limits and quotas, routing, validation (LIMINAL)."""

from tocsin.core.protocol.priority import Priority
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["REFUSAL"]

#: Error codes of an empty token bucket and of used-up quotas.
RATE_CODES = ("E_ADMISSION_001", "E_ADMISSION_002", "E_ADMISSION_003")

REFUSAL = View(
    name="refusal",
    layer="gold",
    about="Refusals of a minute, per sender, type and code.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the refusals, UTC."),
        ("minute", "timestamp", "Minute of the refusals."),
        ("sender", "string", "Agent whose send was refused."),
        ("message_type", "string", "Message type of the send."),
        ("code", "string", "Error code."),
        ("scope", "string", "`send` for a message, `copy` for one recipient of a broadcast."),
        ("refusals", "bigint", "Number of refusals."),
        ("rate_limited", "bigint", "Of those, by a rate limit or quota."),
        ("high", "bigint", "Of those, requested at Blocking or above; copies are not counted."),
        ("retry_after_max_us", "bigint", "Longest `retry_after` in a refusal, microseconds."),
    ),
    reads=("occurrence",),
    sql=f"""
SELECT project, date, minute_of(us) AS minute, sender, message_type, code, scope, count(*) AS refusals,
    count(*) FILTER (WHERE code IN ({", ".join(f"'{code}'" for code in RATE_CODES)})) AS rate_limited,
    count(*) FILTER (WHERE requested >= {int(Priority.BLOCKING)}) AS high,
    max(round(retry_after_s * 1000000)::BIGINT) AS retry_after_max_us
FROM (
    SELECT project, date, us, sender, message_type, code, 'send' AS scope, requested, retry_after_s
    FROM occurrence WHERE kind = 'SendRefused'
    UNION ALL
    SELECT project, date, us, sender, message_type, regexp_replace(unnest(failed), '^.*=', ''), 'copy', NULL, NULL
    FROM occurrence WHERE kind = 'BroadcastAccepted')
GROUP BY ALL
""",
)

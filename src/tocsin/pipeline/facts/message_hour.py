"""Messages of an hour by everything that people ask by: sender, recipient, type, priority, path, outcome, rule."""

from tocsin.pipeline.facts.histogram import bucket, measure
from tocsin.pipeline.facts.message_minute import UNKNOWN_PATH
from tocsin.pipeline.facts.policy_in_force import in_force
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Table

__all__ = ["MESSAGE_HOUR"]

_KEYS = (
    "project", "date", "hour", "sender", "recipient", "message_type", "requested", "priority", "rule", "publish_path",
    "state", "reason", "code", "ttl_us", "bound_us",
)  # fmt: skip
_RISES = "greatest(aging_top - priority, 0)"

MESSAGE_HOUR = Table(
    name="message_hour",
    layer="facts",
    about="Counts of the messages of an hour per sender, recipient, type, priority, rule, path, outcome and TTL.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of acceptance, UTC."),
        ("hour", "timestamp", "Hour of acceptance."),
        ("sender", "string", "Agent that sent them."),
        ("recipient", "string", "Agent that they are addressed to."),
        ("message_type", "string", "Message type."),
        ("requested", "int", "Priority requested, 0 (Info) to 4 (DirectorOverride)."),
        ("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
        ("rule", "string", "Rule that determined the priority granted."),
        ("publish_path", "string", "Publish path at send time; `unknown` for rows older than the field."),
        ("state", "string", "Current state."),
        ("reason", "string", "Reason of their expiry or last dead-lettering."),
        ("code", "string", "Error code of their last dead-lettering."),
        ("ttl_us", "bigint", "TTL at acceptance, microseconds; null if they were redriven, which sets a new one."),
        ("bound_us", "bigint", "Waiting time after which a message is overdue, microseconds; null if it does not age."),
        ("wait_bucket", "int", "Bucket of the time to the first offer; null without an offer."),
        ("end_bucket", "int", "Bucket of the time to an end without an offer; null if there was an offer."),
        ("reaction_bucket", "int", "Bucket of the time from delivery to ACK or processing; null without one."),
        ("messages", "bigint", "Number of messages accepted."),
        ("broadcast_copies", "bigint", "Of those, copies of broadcasts."),
        ("offered", "bigint", "Of those, offered at least once."),
        ("offers", "bigint", "Total number of offers."),
        ("requeued", "bigint", "Of those, requeued at least once."),
        ("requeues", "bigint", "Total number of requeues."),
        ("rejections", "bigint", "Total number of rejections (NACK)."),
        ("redriven", "bigint", "Of those, redriven at least once."),
        ("redrives", "bigint", "Total number of redrives."),
        ("purged", "bigint", "Of those, purged from the dead letters."),
        ("attempts", "bigint", "Total number of retries used."),
        ("boosted", "bigint", "Of those, boosted at least once."),
        ("boosts", "bigint", "Total number of boosts."),
        ("held_back", "bigint", "Of those, first offered later than at once."),
        ("over_bound", "bigint", "Of those, that waited longer than the bound."),
        ("over_bound_available", "bigint", "Of these, sent to a recipient that was available."),
        ("first_dead_at", "timestamp", "Time of the first dead-lettering."),
        ("last_dead_at", "timestamp", "Time of the last dead-lettering."),
        *(
            (f"{name}_{figure}_us", "bigint", f"{title} of the {about}, microseconds.")
            for name, about in {
                "wait": "times to the first offer",
                "end": "times to an end without an offer",
                "reaction": "times from delivery to ACK or processing",
            }.items()
            for figure, title in {"sum": "Sum", "min": "Smallest", "max": "Largest"}.items()
        ),
    ),
    reads=("message_life", "policy_span"),
    sql=f"""
SELECT {", ".join(_KEYS)}, {bucket("wait_us")} AS wait_bucket, {bucket("end_us")} AS end_bucket,
    {bucket("reaction_us")} AS reaction_bucket,
    count(*) AS messages, count(broadcast) AS broadcast_copies, count(*) FILTER (WHERE offers > 0) AS offered,
    sum(offers)::BIGINT AS offers, count(*) FILTER (WHERE requeues > 0) AS requeued, sum(requeues)::BIGINT AS requeues,
    sum(rejections)::BIGINT AS rejections, count(*) FILTER (WHERE redrives > 0) AS redriven,
    sum(redrives)::BIGINT AS redrives, count(purged_at) AS purged, sum(attempts)::BIGINT AS attempts,
    count(*) FILTER (WHERE boosts > 0) AS boosted, sum(boosts)::BIGINT AS boosts,
    count(*) FILTER (WHERE wait_us > 0) AS held_back,
    count(*) FILTER (WHERE coalesce(wait_us, end_us) > bound_us) AS over_bound,
    count(*) FILTER (WHERE coalesce(wait_us, end_us) > bound_us AND recipient_state = 'available')
        AS over_bound_available,
    min(dead_at) AS first_dead_at, max(dead_at) AS last_dead_at,
    {measure("wait")}, {measure("end")}, {measure("reaction")}
FROM (
    SELECT * REPLACE (coalesce(publish_path, '{UNKNOWN_PATH}') AS publish_path), hour_of(us(created_at)) AS hour,
        first_waited_us AS wait_us,
        CASE WHEN first_waited_us IS NULL
            THEN not_negative(us(coalesce(expired_at, recalled_at, dead_at)) - us(created_at)) END AS end_us,
        not_negative(us(least(acked_at, processed_at)) - us(delivered_at)) AS reaction_us,
        CASE WHEN redrives = 0 THEN us(expires_at) - us(created_at) END AS ttl_us,
        CASE WHEN aging_enabled AND priority <= aging_top
            THEN (ceil({_RISES} / aging_boost_levels)::BIGINT + 1) * aging_threshold_us END AS bound_us
    FROM {in_force("message", "created_at")})
GROUP BY ALL
""",
)

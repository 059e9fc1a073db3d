"""Waiting times for the leases that an agent requested in an hour."""

from tocsin.pipeline.facts.histogram import DISTRIBUTION, distribution_of
from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import Balance, View

__all__ = ["LEASE_WAIT"]

LEASE_WAIT = View(
    name="lease_wait",
    layer="gold",
    about="Waiting times for the leases that an agent requested in an hour.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the requests, UTC."),
        ("hour", "timestamp", "Hour of the requests."),
        ("agent", "string", "Agent that requested the leases."),
        ("leases", "bigint", "Number of leases requested and not refused at once."),
        ("granted", "bigint", "Of those, granted."),
        ("in_line", "bigint", "Of those, that were queued."),
        ("given_up", "bigint", "Of those, that left the queue without a grant."),
        ("lost", "bigint", "Of those granted, that were forced, broken by a deadlock, lapsed or reclaimed."),
        ("held_us", "bigint", "Total holding time of the ended leases, microseconds."),
        *DISTRIBUTION,
    ),
    reads=("lease_span",),
    sql=distribution_of(
        "(SELECT *, hour_of(us(asked_at)) AS hour FROM lease_span)",
        ("project", "date", "hour", "agent"),
        "waited_us",
        {
            "leases": "count(*)",
            "granted": "count(granted_at)",
            "in_line": "count(place)",
            "given_up": "count(*) FILTER (WHERE state = 'given_up')",
            "lost": "count(*) FILTER (WHERE granted_at IS NOT NULL AND end_reason IN "
            "('forced', 'deadlock', 'lapsed', 'reclaimed'))",
            "held_us": "coalesce(sum(held_us), 0)",
        },
    ),
    balance=Balance("leases", "lease_span"),
    by_day=False,
)

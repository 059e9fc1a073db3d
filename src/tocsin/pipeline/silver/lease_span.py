"""One row per lease: agent, resources, waiting time, holding time and end."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["LEASE_SPAN"]

LEASE_SPAN = View(
    name="lease_span",
    layer="silver",
    about="One row per lease: agent, resources, waiting time, holding time and end.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the request, UTC."),
        ("lease", "string", "Id of the lease."),
        ("agent", "string", "Agent that requested it."),
        ("exclusive", "array<string>", "Resources requested exclusively."),
        ("shared", "array<string>", "Resources requested shared."),
        ("level", "int", "Priority of the request, 0 (Info) to 4 (DirectorOverride)."),
        ("asked_at", "timestamp", "Time of the request."),
        ("granted_at", "timestamp", "Time of the grant; null if it was not granted."),
        ("ended_at", "timestamp", "Time at which its last resource was freed, or its request left the queue."),
        ("waited_us", "bigint", "Time in the queue, microseconds; 0 if it was granted at once."),
        ("held_us", "bigint", "Time from the grant to the end, microseconds."),
        ("place", "bigint", "Position in the queue when it joined; null if it was granted at once."),
        ("renewals", "bigint", "Number of renewals."),
        ("warnings", "bigint", "Number of expiry warnings to its holder."),
        (
            "end_reason",
            "string",
            "`released`, `forced`, `deadlock`, `retired`, `lapsed` or `reclaimed`; of a request also `timeout` and "
            "`cancelled`.",
        ),
        ("state", "string", "`waiting`, `held`, `ended`, or `given_up` if it left the queue without a grant."),
    ),
    reads=("occurrence",),
    sql="""
WITH ours AS (
    SELECT *, kind IN ('LeaseReleased', 'LeaseLapsed', 'LeaseReclaimed') AS freeing FROM occurrence
    WHERE kind LIKE 'Lease%'),
whole AS (
    SELECT project, lease, min(us) AS asked_us, min(us) FILTER (WHERE kind = 'LeaseGranted') AS granted_us,
        max(seq) FILTER (WHERE freeing) AS freed_seq, sum(CASE WHEN freeing THEN len(resources) ELSE 0 END) AS freed,
        max(seq) FILTER (WHERE kind = 'LeaseWaitEnded') AS left_seq,
        max(waited_us) FILTER (WHERE kind = 'LeaseGranted') AS granted_after_us,
        count(*) FILTER (WHERE kind = 'LeaseRenewed') AS renewals,
        count(*) FILTER (WHERE kind = 'LeaseExpiring') AS warnings
    FROM ours GROUP BY ALL),
asked AS (
    SELECT project, lease, date, coalesce(agent, holder) AS agent, exclusive, shared, level::INTEGER AS level, place
    FROM ours WHERE kind IN ('LeaseQueued', 'LeaseGranted')
    QUALIFY row_number() OVER (PARTITION BY project, lease ORDER BY seq) = 1),
ends AS (
    SELECT project, seq AS end_seq, us AS end_us, waited_us AS gave_up_after_us,
        CASE kind WHEN 'LeaseLapsed' THEN 'lapsed' WHEN 'LeaseReclaimed' THEN 'reclaimed' ELSE reason END AS end_reason
    FROM ours WHERE freeing OR kind = 'LeaseWaitEnded'),
spans AS (
    SELECT *, coalesce(left_seq, CASE WHEN freed >= len(exclusive) + len(shared) THEN freed_seq END) AS end_seq
    FROM asked JOIN whole USING (project, lease))
SELECT project, date, lease, agent, exclusive, shared, level, stamp(asked_us) AS asked_at,
    stamp(granted_us) AS granted_at, stamp(end_us) AS ended_at,
    coalesce(granted_after_us, gave_up_after_us) AS waited_us,
    CASE WHEN granted_us IS NOT NULL AND end_us IS NOT NULL THEN greatest(end_us - granted_us, 0) END AS held_us,
    place, renewals, warnings, end_reason,
    CASE WHEN granted_us IS NOT NULL AND end_us IS NOT NULL THEN 'ended' WHEN granted_us IS NOT NULL THEN 'held'
        WHEN end_us IS NOT NULL THEN 'given_up' ELSE 'waiting' END AS state
FROM spans LEFT JOIN ends USING (project, end_seq)
""",
    by_day=False,
)

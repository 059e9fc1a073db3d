"""Leases: one row per request that was granted or queued, from the request to the end."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["LEASE_SPAN"]

#: Kinds of events that free a held resource.
_FREEING = ("LeaseReleased", "LeaseLapsed", "LeaseReclaimed")
_KINDS = ("LeaseQueued", "LeaseGranted", "LeaseRenewed", "LeaseExpiring", "LeaseWaitEnded", *_FREEING)

_COLUMNS = columns(
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
)


def lease_span(event: DataFrame) -> DataFrame:
    """Join the events of each lease."""
    key = ["project", "lease"]
    kind = F.col("kind")
    ours = event.where(kind.isin(*_KINDS))
    freed = kind.isin(*_FREEING)
    whole = ours.groupBy(*key).agg(
        F.min("at").alias("asked_us"),
        F.min(F.when(kind == "LeaseGranted", F.col("at"))).alias("granted_us"),
        F.max(F.when(freed, F.col("seq"))).alias("freed_seq"),
        F.sum(F.when(freed, F.size("resources")).otherwise(0)).alias("freed"),
        F.max(F.when(kind == "LeaseWaitEnded", F.col("seq"))).alias("left_seq"),
        F.max(F.when(kind == "LeaseGranted", F.col("waited_us"))).alias("granted_after_us"),
        F.count_if(kind == "LeaseRenewed").alias("renewals"),
        F.count_if(kind == "LeaseExpiring").alias("warnings"),
    )
    asked = ours.where(kind.isin("LeaseQueued", "LeaseGranted")).select(
        *key,
        "seq",
        F.coalesce("agent", "holder").alias("agent"),
        "exclusive",
        "shared",
        "level",
        "place",
        "date",
    )
    first = asked.groupBy(*key).agg(F.min("seq").alias("seq"))
    ends = ours.where(freed | (kind == "LeaseWaitEnded")).select(
        "project",
        F.col("seq").alias("end_seq"),
        F.col("at").alias("end_us"),
        F.col("waited_us").alias("gave_up_after_us"),
        F.when(kind == "LeaseLapsed", "lapsed")
        .when(kind == "LeaseReclaimed", "reclaimed")
        .otherwise(F.col("reason"))
        .alias("end_reason"),
    )
    all_freed = F.col("freed") >= F.size("exclusive") + F.size("shared")
    spans = (
        asked.join(first, [*key, "seq"])
        .join(whole, key)
        .withColumn("end_seq", F.coalesce(F.col("left_seq"), F.when(all_freed, F.col("freed_seq"))))
        .join(ends, ["project", "end_seq"], "left")
    )
    granted = F.col("granted_us").isNotNull()
    ended = F.col("end_us").isNotNull()
    named = spans.withColumns(
        {
            "asked_at": F.timestamp_micros("asked_us"),
            "granted_at": F.timestamp_micros("granted_us"),
            "ended_at": F.timestamp_micros("end_us"),
            "waited_us": F.coalesce("granted_after_us", "gave_up_after_us"),
            "held_us": F.when(granted & ended, F.greatest(F.col("end_us") - F.col("granted_us"), F.lit(0))),
            "state": F.when(granted & ended, "ended")
            .when(granted, "held")
            .when(ended, "given_up")
            .otherwise("waiting"),
        }
    )
    return conform(named, _COLUMNS)


LEASE_SPAN = Table(
    name="lease_span",
    layer="silver",
    about="One row per lease: agent, resources, waiting time, holding time and end.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("event", Reach.PROJECT, _KINDS),),
    transform=lease_span,
)

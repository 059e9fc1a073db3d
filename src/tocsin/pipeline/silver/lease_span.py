"""Leases: one row per request that was granted or stood in line, from asking to the end."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["LEASE_SPAN"]

#: What frees something that was held.
_FREEING = ("LeaseReleased", "LeaseLapsed", "LeaseReclaimed")
_KINDS = ("LeaseQueued", "LeaseGranted", "LeaseRenewed", "LeaseExpiring", "LeaseWaitEnded", *_FREEING)

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which it was asked for, UTC."),
    ("lease", "string", "The lease."),
    ("agent", "string", "Who asked for it."),
    ("exclusive", "array<string>", "What it is of, for itself alone."),
    ("shared", "array<string>", "What it is of, shared."),
    ("level", "int", "Priority that it was asked for at."),
    ("asked_at", "timestamp", "When it was asked for."),
    ("granted_at", "timestamp", "When it was granted; null where it was not."),
    ("ended_at", "timestamp", "When the last of it was free again, or its request left the line."),
    ("waited_us", "bigint", "Time in line, microseconds; 0 where it was granted at once."),
    ("held_us", "bigint", "Time from the grant to the end, microseconds."),
    ("place", "bigint", "Place in line when it joined it; null where it was granted at once."),
    ("renewals", "bigint", "Times that its holder renewed it."),
    ("warnings", "bigint", "Times that its holder was warned of its end."),
    (
        "end_reason",
        "string",
        "`released`, `forced`, `deadlock`, `retired`, `lapsed` or `reclaimed`; of a request also `timeout` and "
        "`cancelled`.",
    ),
    ("state", "string", "`waiting`, `held`, `ended`, or `given_up` where it was never granted."),
)


def lease_span(event: DataFrame) -> DataFrame:
    """Join what happened to each lease."""
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
    about="One row per lease: who asked for what, how long it waited, how long it was held, and how it ended.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("event", Reach.PROJECT, _KINDS),),
    transform=lease_span,
)

"""Sessions: one row each, from opening to close, with the times in which they were stale.

Theory of operation. There are many heartbeats and sessions last for days, so they are never read all at once: a day's
events become one row per session and day (`session_day`), and the few rows of a session become one row
(`agent_session`). A stale session is live again with its next heartbeat; if none comes before midnight, the first
heartbeat or close of a later day ends the stale time.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["AGENT_SESSION", "SESSION_DAY"]

_KINDS = ("SessionOpened", "SessionHeartbeat", "SessionWentStale", "SessionClosed")

_DAY_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "The day, UTC."),
    ("session", "string", "The session."),
    ("agent", "string", "Agent of the session; null on a day on which it was not opened, closed or stale."),
    ("session_kind", "string", "`push`, `piggyback` or `daemon`; null unless it was opened on this day."),
    ("window", "bigint", "Largest number of unconfirmed offers; null unless it was opened on this day."),
    ("opened_us", "bigint", "Time of opening, if on this day, microseconds since the epoch."),
    ("closed_us", "bigint", "Time of its end, if on this day, microseconds since the epoch."),
    ("close_reason", "string", "`closed`, `lapsed` or `retired`, if on this day."),
    ("heartbeats", "bigint", "Number of heartbeats recorded on this day."),
    ("first_heartbeat_us", "bigint", "Time of the first heartbeat, microseconds since the epoch."),
    ("last_heartbeat_us", "bigint", "Time of the last heartbeat, microseconds since the epoch."),
    ("stale_from_us", "array<bigint>", "Times at which it went stale on this day, microseconds since the epoch."),
    ("stale_to_us", "array<bigint>", "End of each stale time; null if not on this day; microseconds since the epoch."),
)


def session_day(event: DataFrame) -> DataFrame:
    """Aggregate each session's events of a day."""
    key = ["project", "date", "session"]
    ours = event.where(F.col("kind").isin(*_KINDS))
    beats = (
        ours.where(F.col("kind") == "SessionHeartbeat")
        .groupBy(*key)
        .agg(
            F.count(F.lit(1)).alias("heartbeats"),
            F.min("at").alias("first_heartbeat_us"),
            F.max("at").alias("last_heartbeat_us"),
        )
    )
    opened = ours.where(F.col("kind") == "SessionOpened").select(
        *key, "agent", "session_kind", "window", F.col("at").alias("opened_us")
    )
    closed = ours.where(F.col("kind") == "SessionClosed").select(
        *key,
        F.col("agent").alias("_closed_agent"),
        F.col("at").alias("closed_us"),
        F.col("reason").alias("close_reason"),
    )
    gathered = (
        beats.join(opened, key, "full")
        .join(closed, key, "full")
        .join(_stale_times(ours, key), key, "full")
        .withColumns(
            {
                "agent": F.coalesce("agent", "_closed_agent", "_stale_agent"),
                "heartbeats": F.coalesce("heartbeats", F.lit(0)),
                "stale_from_us": F.coalesce("stale_from_us", F.array().cast("array<bigint>")),
                "stale_to_us": F.coalesce("stale_to_us", F.array().cast("array<bigint>")),
            }
        )
    )
    return conform(gathered, _DAY_COLUMNS)


def _stale_times(ours: DataFrame, key: list[str]) -> DataFrame:
    """Return when sessions went stale, and the time of their next event."""
    missed = ours.where(F.col("kind") == "SessionWentStale").select(*key).distinct()
    next_us = F.lead("at").over(Window.partitionBy(*key).orderBy("seq"))
    return (
        ours.join(F.broadcast(missed), key, "leftsemi")
        .withColumn("to_us", next_us)
        .where(F.col("kind") == "SessionWentStale")
        .groupBy(*key)
        .agg(
            F.first("agent").alias("_stale_agent"),
            F.sort_array(F.collect_list(F.struct("seq", "at", "to_us"))).alias("_spans"),
        )
        .withColumn("stale_from_us", F.col("_spans.at"))
        .withColumn("stale_to_us", F.col("_spans.to_us"))
        .drop("_spans")
    )


_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which it was opened, UTC."),
    ("session", "string", "The session."),
    ("agent", "string", "Agent of the session."),
    ("session_kind", "string", "`push`, `piggyback` or `daemon`."),
    ("window", "bigint", "Largest number of unconfirmed offers."),
    ("opened_at", "timestamp", "Time of opening."),
    ("closed_at", "timestamp", "Time of its end; null while it is open."),
    ("close_reason", "string", "`closed` by the agent, `lapsed` without heartbeats, or `retired` with its agent."),
    ("state", "string", "`live`, `stale` or `closed`."),
    ("heartbeats", "bigint", "Number of heartbeats recorded."),
    ("last_heartbeat_at", "timestamp", "Time of the last heartbeat."),
    ("stales", "bigint", "Number of times it went stale."),
    ("stale_us", "bigint", "Total length of its ended stale times, microseconds."),
    ("stale_from", "array<timestamp>", "Times at which it went stale, in order."),
    ("stale_to", "array<timestamp>", "Times at which each of them ended; null for one that lasts."),
)


def agent_session(session_day: DataFrame) -> DataFrame:
    """Join the days of each session."""
    key = ["project", "session"]
    later = Window.partitionBy(*key).orderBy("date").rowsBetween(1, Window.unboundedFollowing)
    next_us = F.least("first_heartbeat_us", "closed_us")
    days = session_day.withColumn("next_us", F.first(next_us, ignorenulls=True).over(later))
    days = days.withColumn(
        "spans",
        F.zip_with(
            "stale_from_us",
            "stale_to_us",
            lambda start, end: F.struct(start.alias("start"), F.coalesce(end, F.col("next_us")).alias("end")),
        ),
    )
    opened = days.where(F.col("opened_us").isNotNull()).select(
        *key, "date", "agent", "session_kind", "window", "opened_us"
    )
    closed = days.where(F.col("closed_us").isNotNull()).select(*key, "closed_us", "close_reason")
    totals = days.groupBy(*key).agg(
        F.sum("heartbeats").alias("heartbeats"),
        F.max("last_heartbeat_us").alias("last_us"),
        F.flatten(F.sort_array(F.collect_list(F.struct("date", "spans")))["spans"]).alias("spans"),
    )
    whole = opened.join(totals, key).join(closed, key, "left")
    lengths = F.transform("spans", lambda span: F.greatest(F.coalesce(span["end"] - span["start"], F.lit(0)), F.lit(0)))
    named = whole.withColumns(
        {
            "opened_at": F.timestamp_micros("opened_us"),
            "closed_at": F.timestamp_micros("closed_us"),
            "last_heartbeat_at": F.timestamp_micros("last_us"),
            "state": F.when(F.col("closed_us").isNotNull(), "closed")
            .when(F.size("spans") > F.size(F.filter("spans", lambda span: span["end"].isNotNull())), "stale")
            .otherwise("live"),
            "stales": F.size("spans"),
            "stale_us": F.aggregate(lengths, F.lit(0).cast("bigint"), lambda total, length: total + length),
            "stale_from": F.transform("spans", lambda span: F.timestamp_micros(span["start"])),
            "stale_to": F.transform("spans", lambda span: F.timestamp_micros(span["end"])),
        }
    )
    return conform(named, _COLUMNS)


SESSION_DAY = Table(
    name="session_day",
    layer="silver",
    about="One row per session and day with events; input of `agent_session`.",
    columns=_DAY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=_KINDS),),
    transform=session_day,
)
AGENT_SESSION = Table(
    name="agent_session",
    layer="silver",
    about="One row per session: agent, kind, opening, end and stale times.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("session_day", Reach.PROJECT),),
    transform=agent_session,
)

"""Sessions: one row each, from opening to end, with the times in which they were stale.

Theory of operation. Heartbeats are many and sessions last for days, so nothing looks at all of them at once: a day's
events become one row per session and day (`session_day`), and the few rows of a session become its life
(`agent_session`). A session that went stale is fresh again with its next heartbeat; where none comes before midnight,
the first sign of a later day ends the stale time.
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
    ("agent", "string", "Whose it is; null on a day that neither opened, closed nor missed it."),
    ("session_kind", "string", "`push`, `piggyback` or `daemon`; null unless opened on this day."),
    ("window", "bigint", "Offers without receipt that it takes at a time; null unless opened on this day."),
    ("opened_us", "bigint", "When it was opened, if on this day, microseconds since the epoch."),
    ("closed_us", "bigint", "When it ended, if on this day, microseconds since the epoch."),
    ("close_reason", "string", "`closed`, `lapsed` or `retired`, if on this day."),
    ("heartbeats", "bigint", "Heartbeats recorded on this day."),
    ("first_heartbeat_us", "bigint", "The first of them, microseconds since the epoch."),
    ("last_heartbeat_us", "bigint", "The last of them, microseconds since the epoch."),
    ("stale_from_us", "array<bigint>", "When it went stale on this day, in order, microseconds since the epoch."),
    ("stale_to_us", "array<bigint>", "When each of those ended: by a heartbeat or its close; null when not that day."),
)


def session_day(event: DataFrame) -> DataFrame:
    """Gather each session's events of a day."""
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
    """Find out when the few sessions that went stale did, and when the next sign of them came."""
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
    ("agent", "string", "Whose it is."),
    ("session_kind", "string", "`push`, `piggyback` or `daemon`."),
    ("window", "bigint", "Offers without receipt that it takes at a time."),
    ("opened_at", "timestamp", "When it was opened."),
    ("closed_at", "timestamp", "When it ended; null while it lasts."),
    ("close_reason", "string", "`closed` by the agent, `lapsed` without heartbeat, or `retired` with its agent."),
    ("state", "string", "`live`, `stale` or `closed`."),
    ("heartbeats", "bigint", "Heartbeats recorded."),
    ("last_heartbeat_at", "timestamp", "The last of them."),
    ("stales", "bigint", "How often it went stale."),
    ("stale_us", "bigint", "Time that it was stale and came back or ended, microseconds."),
    ("stale_from", "array<timestamp>", "When it went stale, in order."),
    ("stale_to", "array<timestamp>", "When each of those times ended; null for one that lasts."),
)


def agent_session(session_day: DataFrame) -> DataFrame:
    """Join a session's days to its life."""
    key = ["project", "session"]
    later = Window.partitionBy(*key).orderBy("date").rowsBetween(1, Window.unboundedFollowing)
    sign_us = F.least("first_heartbeat_us", "closed_us")
    days = session_day.withColumn("sign_us", F.first(sign_us, ignorenulls=True).over(later))
    days = days.withColumn(
        "spans",
        F.zip_with(
            "stale_from_us",
            "stale_to_us",
            lambda start, end: F.struct(start.alias("start"), F.coalesce(end, F.col("sign_us")).alias("end")),
        ),
    )
    opened = days.where(F.col("opened_us").isNotNull()).select(
        *key, "date", "agent", "session_kind", "window", "opened_us"
    )
    closed = days.where(F.col("closed_us").isNotNull()).select(*key, "closed_us", "close_reason")
    lives = days.groupBy(*key).agg(
        F.sum("heartbeats").alias("heartbeats"),
        F.max("last_heartbeat_us").alias("last_us"),
        F.flatten(F.sort_array(F.collect_list(F.struct("date", "spans")))["spans"]).alias("spans"),
    )
    whole = opened.join(lives, key).join(closed, key, "left")
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
    about="One row per session and day with events of it: what `agent_session` is put together from.",
    columns=_DAY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("event", kinds=_KINDS),),
    transform=session_day,
)
AGENT_SESSION = Table(
    name="agent_session",
    layer="silver",
    about="One row per session: who, what kind, from when to when, and when it was stale.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("session_day", Reach.PROJECT),),
    transform=agent_session,
)

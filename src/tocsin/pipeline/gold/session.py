"""Attached sessions: live and stale sessions per kind, and per agent whether its daemon was attached (SPEC-071 §11).

A daemon is `live` while it sends heartbeats and `stale` once it has missed them. A daemon that shuts down closes its
session at once, so there is no state in between.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["AGENT_ATTACHMENT", "SESSION_COUNT"]

_COUNT_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "The day, UTC."),
    ("minute", "timestamp", "A minute with a change; between two rows the counts are constant."),
    ("session_kind", "string", "`push`, `piggyback` or `daemon`."),
    ("opened", "bigint", "Sessions opened in the minute."),
    ("closed", "bigint", "Sessions ended in the minute."),
    ("went_stale", "bigint", "Sessions that went stale in the minute."),
    ("live", "bigint", "Live sessions at the end of the minute."),
    ("stale", "bigint", "Stale sessions at the end of the minute."),
)


def session_count(agent_session: DataFrame) -> DataFrame:
    """Count the sessions of each kind at the end of every minute in which they changed."""
    key = ("project", "session_kind")
    changes = (
        _changes(agent_session)
        .groupBy(*key, "minute")
        .agg(
            F.count_if(F.col("what") == "opened").alias("opened"),
            F.count_if(F.col("what") == "closed").alias("closed"),
            F.count_if(F.col("what") == "stale").alias("went_stale"),
            F.sum("live").alias("live"),
            F.sum("stale").alias("stale"),
        )
    )
    so_far = Window.partitionBy(*key).orderBy("minute").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = changes.withColumns(
        {
            "live": F.sum("live").over(so_far),
            "stale": F.sum("stale").over(so_far),
            "date": F.to_date("minute"),
        }
    )
    return conform(counted, _COUNT_COLUMNS)


def _changes(agent_session: DataFrame) -> DataFrame:
    """Return one row per change of a session: time, kind of change, and the change of the live and stale counts."""
    went_stale = F.transform("stale_from", lambda at: _change(at, "stale", -1, 1))
    # A stale time that has not ended has no change back.
    came_back = F.transform(F.filter("stale_to", lambda at: at.isNotNull()), lambda at: _change(at, "fresh", 1, -1))
    ends = F.array(_change(F.col("opened_at"), "opened", 1, 0), _change(F.col("closed_at"), "closed", -1, 0))
    return (
        agent_session.select("project", "agent", "session_kind", F.inline(F.concat(ends, went_stale, came_back)))
        .where(F.col("at").isNotNull())
        .withColumn("minute", F.date_trunc("minute", "at"))
    )


def _change(at: Column, what: str, live: int, stale: int) -> Column:
    return F.struct(at.alias("at"), F.lit(what).alias("what"), F.lit(live).alias("live"), F.lit(stale).alias("stale"))


_ATTACHMENT_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "The day, UTC."),
    ("minute", "timestamp", "A minute with a change; between two rows the counts are constant."),
    ("agent", "string", "The agent."),
    ("shims", "bigint", "Live push and piggyback sessions at the end of the minute."),
    ("daemons", "bigint", "Live daemons at the end of the minute."),
    ("stale_daemons", "bigint", "Stale daemons at the end of the minute."),
    ("attachment", "string", "`attached` with a live daemon, `daemonless` with other sessions only, else `absent`."),
)


def agent_attachment(agent_session: DataFrame) -> DataFrame:
    """Return for each agent whether it had a daemon, at the end of every minute in which its sessions changed."""
    daemon = F.col("session_kind") == "daemon"
    key = ("project", "agent")
    changes = (
        _changes(agent_session)
        .groupBy(*key, "minute")
        .agg(
            F.sum(F.when(~daemon, F.col("live")).otherwise(0)).alias("shims"),
            F.sum(F.when(daemon, F.col("live")).otherwise(0)).alias("daemons"),
            F.sum(F.when(daemon, F.col("stale")).otherwise(0)).alias("stale_daemons"),
        )
    )
    so_far = Window.partitionBy(*key).orderBy("minute").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counts = {name: F.sum(name).over(so_far) for name in ("shims", "daemons", "stale_daemons")}
    attached = changes.withColumns({**counts, "date": F.to_date("minute")}).withColumn(
        "attachment",
        F.when(F.col("daemons") > 0, "attached").when(F.col("shims") > 0, "daemonless").otherwise("absent"),
    )
    return conform(attached, _ATTACHMENT_COLUMNS)


SESSION_COUNT = Table(
    name="session_count",
    layer="gold",
    about="Live and stale sessions at the end of a minute, per kind of session.",
    columns=_COUNT_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("agent_session", Reach.PROJECT),),
    transform=session_count,
)
AGENT_ATTACHMENT = Table(
    name="agent_attachment",
    layer="gold",
    about="Whether an agent had a live daemon at the end of a minute.",
    columns=_ATTACHMENT_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("agent_session", Reach.PROJECT),),
    transform=agent_attachment,
)

"""Figures for the advice rules: gold tables summed over the chosen days.

Sums are computed in Spark; the result has one row per type, priority, code or agent.
"""

from collections.abc import Callable
from datetime import date
from typing import Any

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import combined

__all__ = ["Figures", "Row", "gather"]

Row = dict[str, Any]
_LEVELS = ("info", "coordinate", "blocking", "critical", "director_override")


class Figures(msgspec.Struct, frozen=True):
    """The figures of one project."""

    #: `ttl_use` by type and TTL.
    ttls: list[Row] = []
    #: `late_pickup` by type and TTL.
    late: list[Row] = []
    #: `aging_wait` by priority.
    waits: list[Row] = []
    #: `refusal` by code.
    refusals: list[Row] = []
    #: `traffic` by level.
    accepted: dict[str, int] = {}
    #: `priority_mix` by agent.
    mixes: list[Row] = []
    #: `level_use` by type and requested priority.
    levels: list[Row] = []
    #: `recipient_load` by recipient.
    loads: list[Row] = []
    #: `retry` by type.
    retries: list[Row] = []
    #: `processing_latency` by type.
    processing: list[Row] = []
    #: `decay_rate` in one row, or none.
    rates: list[Row] = []


def gather(
    read: Callable[[str], DataFrame], project: str, since: date | None = None, until: date | None = None
) -> Figures:
    """Sum a project's tables over the days from `since` to `until`."""

    def table(name: str) -> DataFrame:
        rows = read(name).where(F.col("project") == project)
        if "date" in rows.columns:
            rows = rows.where(F.col("date") >= F.lit(since)) if since is not None else rows
            rows = rows.where(F.col("date") <= F.lit(until)) if until is not None else rows
        return rows

    def sums(*names: str) -> dict[str, Any]:
        return {name: F.sum(name) for name in names}

    traffic = table("traffic").agg(*(F.sum(name).alias(name) for name in _LEVELS))
    return Figures(
        ttls=_rows(
            combined(table("ttl_use"), ["message_type", "ttl_us"], **sums("messages", "expired", "stale", "waiting"))
        ),
        late=_rows(table("late_pickup")),
        waits=_rows(
            combined(
                table("aging_wait"),
                ["priority"],
                **sums("messages", "boosted", "boosts", "over_bound", "over_bound_available"),
                bound_us=F.max("bound_us"),
            )
        ),
        refusals=_rows(
            table("refusal")
            .where(F.col("scope") == "send")
            .groupBy("code")
            .agg(F.sum("refusals").alias("refusals"), F.count_distinct("sender").alias("senders"))
        ),
        accepted={name: count or 0 for name, count in _rows(traffic)[0].items()},
        mixes=_rows(
            table("priority_mix")
            .groupBy("agent")
            .agg(
                F.count(F.lit(1)).alias("windows"),
                F.count_if("over").alias("over"),
                F.sum("messages").alias("messages"),
                F.sum("high").alias("high"),
            )
        ),
        levels=_rows(
            combined(table("level_use"), ["message_type", "requested"], **sums("messages", "by_default", "lowered"))
        ),
        loads=_rows(combined(table("recipient_load"), ["recipient"], **sums("messages", "held_back"))),
        retries=_rows(
            table("retry")
            .groupBy("message_type")
            .agg(*(F.sum(name).alias(name) for name in ("messages", "requeued", "requeues", "dead")))
        ),
        processing=_rows(
            combined(
                table("processing_latency"),
                ["message_type"],
                **sums("messages", "decaying", "decay_rate_sum_ppm", "stale"),
            )
        ),
        rates=_rows(_rates(table("decay_rate"))),
    )


def _rates(changes: DataFrame) -> DataFrame:
    """Count changes of the decay rate, and those that reverse the previous one."""
    rises = (F.col("new_rate") > F.col("old_rate")).cast("int")
    before = F.lag(rises).over(Window.partitionBy("project").orderBy("seq"))
    return (
        changes.withColumn("reversal", rises != before)
        .groupBy("project")
        .agg(
            F.count(F.lit(1)).alias("changes"),
            F.count_if("reversal").alias("reversals"),
            F.max("new_rate").alias("highest"),
            (F.max(F.unix_micros("changed_at")) - F.min(F.unix_micros("changed_at"))).alias("span_us"),
        )
        .drop("project")
    )


def _rows(frame: DataFrame) -> list[Row]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: str(list(row.values())[:2]))

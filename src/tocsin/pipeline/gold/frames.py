"""Dropped frames per subscriber priority, and effectiveness of load shedding (FRAMES)."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.balance import counts_kinds
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["FRAME_DROP", "LOAD_SHEDDING"]

_PRIORITIES = ("critical", "high", "normal", "best_effort")
_INPUT = Input("event", kinds=("FramesShed",))

_DROP_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the reports, UTC."),
    ("minute", "timestamp", "Minute of the reports."),
    ("subscriber_priority", "string", "Priority of the subscribers: `critical`, `high`, `normal` or `best_effort`."),
    ("reports", "bigint", "Number of reports in the minute."),
    ("published", "bigint", "Frames published in the time that the reports cover."),
    ("offered", "bigint", "Frames addressed to these subscribers; a frame counts once per subscriber."),
    ("dropped", "bigint", "Of those, dropped."),
    ("shed", "bigint", "Of those, dropped to protect more important subscribers."),
    ("drop_share", "double", "`dropped` divided by `offered`; should be 0 for critical subscribers."),
)


def frame_drop(event: DataFrame) -> DataFrame:
    """Sum a minute's reports per priority."""
    summed = _summed(event, "subscriber_priority")
    return conform(summed.withColumn("drop_share", F.col("dropped") / F.col("offered")), _DROP_COLUMNS)


def _summed(event: DataFrame, *more: str) -> DataFrame:
    return (
        event.where(F.col("kind") == "FramesShed")
        .withColumn("minute", F.date_trunc("minute", F.timestamp_micros("at")))
        .groupBy("project", "date", "minute", *more)
        .agg(
            F.count(F.lit(1)).alias("reports"),
            *(F.sum(name).alias(name) for name in ("published", "offered", "dropped", "shed")),
            *(_of(name, priority) for priority in _PRIORITIES for name in ("offered", "dropped")),
        )
    )


def _of(name: str, priority: str) -> Column:
    """Sum a count over the reports of one priority."""
    return F.sum(F.when(F.col("subscriber_priority") == priority, F.col(name))).alias(f"{priority}_{name}")


_SHEDDING_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of the reports, UTC."),
    ("minute", "timestamp", "Minute of the reports."),
    ("offered", "bigint", "Frames addressed to any subscriber; a frame counts once per subscriber."),
    ("dropped", "bigint", "Of those, dropped."),
    ("shed", "bigint", "Of those, dropped to protect more important subscribers."),
    ("drop_share", "double", "`dropped` divided by `offered`."),
    *(
        (f"{name}_drop_share", "double", f"The same for {name} subscribers; null if there are none.")
        for name in _PRIORITIES
    ),
    (
        "effectiveness",
        "double",
        "1 minus the drop share of the most important subscribers divided by that of all: 1 if they lost nothing, 0 if "
        "they lost as much as all, below 0 if more; null if nothing was dropped.",
    ),
    ("in_order", "boolean", "Whether no priority lost a larger share than a lower one."),
)


def load_shedding(event: DataFrame) -> DataFrame:
    """Compare drops across priorities, minute by minute."""
    shares = {
        f"{name}_drop_share": F.col(f"{name}_dropped") / F.when(F.col(f"{name}_offered") > 0, F.col(f"{name}_offered"))
        for name in _PRIORITIES
    }
    share = F.when(F.col("offered") > 0, F.col("dropped") / F.col("offered"))
    rated = _summed(event).withColumns({**shares, "drop_share": share})
    known = F.filter(F.array(*(F.col(name) for name in shares)), lambda value: value.isNotNull())
    compared = rated.withColumns(
        {
            "effectiveness": F.when(F.col("dropped") > 0, 1 - F.get(known, F.lit(0)) / F.col("drop_share")),
            "in_order": known == F.array_sort(known),
        }
    )
    return conform(compared, _SHEDDING_COLUMNS)


FRAME_DROP = Table(
    name="frame_drop",
    layer="gold",
    about="Dropped frames of a minute, per subscriber priority.",
    columns=_DROP_COLUMNS,
    grain=Grain.DAY,
    inputs=(_INPUT,),
    transform=frame_drop,
    balance=counts_kinds("reports", "FramesShed"),
)
LOAD_SHEDDING = Table(
    name="load_shedding",
    layer="gold",
    about="Drop shares of a minute by subscriber priority, and effectiveness of load shedding.",
    columns=_SHEDDING_COLUMNS,
    grain=Grain.DAY,
    inputs=(_INPUT,),
    transform=load_shedding,
)

"""Queue depth per minute and level, reconstructed from messages and events.

Theory of operation. A message is in its mailbox from acceptance to offer, and again after each requeue; not during a
retry's backoff, nor while it is held for an approval. Its level is the priority granted plus boosts by aging or an
escalation; inherited priority is not counted (`inversion` has it). Most messages enter once and leave once, at the
priority granted: their row in `message_life` is enough. Those that were held, boosted, requeued or redriven are
followed event by event, because their level changes. The changes of a day are summed per second, then per minute
(`queue_flow`), with the highest running total of the minute; running totals over all minutes are the depths
(`queue_depth`). A message that enters and leaves within one second counts in `entered` and `left`, but not in the peak.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["QUEUE_DEPTH", "QUEUE_FLOW"]

_SECOND_US = 1_000_000
_MINUTE_US = 60 * _SECOND_US
#: Kinds of events that move a message into or out of its mailbox, or to another level.
_KINDS = (
    "MessageAccepted",
    "MessageReleased",
    "MessageOffered",
    "MessageDelivered",
    "MessageRequeued",
    "MessageReady",
    "MessageExpired",
    "MessageRecalled",
    "MessageBoosted",
    "MessageDied",
    "DeadLetterRedriven",
)

_FLOW_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "The day, UTC."),
    ("minute", "timestamp", "The minute."),
    ("level", "int", "Priority granted plus boosts, 0 (Info) to 4 (DirectorOverride)."),
    ("entered", "bigint", "Number of times a message entered this level of a mailbox."),
    ("left", "bigint", "Number of times a message left it."),
    ("peak", "bigint", "Highest `entered` minus `left` since the start of the minute, per second; at least 0."),
)


def queue_flow(message_life: DataFrame, event: DataFrame) -> DataFrame:
    """Count the messages that entered and left each level in each minute."""
    followed = _needs_events()
    simple, others = message_life.where(~followed), message_life.where(followed)
    steps = _changes_of_simple(simple).unionByName(_changes_of_others(others, event))
    second_us = F.col("at") - F.col("at") % _SECOND_US
    seconds = steps.groupBy("project", "level", second_us.alias("second_us")).agg(
        F.count_if(F.col("step") > 0).alias("entered"), F.count_if(F.col("step") < 0).alias("left")
    )
    minute_us = F.col("second_us") - F.col("second_us") % _MINUTE_US
    so_far = (
        Window.partitionBy("project", "level", "minute_us")
        .orderBy("second_us")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    minutes = (
        seconds.withColumn("minute_us", minute_us)
        .withColumn("running", F.sum(F.col("entered") - F.col("left")).over(so_far))
        .groupBy("project", "level", "minute_us")
        .agg(
            F.sum("entered").alias("entered"),
            F.sum("left").alias("left"),
            F.greatest(F.max("running"), F.lit(0)).alias("peak"),
        )
        .withColumn("minute", F.timestamp_micros("minute_us"))
        .withColumn("date", F.to_date("minute"))
    )
    return conform(minutes, _FLOW_COLUMNS)


def _needs_events() -> Column:
    """Return the condition for messages that were held, boosted, requeued or redriven, whose events are needed."""
    held = F.coalesce(F.col("held") != "", F.lit(False))
    raised = F.coalesce(F.col("level") != F.col("priority"), F.lit(False))
    return held | raised | (F.col("requeues") > 0) | (F.col("redrives") > 0)


def _changes_of_simple(messages: DataFrame) -> DataFrame:
    """Return the entering and leaving of messages that entered once."""
    left_at = F.coalesce("first_offered_at", "expired_at", "recalled_at", "dead_at")
    steps = F.array(
        F.struct(F.unix_micros("created_at").alias("at"), F.lit(1).alias("step")),
        F.struct(F.unix_micros(left_at).alias("at"), F.lit(-1).alias("step")),
    )
    return messages.select("project", F.col("priority").cast("bigint").alias("level"), F.inline(steps)).where(
        F.col("at").isNotNull()
    )


def _changes_of_others(messages: DataFrame, event: DataFrame) -> DataFrame:
    """Return the entering and leaving of messages that changed their level or entered several times."""
    kind = F.col("kind")
    followed = messages.select("project", "message", F.col("priority").cast("bigint").alias("granted"))
    happened = event.where(kind.isin(*_KINDS)).select(
        "project",
        F.coalesce("message", F.when(kind == "MessageAccepted", F.col("seq"))).alias("message"),
        "seq",
        "at",
        "kind",
        "held",
        "ready_at",
        F.coalesce("own_level", "new_level").alias("raised_to"),
    )
    level = F.when(kind.isin("MessageAccepted", "DeadLetterRedriven"), F.col("granted")).when(
        kind == "MessageBoosted", F.col("raised_to")
    )
    waits = (
        F.when(kind == "MessageAccepted", F.coalesce(F.col("held") == "", F.lit(True)))
        .when(kind.isin("MessageReleased", "MessageReady", "DeadLetterRedriven"), True)
        .when(kind == "MessageRequeued", F.col("ready_at") <= F.col("at"))
        .when(kind != "MessageBoosted", False)
    )
    in_order = Window.partitionBy("project", "message").orderBy("seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    places = (
        happened.join(followed, ["project", "message"])
        .withColumn("at_level", F.last(level, ignorenulls=True).over(so_far))
        .withColumn("waits", F.last(waits, ignorenulls=True).over(so_far))
        .withColumn("was_at_level", F.lag("at_level").over(in_order))
        .withColumn("waited", F.coalesce(F.lag("waits").over(in_order), F.lit(False)))
    )
    moved = places.where(
        (F.col("waits") != F.col("waited")) | (F.col("waits") & (F.col("at_level") != F.col("was_at_level")))
    )
    steps = F.array(
        F.struct(F.when(F.col("waited"), F.col("was_at_level")).alias("level"), F.lit(-1).alias("step")),
        F.struct(F.when(F.col("waits"), F.col("at_level")).alias("level"), F.lit(1).alias("step")),
    )
    return moved.select("project", "at", F.inline(steps)).where(F.col("level").isNotNull())


_DEPTH_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "The day, UTC."),
    ("minute", "timestamp", "A minute with a change; between two rows the depth is constant."),
    ("level", "int", "Priority granted plus boosts, 0 (Info) to 4 (DirectorOverride)."),
    ("depth_start", "bigint", "Messages waiting at the start of the minute."),
    ("depth_max", "bigint", "Largest number of messages waiting in the minute, per second."),
    ("depth_end", "bigint", "Messages waiting at the end of the minute."),
)


def queue_depth(queue_flow: DataFrame) -> DataFrame:
    """Sum the changes to depths."""
    before = Window.partitionBy("project", "level").orderBy("minute").rowsBetween(Window.unboundedPreceding, -1)
    depths = (
        queue_flow.withColumn("depth_start", F.coalesce(F.sum(F.col("entered") - F.col("left")).over(before), F.lit(0)))
        .withColumn("depth_max", F.col("depth_start") + F.col("peak"))
        .withColumn("depth_end", F.col("depth_start") + F.col("entered") - F.col("left"))
    )
    return conform(depths, _DEPTH_COLUMNS)


QUEUE_FLOW = Table(
    name="queue_flow",
    layer="gold",
    about="Messages that entered and left a level of any mailbox in a minute; input of `queue_depth`.",
    columns=_FLOW_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life", Reach.ALIVE), Input("event", Reach.ALIVE, _KINDS)),
    transform=queue_flow,
)
QUEUE_DEPTH = Table(
    name="queue_depth",
    layer="gold",
    about="Number of waiting messages at the start, peak and end of a minute, per level.",
    columns=_DEPTH_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("queue_flow", Reach.PROJECT),),
    transform=queue_depth,
)

"""Threads: one row each, from the opening message to the answer (assignment, updates, completion; request, response).

Theory of operation. A message belongs to the thread that the last opening message with its correlationId opened, at or
before it; an id may be used again once its thread is forgotten. A thread may span days, so a day's messages first
become one row per thread and pair of agents (`thread_day`), where messages before the day's first opening have no
thread yet; then the rows of all days become threads (`thread`). A request is completed when its opening message is
processed: the exchange decides which answer means that, and payloads are not read. ACKs and NACKs are not answers.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["THREAD", "THREAD_DAY"]

_DAY_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("correlation_id", "string", "correlationId of the thread."),
    ("opener", "bigint", "Number of the message that opened the thread on this day; null if opened earlier."),
    ("sender", "string", "Agent that sent the messages of this row."),
    ("recipient", "string", "Agent that they are addressed to."),
    ("first_message", "bigint", "Number of the first message."),
    ("messages", "bigint", "Number of messages."),
    ("updates", "bigint", "Number of task updates among them."),
    ("answers", "bigint", "Number of messages that are neither the opening message nor an ACK or NACK."),
    ("last_us", "bigint", "Time of acceptance of the last message, microseconds since the epoch."),
    ("first_update_us", "bigint", "Time of acceptance of the first update, microseconds since the epoch."),
    ("first_answer_us", "bigint", "Time of acceptance of the first answer, microseconds since the epoch."),
    ("copies", "bigint", "Number of copies of the opening message in this row."),
    ("opened_us", "bigint", "Time of acceptance of the first copy, microseconds since the epoch."),
    ("delivered_us", "bigint", "Time of delivery of the first copy, microseconds since the epoch."),
    ("acked_us", "bigint", "Time of the first ACK of a copy, microseconds since the epoch."),
    ("processed_us", "bigint", "Time at which the first copy was processed, microseconds since the epoch."),
    ("lost", "bigint", "Number of copies of the opening message that expired, were recalled or became dead letters."),
    ("message_type", "string", "Type of the opening message, in the row of its first copy."),
)


def thread_day(message_life: DataFrame) -> DataFrame:
    """Aggregate a day's messages by thread and pair of agents."""
    in_order = Window.partitionBy("project", "date", "correlation_id").orderBy("message")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    another_copy = F.lag("message_id").over(in_order).eqNullSafe(F.col("message_id"))
    opens = F.col("opens_thread") & ~another_copy
    answer = ~F.col("opens_thread") & ~F.col("message_type").isin("ACK", "NACK")
    update = F.col("message_type") == "TASK_UPDATE"
    created_us = F.unix_micros("created_at")
    in_thread = (
        message_life.where(F.col("correlation_id").isNotNull())
        .withColumn("opener", F.last(F.when(opens, F.col("message")), ignorenulls=True).over(so_far))
        .withColumn("first_copy", opens)
    )
    pairs = in_thread.groupBy("project", "date", "correlation_id", "opener", "sender", "recipient").agg(
        F.min("message").alias("first_message"),
        F.count(F.lit(1)).alias("messages"),
        F.count_if(update).alias("updates"),
        F.count_if(answer).alias("answers"),
        F.max(created_us).alias("last_us"),
        F.min(F.when(update, created_us)).alias("first_update_us"),
        F.min(F.when(answer, created_us)).alias("first_answer_us"),
        F.count_if("opens_thread").alias("copies"),
        F.min(F.when(F.col("opens_thread"), created_us)).alias("opened_us"),
        F.min(F.when(F.col("opens_thread"), F.unix_micros("delivered_at"))).alias("delivered_us"),
        F.min(F.when(F.col("opens_thread"), F.unix_micros("acked_at"))).alias("acked_us"),
        F.min(F.when(F.col("opens_thread"), F.unix_micros("processed_at"))).alias("processed_us"),
        F.count_if(F.col("opens_thread") & F.col("state").isin("expired", "recalled", "dead", "purged")).alias("lost"),
    )
    types = in_thread.where("first_copy").select(
        "project", "date", "correlation_id", "opener", "sender", "recipient", "message_type"
    )
    key = ["project", "date", "correlation_id", "opener", "sender", "recipient"]
    return conform(pairs.join(types, key, "left"), _DAY_COLUMNS)


_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which it was opened, UTC."),
    ("thread", "bigint", "Number of the message that opened it."),
    ("correlation_id", "string", "correlationId of the thread."),
    ("thread_kind", "string", "`task` for an assignment, `handoff`, or `request` for anything else."),
    ("message_type", "string", "Type of the message that opened it."),
    ("requester", "string", "Agent that opened it."),
    ("responder", "string", "Agent that it was opened with; null if there were several."),
    ("copies", "bigint", "Number of recipients of the opening message."),
    ("messages", "bigint", "Number of messages."),
    ("updates", "bigint", "Number of task updates."),
    ("responses", "bigint", "Number of messages back to the requester, without ACKs and NACKs."),
    ("opened_at", "timestamp", "Time of opening."),
    ("delivered_at", "timestamp", "Time of the first delivery of the opening message."),
    ("acked_at", "timestamp", "Time of the first ACK of the opening message."),
    ("first_update_at", "timestamp", "Time of the first task update."),
    ("first_response_at", "timestamp", "Time of the first response."),
    ("completed_at", "timestamp", "Time at which the opening message was first processed."),
    ("last_at", "timestamp", "Time of acceptance of its last message."),
    ("outcome", "string", "`completed`, `lost` if no copy of the opening message can be answered, or `open`."),
)


def thread(thread_day: DataFrame) -> DataFrame:
    """Join the days of each thread."""
    # An opening message is the first of its row, and messages before a day's first opening are in separate rows: so
    # the thread of each row is opened by that row or an earlier one.
    so_far = (
        Window.partitionBy("project", "correlation_id")
        .orderBy("first_message")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    days = thread_day.withColumn("thread", F.last("opener", ignorenulls=True).over(so_far)).where(
        F.col("thread").isNotNull()
    )
    openings = days.where(F.col("message_type").isNotNull()).select(
        "project",
        "thread",
        "date",
        "correlation_id",
        "message_type",
        F.col("sender").alias("requester"),
        F.col("recipient").alias("_asked"),
        "opened_us",
    )
    back = F.col("recipient") == F.col("requester")
    rows = days.drop("date", "correlation_id", "message_type", "opened_us").join(openings, ["project", "thread"])
    whole = rows.groupBy("project", "thread").agg(
        F.sum("copies").alias("copies"),
        F.sum("messages").alias("messages"),
        F.sum("updates").alias("updates"),
        F.sum(F.when(back, F.col("answers")).otherwise(0)).alias("responses"),
        F.min("delivered_us").alias("delivered_us"),
        F.min("acked_us").alias("acked_us"),
        F.min("first_update_us").alias("first_update_us"),
        F.min(F.when(back, F.col("first_answer_us"))).alias("first_response_us"),
        F.min("processed_us").alias("completed_us"),
        F.max("last_us").alias("last_us"),
        F.sum("lost").alias("lost"),
    )
    stamps = ("opened", "delivered", "acked", "first_update", "first_response", "completed", "last")
    named = openings.join(whole, ["project", "thread"]).withColumns(
        {
            **{f"{stamp}_at": F.timestamp_micros(f"{stamp}_us") for stamp in stamps},
            "responder": F.when(F.col("copies") == 1, F.col("_asked")),
            "thread_kind": F.when(F.col("message_type") == "TASK_ASSIGNMENT", "task")
            .when(F.col("message_type") == "HANDOFF_REQUEST", "handoff")
            .otherwise("request"),
            "outcome": F.when(F.col("completed_us").isNotNull(), "completed")
            .when(F.col("lost") == F.col("copies"), "lost")
            .otherwise("open"),
        }
    )
    return conform(named, _COLUMNS)


THREAD_DAY = Table(
    name="thread_day",
    layer="silver",
    about="One row per thread, day and pair of agents; input of `thread`.",
    columns=_DAY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=thread_day,
)
THREAD = Table(
    name="thread",
    layer="silver",
    about="One row per thread: its agents, counts of messages, times and outcome.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("thread_day", Reach.PROJECT),),
    transform=thread,
)

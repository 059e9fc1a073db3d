"""Threads: from the message that opened one to its answer: assignment, updates, completion; request, response.

Theory of operation. A message belongs to the thread that the last message with its correlationId opened, at or before
it; an id may be used again once its thread is forgotten. A thread goes over days, so a day's messages first become a
row per thread and pair of agents (`thread_day`), where messages before the day's first opening go to no thread yet;
then the rows of all days become threads (`thread`). A request is done when its opening message is processed: the
exchange knows which answer means that, and payloads are not looked into. ACKs and NACKs are no answers.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["THREAD", "THREAD_DAY"]

_DAY_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which the messages were accepted, UTC."),
    ("correlation_id", "string", "The correlationId."),
    ("opener", "bigint", "Message that opened the thread on this day; null for the thread of an earlier day."),
    ("sender", "string", "Who sent the messages of this row."),
    ("recipient", "string", "Whom they are for."),
    ("first_message", "bigint", "The first of them."),
    ("messages", "bigint", "How many."),
    ("updates", "bigint", "Of those, task updates."),
    ("answers", "bigint", "Of those, neither the opening message nor an ACK or NACK."),
    ("last_us", "bigint", "When the last was accepted, microseconds since the epoch."),
    ("first_update_us", "bigint", "When the first update was accepted, microseconds since the epoch."),
    ("first_answer_us", "bigint", "When the first answer was accepted, microseconds since the epoch."),
    ("copies", "bigint", "Copies of the opening message in this row."),
    ("opened_us", "bigint", "When the first copy was accepted, microseconds since the epoch."),
    ("delivered_us", "bigint", "When the first copy was delivered, microseconds since the epoch."),
    ("acked_us", "bigint", "When the first copy was acknowledged, microseconds since the epoch."),
    ("processed_us", "bigint", "When the first copy was processed, microseconds since the epoch."),
    ("lost", "bigint", "Copies of the opening message that expired, were recalled or died."),
    ("message_type", "string", "Type of the opening message, in the row of its first copy."),
)


def thread_day(message_life: DataFrame) -> DataFrame:
    """Gather a day's messages by thread and pair of agents."""
    in_order = Window.partitionBy("project", "date", "correlation_id").orderBy("message")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    another_copy = F.lag("message_id").over(in_order).eqNullSafe(F.col("message_id"))
    opens = F.col("opens_thread") & ~another_copy
    answer = ~F.col("opens_thread") & ~F.col("message_type").isin("ACK", "NACK")
    update = F.col("message_type") == "TASK_UPDATE"
    created_us = F.unix_micros("created_at")
    said = (
        message_life.where(F.col("correlation_id").isNotNull())
        .withColumn("opener", F.last(F.when(opens, F.col("message")), ignorenulls=True).over(so_far))
        .withColumn("first_copy", opens)
    )
    pairs = said.groupBy("project", "date", "correlation_id", "opener", "sender", "recipient").agg(
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
    types = said.where("first_copy").select(
        "project", "date", "correlation_id", "opener", "sender", "recipient", "message_type"
    )
    key = ["project", "date", "correlation_id", "opener", "sender", "recipient"]
    return conform(pairs.join(types, key, "left"), _DAY_COLUMNS)


_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day on which it was opened, UTC."),
    ("thread", "bigint", "Message that opened it."),
    ("correlation_id", "string", "Its correlationId."),
    ("thread_kind", "string", "`task` for an assignment, `handoff`, or `request` for anything else."),
    ("message_type", "string", "Type of the message that opened it."),
    ("requester", "string", "Who opened it."),
    ("responder", "string", "Whom it was opened with; null where several were asked."),
    ("copies", "bigint", "How many were asked."),
    ("messages", "bigint", "Messages in it."),
    ("updates", "bigint", "Task updates in it."),
    ("responses", "bigint", "Messages back to the requester, ACKs and NACKs aside."),
    ("opened_at", "timestamp", "When it was opened."),
    ("delivered_at", "timestamp", "When the first who was asked had it."),
    ("acked_at", "timestamp", "When the first acknowledged it."),
    ("first_update_at", "timestamp", "When the first update came."),
    ("first_response_at", "timestamp", "When the first response came."),
    ("completed_at", "timestamp", "When the first who was asked was done."),
    ("last_at", "timestamp", "When its last message was accepted."),
    ("outcome", "string", "`completed`, `lost` where nobody could be asked in the end, or `open`."),
)


def thread(thread_day: DataFrame) -> DataFrame:
    """Join the days of each thread."""
    # An opening message is the first of its row, and what precedes a day's first opening is in rows of its own: so each
    # row finds its thread at or before itself.
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
    about="One row per thread, day and pair of agents: what `thread` is put together from.",
    columns=_DAY_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=thread_day,
)
THREAD = Table(
    name="thread",
    layer="silver",
    about="One row per thread: assignment, updates and completion, or request and response.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("thread_day", Reach.PROJECT),),
    transform=thread,
)

"""Lead times of threads: from assignment or request to delivery, first update, response and completion."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["LEAD_TIME", "THREAD_OUTCOME"]

_MEASURES = {
    "to_delivery": "delivered_at",
    "to_first_update": "first_update_at",
    "to_response": "first_response_at",
    "to_completion": "completed_at",
}
_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of opening of the threads, UTC."),
    ("thread_kind", "string", "`task`, `handoff` or `request`."),
    ("message_type", "string", "Message type of the opening message."),
    ("responder", "string", "Agent that was asked; null if there were several."),
    ("measure", "string", "`to_delivery`, `to_first_update`, `to_response` or `to_completion`, since the opening."),
    *DISTRIBUTION,
)
_KEY = ("project", "date", "thread_kind", "message_type", "responder", "measure")


def lead_time(thread: DataFrame) -> DataFrame:
    """Measure the times of each thread since its opening."""
    measures = F.array(
        *(
            F.struct(F.lit(measure).alias("measure"), _since_opening(stamp).alias("lead_us"))
            for measure, stamp in _MEASURES.items()
        )
    )
    rows = thread.select("project", "date", "thread_kind", "message_type", "responder", F.inline(measures)).where(
        F.col("lead_us").isNotNull()
    )
    return conform(distribution(rows, _KEY, F.col("lead_us")), _COLUMNS)


def _since_opening(stamp: str) -> Column:
    lead_us = F.unix_micros(stamp) - F.unix_micros("opened_at")
    return F.when(lead_us.isNotNull(), F.greatest(lead_us, F.lit(0)))


_OUTCOME_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of opening of the threads, UTC."),
    ("thread_kind", "string", "`task`, `handoff` or `request`."),
    ("message_type", "string", "Message type of the opening message."),
    ("requester", "string", "Agent that opened the threads."),
    ("responder", "string", "Agent that was asked; null if there were several."),
    ("threads", "bigint", "Number of threads opened."),
    ("completed", "bigint", "Of those, completed."),
    ("lost", "bigint", "Of those, whose opening message expired, was recalled or became a dead letter."),
    ("open", "bigint", "Of those, neither completed nor lost."),
    ("messages", "bigint", "Number of messages."),
    ("updates", "bigint", "Number of task updates."),
    ("responses", "bigint", "Number of messages back to the requester."),
)
_OUTCOME_KEY = ("project", "date", "thread_kind", "message_type", "requester", "responder")


def thread_outcome(thread: DataFrame) -> DataFrame:
    """Count threads by outcome."""
    counted = thread.groupBy(*_OUTCOME_KEY).agg(
        F.count(F.lit(1)).alias("threads"),
        *(F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in ("completed", "lost", "open")),
        F.sum("messages").alias("messages"),
        F.sum("updates").alias("updates"),
        F.sum("responses").alias("responses"),
    )
    return conform(counted, _OUTCOME_COLUMNS)


LEAD_TIME = Table(
    name="lead_time",
    layer="gold",
    about="Lead times of the threads opened on a day, per kind, type, responder and measure.",
    columns=_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("thread", Reach.PROJECT),),
    transform=lead_time,
)
THREAD_OUTCOME = Table(
    name="thread_outcome",
    layer="gold",
    about="Outcomes of the threads opened on a day, per kind, type, requester and responder.",
    columns=_OUTCOME_COLUMNS,
    grain=Grain.PROJECT,
    inputs=(Input("thread", Reach.PROJECT),),
    transform=thread_outcome,
    balance=counts_all("threads"),
)

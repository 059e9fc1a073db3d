"""Time from acceptance to the first offer, per type and publish path (SPEC-071 §11)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.gold.histogram import DISTRIBUTION, distribution
from tocsin.pipeline.gold.signal_state import UNKNOWN_PATH
from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["TIME_TO_DRAIN"]

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("hour", "timestamp", "Hour of acceptance."),
    ("message_type", "string", "Message type."),
    ("publish_path", "string", "Publish path at send time; `unknown` for rows older than the field."),
    ("messages", "bigint", "Number of messages accepted, including those that were never offered."),
    *DISTRIBUTION,
)
_KEY = ("project", "date", "hour", "message_type", "publish_path")


def time_to_drain(message_life: DataFrame) -> DataFrame:
    """Measure the time from acceptance to the first offer."""
    messages = message_life.withColumns(
        {
            "hour": F.date_trunc("hour", "created_at"),
            "publish_path": F.coalesce("publish_path", F.lit(UNKNOWN_PATH)),
        }
    )
    measured = distribution(messages, _KEY, F.col("first_waited_us"), messages=F.count(F.lit(1)))
    return conform(measured, _COLUMNS)


TIME_TO_DRAIN = Table(
    name="time_to_drain",
    layer="gold",
    about="Times to the first offer of the messages of an hour, per type and publish path.",
    columns=_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=time_to_drain,
    balance=counts_all("messages"),
)

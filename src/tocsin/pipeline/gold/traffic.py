"""Traffic matrix: messages per sender, recipient and type."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["TRAFFIC"]

_LEVELS = ("info", "coordinate", "blocking", "critical", "director_override")
_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("hour", "timestamp", "Hour of acceptance."),
    ("sender", "string", "Agent that sent them."),
    ("recipient", "string", "Agent that they are addressed to."),
    ("message_type", "string", "Message type."),
    ("messages", "bigint", "Number of messages accepted."),
    *((name, "bigint", f"Of those, with granted priority {name.replace('_', ' ')}.") for name in _LEVELS),
    ("broadcast_copies", "bigint", "Of those, copies of broadcasts."),
    ("lowered", "bigint", "Of those, granted a lower priority than requested."),
    ("delivered", "bigint", "Of those, delivered, acknowledged or processed."),
    ("unread", "bigint", "Of those, expired, recalled or dead."),
)
_KEY = ("project", "date", "hour", "sender", "recipient", "message_type")


def traffic(message_life: DataFrame) -> DataFrame:
    """Count messages per hour, pair of agents and type."""
    levels = [F.count_if(F.col("priority") == level).alias(name) for level, name in enumerate(_LEVELS)]
    counted = (
        message_life.withColumn("hour", F.date_trunc("hour", "created_at"))
        .groupBy(*_KEY)
        .agg(
            F.count(F.lit(1)).alias("messages"),
            *levels,
            F.count("broadcast").alias("broadcast_copies"),
            F.count_if(F.col("priority") < F.col("requested")).alias("lowered"),
            F.count_if(F.col("state").isin("delivered", "acknowledged", "processed")).alias("delivered"),
            F.count_if(F.col("state").isin("expired", "recalled", "dead", "purged")).alias("unread"),
        )
    )
    return conform(counted, _COLUMNS)


TRAFFIC = Table(
    name="traffic",
    layer="gold",
    about="Messages of an hour per sender, recipient and type.",
    columns=_COLUMNS,
    grain=Grain.DAY,
    inputs=(Input("message_life"),),
    transform=traffic,
    balance=counts_all("messages"),
)

"""States of the messages of each minute: the five states of SPEC-071 §11, and the others so that the sum is complete.

`undeliverable` is counted separately: such a send was refused before anything was stored, so it is not a message. It
does not resolve itself, unlike `pending_pickup`.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.balance import counts_all
from tocsin.pipeline.tables.contract import columns, conform
from tocsin.pipeline.tables.table import Grain, Input, Table

__all__ = ["SIGNAL_STATE"]

#: Publish path of messages that were recorded before the field existed (SPEC-071 §10).
UNKNOWN_PATH = "unknown"
#: Publish path of refused sends.
NO_PATH = "none"
#: Error code of an unknown recipient.
UNKNOWN_RECIPIENT = "E_ROUTING_001"

_COLUMNS = columns(
    ("project", "string", "The project."),
    ("date", "date", "Day of acceptance of the messages, UTC."),
    ("minute", "timestamp", "Minute of acceptance, or of the refusal."),
    ("message_type", "string", "Message type."),
    ("sender", "string", "Agent that sent them."),
    (
        "publish_path",
        "string",
        "Publish path at send time; `unknown` for rows older than the field, `none` for refused sends.",
    ),
    ("accepted", "bigint", "Number of messages accepted: the sum of all states except `undeliverable`."),
    ("available_now", "bigint", "Delivered by push, or as a copy of a broadcast."),
    ("drained", "bigint", "Delivered on another path: piggybacked or picked up later."),
    ("pending_pickup", "bigint", "Not delivered yet; the recipient was not available at send time."),
    ("waiting", "bigint", "Not delivered yet; the recipient was available at send time."),
    ("held", "bigint", "Held for an approval."),
    ("expired", "bigint", "Expired by TTL or decay."),
    ("recalled", "bigint", "Recalled by the sender."),
    ("dead", "bigint", "Dead letters, including purged ones."),
    ("undeliverable", "bigint", "Sends refused because the recipient is not registered."),
)
_KEY = ("project", "date", "minute", "message_type", "sender", "publish_path")


def signal_state(message_life: DataFrame, event: DataFrame) -> DataFrame:
    """Count messages by state, and sends to unknown recipients, per minute, type, sender and path."""
    state = F.col("state")
    delivered = state.isin("delivered", "acknowledged", "processed")
    pushed = (F.col("publish_path") == "pushed_to_ws") | F.col("broadcast").isNotNull()
    waiting = state.isin("queued", "offered")
    there = F.coalesce(F.col("recipient_state") == "available", F.lit(False))
    pushed = F.coalesce(pushed, F.lit(False))
    messages = (
        message_life.withColumn("minute", F.date_trunc("minute", "created_at"))
        .withColumn("publish_path", F.coalesce("publish_path", F.lit(UNKNOWN_PATH)))
        .groupBy(*_KEY)
        .agg(
            F.count(F.lit(1)).alias("accepted"),
            _counted(delivered & pushed, "available_now"),
            _counted(delivered & ~pushed, "drained"),
            _counted(waiting & ~there, "pending_pickup"),
            _counted(waiting & there, "waiting"),
            _counted(state == "held", "held"),
            _counted(state == "expired", "expired"),
            _counted(state == "recalled", "recalled"),
            _counted(state.isin("dead", "purged"), "dead"),
            F.lit(0).cast("bigint").alias("undeliverable"),
        )
    )
    refused = (
        event.where((F.col("kind") == "SendRefused") & (F.col("code") == UNKNOWN_RECIPIENT))
        .withColumn("minute", F.date_trunc("minute", F.timestamp_micros("at")))
        .withColumn("publish_path", F.lit(NO_PATH))
        .groupBy(*_KEY)
        .agg(F.count(F.lit(1)).alias("undeliverable"))
    )
    counts = [column.name for column in _COLUMNS if column.name not in _KEY]
    both = messages.unionByName(refused, allowMissingColumns=True).fillna(0, counts)
    return conform(both, _COLUMNS)


def _counted(condition: Column, name: str) -> Column:
    return F.count_if(condition).alias(name)


SIGNAL_STATE = Table(
    name="signal_state",
    layer="gold",
    about="Messages of a minute by state, per type, sender and publish path.",
    columns=_COLUMNS,
    grain=Grain.DAY,
    inputs=(
        Input("message_life"),
        Input("event", kinds=("SendRefused",)),
    ),
    transform=signal_state,
    balance=counts_all("accepted"),
)

"""The `message_life` table: one row per message, folded from its events and merged with later ones.

Theory of operation. `fold` turns any set of events into rows of `message_life`, as complete as those events allow;
`merge` combines two such rows of one message. Folding all events at once, or in parts in any order and merging, gives
the same row, because every value is one of three things: taken from the acceptance alone; a count; or taken from the
*last* event of a step, whose sequence number is in `path`. So late and out-of-order events give the right result, and a
message that stays open for a week is one row to merge, not a week of events to read again.

A value that a later step cancels (`delivered_at` on a requeue, `dead_at` on a redrive) is cleared after every merge.
This loses nothing, because a cancelled value never becomes valid again.

Spark's hash aggregation works only on columns of fixed width; with strings it sorts instead. So the few text fields
that are needed are aggregated as numbers: `coded_values` lists the values that occur in each field, and the number is
the position in that list.
"""

from collections.abc import Mapping, Sequence
from typing import get_type_hints

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.core.messages.lifecycle import TRANSITIONS
from tocsin.core.messages.model import State
from tocsin.pipeline.tables.schemas import CODED_FIELDS, KINDS, MESSAGE_LIFE, STEPS, type_of

__all__ = ["FOLDED_KINDS", "fold", "merge"]

_ACCEPTED = "MessageAccepted"
#: Kinds of events that are folded: the acceptance, and all kinds that refer to a message by its number.
FOLDED_KINDS: tuple[str, ...] = (
    _ACCEPTED,
    *(name for name, kind in KINDS.items() if get_type_hints(kind).get("message") is int),
)

_NUMBER = {step: number for number, step in enumerate(STEPS)}
_STEP_OF = {kind.__name__: step for step, kind in STEPS.items()}
_AFTER: dict[str, State] = {}
for _row in TRANSITIONS:
    _AFTER[_STEP_OF[_row.event.__name__]] = _row.after

#: Columns that come from the acceptance alone.
_ACCEPTANCE = (
    "message_id", "sender", "recipient", "message_type", "requested", "priority", "rule", "importance", "decay_rate",
    "delivery_class", "ack_required", "version", "correlation_id", "opens_thread", "broadcast", "recipient_state",
    "publish_path", "resolved_session", "held", "sent_at",
)  # fmt: skip
_KEY = ("project", "message")
_NAMES = tuple(column.name for column in MESSAGE_LIFE)
_TYPES = {column.name: column.type for column in MESSAGE_LIFE}
_DATA_TYPES = {column.name: type_of(column.type) for column in MESSAGE_LIFE}
#: Steps that happen at most once per message, so that their only value is the last one.
_ONCE = ("acknowledged", "processed", "expired", "recalled", "purged")
#: Room for a small number beside a sequence number, which has at most 46 bits.
_PACK = 1 << 16
#: States in which a message is settled; `delivered` too if no ACK is required.
_ENDED = (State.ACKNOWLEDGED, State.PROCESSED, State.EXPIRED, State.RECALLED, State.DEAD)

CodedValues = Mapping[str, Sequence[str]]


def fold(events: DataFrame, coded_values: CodedValues) -> DataFrame:
    """Fold events into rows of `message_life`, complete or partial.

    `coded_values` lists the values that occur, by `kind.field` of `CODED_FIELDS`; any other value becomes `other`.
    """
    steps = _steps(events.where(F.col("kind").isin(*FOLDED_KINDS[1:])), coded_values)
    accepted = events.where(F.col("kind") == _ACCEPTED).select(
        "project",
        F.col("seq").alias("message"),
        *(F.col(name) for name in _ACCEPTANCE),
        F.col("at").alias("created_at"),
        F.col("expires_at"),
    )
    both = accepted.join(steps.hint("shuffle_hash"), list(_KEY), "full")
    path = F.struct(*(F.col(f"{step}_seq").alias(step) for step in STEPS))
    partial = both.select(
        *_KEY,
        *(_stamp(name) if _TYPES[name] == "timestamp" else F.col(name) for name in _ACCEPTANCE),
        _stamp("created_at"),
        F.timestamp_micros(F.coalesce("renewed_expires_at", "expires_at")).alias("expires_at"),
        _stamp("first_offered_at"),
        _stamp("offered_at"),
        _stamp("delivered_at"),
        _stamp("acknowledged_at").alias("acked_at"),
        _stamp("processed_at"),
        _stamp("expired_at"),
        _stamp("recalled_at"),
        _stamp("died_at").alias("dead_at"),
        _stamp("redriven_at"),
        _stamp("purged_at"),
        *_decoded_columns(coded_values),
        F.coalesce("offers", F.lit(0)).alias("offers"),
        (F.col("attempts_pack") % _PACK).alias("attempts"),
        F.nullif(F.col("level_pack") % _PACK - 1, F.lit(-1)).alias("level"),
        F.when(F.col("boosts_seq") == F.col("boosted_seq"), F.col("boosted_boosts")).otherwise(0).alias("boosts"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("requeues", "rejections", "redrives")),
        "first_waited_us",
        "ack_latency_us",
        "processing_latency_us",
        path.alias("path"),
        F.greatest("message", "last_seq").alias("last_seq"),
        F.timestamp_micros(F.coalesce("last_at", "created_at")).alias("last_at"),
    )
    return _settled(partial)


def merge(before: DataFrame, after: DataFrame) -> DataFrame:
    """Merge existing rows with rows folded from new events; a message in only one of them stays unchanged."""
    old, new = before.alias("old"), after.alias("new")
    same = [F.col(f"old.{name}") == F.col(f"new.{name}") for name in _KEY]
    joined = old.join(new, same[0] & same[1], "full")

    def either(name: str) -> Column:
        return F.coalesce(F.col(f"old.{name}"), F.col(f"new.{name}"))

    def later(*steps: str) -> Column:
        """Return whether the new row has the last event of these steps."""
        sides = [
            F.greatest(*(F.coalesce(F.col(f"{side}.path.{step}"), F.lit(0)) for step in steps), F.lit(0))
            for side in ("old", "new")
        ]
        return sides[1] > sides[0]

    def last(name: str, *steps: str) -> Column:
        return F.when(later(*steps), F.col(f"new.{name}")).otherwise(F.col(f"old.{name}"))

    def total(name: str) -> Column:
        return (F.coalesce(F.col(f"old.{name}"), F.lit(0)) + F.coalesce(F.col(f"new.{name}"), F.lit(0))).cast("int")

    newer = F.coalesce(F.col("new.last_seq"), F.lit(0)) > F.coalesce(F.col("old.last_seq"), F.lit(0))
    chosen: dict[str, Column] = {
        "expires_at": F.when(later("redriven", "released"), F.col("new.expires_at")).otherwise(either("expires_at")),
        "offered_at": last("offered_at", "offered"),
        "delivered_at": last("delivered_at", "delivered"),
        "delivered_how": last("delivered_how", "delivered"),
        "dead_at": last("dead_at", "died"),
        "code": last("code", "died"),
        "reason": last("reason", "died", "expired"),
        "redriven_at": last("redriven_at", "redriven"),
        "level": last("level", "boosted", "redriven"),
        "attempts": last("attempts", "requeued", "died", "redriven"),
        "boosts": last("boosts", "boosted", "redriven"),
        "offers": F.greatest("old.offers", "new.offers"),
        "requeues": total("requeues"),
        "rejections": total("rejections"),
        "redrives": total("redrives"),
        "path": F.struct(*(F.greatest(f"old.path.{step}", f"new.path.{step}").alias(step) for step in STEPS)),
        "last_seq": F.greatest("old.last_seq", "new.last_seq"),
        "last_at": F.when(newer, F.col("new.last_at")).otherwise(F.col("old.last_at")),
    }
    skipped = ("date", "state", "is_open")
    names = [name for name in _NAMES if name not in skipped]
    return _settled(joined.select(*(chosen.get(name, either(name)).alias(name) for name in names)))


def _steps(events: DataFrame, coded_values: CodedValues) -> DataFrame:
    """Aggregate the events after the acceptance, as numbers only."""
    number = F.coalesce(*(F.when(F.col("kind") == kind.__name__, _NUMBER[step]) for step, kind in STEPS.items()))
    narrow = events.withColumn("step", number).select(
        "project", "message", "seq", "at", "step",
        *(F.col(name) for name in ("offer", "waited_us", "latency_us", "attempts", "new_level", "own_level", "boosts")),
        F.col("expires_at"),
        *(_code(kind, field, coded_values) for kind, field in CODED_FIELDS),
    )  # fmt: skip
    seq, at = F.col("seq"), F.col("at")

    def of(step: str, value: Column = seq) -> Column:
        return F.when(F.col("step") == _NUMBER[step], value)

    def among(*steps: str) -> Column:
        return F.when(F.col("step").isin(*(_NUMBER[step] for step in steps)), seq)

    first = F.col("offer") == 1
    level = F.when(F.col("step") == _NUMBER["boosted"], F.coalesce("own_level", "new_level"))
    attempts = F.when(
        F.col("step").isin(_NUMBER["requeued"], _NUMBER["died"]), F.least(F.col("attempts"), F.lit(_PACK - 1))
    )
    redriven = F.when(F.col("step") == _NUMBER["redriven"], F.lit(0))
    stamps = [
        (F.max(of(step, at)) if step in _ONCE else F.max_by(at, of(step))).alias(f"{step}_at")
        for step in STEPS
        if f"{step}_at" not in ("requeued_at", "rejected_at", "boosted_at")
    ]
    return narrow.groupBy(*_KEY).agg(
        *(F.max(of(step)).alias(f"{step}_seq") for step in STEPS),
        *stamps,
        F.max(of("offered", F.col("offer"))).alias("offers"),
        F.max(F.when(first, at)).alias("first_offered_at"),
        F.max(F.when(first, F.col("waited_us"))).alias("first_waited_us"),
        F.max(of("acknowledged", F.col("latency_us"))).alias("ack_latency_us"),
        F.max(of("processed", F.col("latency_us"))).alias("processing_latency_us"),
        F.max(seq * _PACK + F.coalesce(level + 1, redriven)).alias("level_pack"),
        F.max(seq * _PACK + F.coalesce(attempts, redriven)).alias("attempts_pack"),
        F.max_by("boosts", of("boosted")).alias("boosted_boosts"),
        F.max(among("boosted", "redriven")).alias("boosts_seq"),
        F.max_by("expires_at", among("redriven", "released")).alias("renewed_expires_at"),
        *(F.count(of(step)).alias(name) for step, name in _COUNTS.items()),
        *(
            F.max(seq * _PACK + F.col(_code_column(kind, field))).alias(_code_column(kind, field))
            for kind, field in CODED_FIELDS
        ),
        F.max(seq).alias("last_seq"),
        F.max_by(at, seq).alias("last_at"),
    )


_COUNTS = {"requeued": "requeues", "rejected": "rejections", "redriven": "redrives"}


def _code_column(kind: str, field: str) -> str:
    return f"{kind}_{field}"


def _code(kind: str, field: str, coded_values: CodedValues) -> Column:
    """Return the code of a field's value, from 1; 0 if it is not in the list, null if the event has no such field."""
    found = F.lit(0)
    for place, value in enumerate(coded_values.get(f"{kind}.{field}", ()), 1):
        found = F.when(F.col(field) == value, place).otherwise(found)
    return F.when(F.col("step") == _NUMBER[_STEP_OF[kind]], found).alias(_code_column(kind, field))


def _decoded_columns(coded_values: CodedValues) -> list[Column]:
    """Return the text columns, decoded from their codes."""

    def value(kind: str, field: str) -> Column:
        known = ["other", *coded_values.get(f"{kind}.{field}", ())]
        place = (F.col(_code_column(kind, field)) % _PACK).cast("int")
        return F.when(place.isNotNull(), F.element_at(F.array(*map(F.lit, known)), place + 1))

    died, expired = F.coalesce("died_seq", F.lit(0)), F.coalesce("expired_seq", F.lit(0))
    return [
        value("MessageDelivered", "how").alias("delivered_how"),
        value("MessageAcknowledged", "status").alias("ack_status"),
        value("MessageProcessed", "how").alias("processed_how"),
        F.when(died > expired, value("MessageDied", "reason"))
        .otherwise(value("MessageExpired", "reason"))
        .alias("reason"),
        value("MessageDied", "code").alias("code"),
    ]


def _stamp(name: str) -> Column:
    return F.timestamp_micros(F.col(name)).alias(name)


def _settled(partial: DataFrame) -> DataFrame:
    """Clear cancelled values, compute the state, and select the columns of the table."""

    def at(step: str) -> Column:
        return F.coalesce(F.col(f"path.{step}"), F.lit(0))

    states = F.array(*(F.lit(found.value) for found in _AFTER.values()))
    moves = [F.col(f"path.{step}") * _PACK + place for place, step in enumerate(_AFTER, 1)]
    place = (F.greatest(*moves) % _PACK).cast("int")
    first = F.when(F.col("held") != "", State.HELD.value).otherwise(State.QUEUED.value)
    state = F.when(place.isNull(), first).otherwise(F.element_at(states, place))
    cancelled = F.greatest(at("requeued"), at("died")) > at("delivered")
    settled = partial.withColumn("state", state)
    ended = F.col("state").isin(*[value.value for value in _ENDED]) | (
        (F.col("state") == State.DELIVERED.value) & ~F.coalesce("ack_required", F.lit(False))
    )
    changed = {
        "date": F.to_date(F.coalesce("created_at", "last_at")),
        "delivered_at": F.when(~cancelled, F.col("delivered_at")),
        "dead_at": F.when(at("redriven") <= at("died"), F.col("dead_at")),
        "level": F.coalesce("level", "priority"),
        "attempts": F.coalesce("attempts", F.lit(0)),
        "boosts": F.coalesce("boosts", F.lit(0)),
        "is_open": ~ended,
    }
    return settled.select(*(changed.get(name, F.col(name)).cast(_DATA_TYPES[name]).alias(name) for name in _NAMES))

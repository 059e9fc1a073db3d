"""What the tables look like: columns, types, and a sentence on each.

The columns of `event` follow from the structs in `tocsin.core.events`, so that a new kind or field flows in by itself.
Everything else is written down by whoever makes the table. Nothing here needs a session, so the docs are generated from
it.
"""

import re
import types
from collections.abc import Iterable
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.events import EVENT_TYPES
from tocsin.core.messages.lifecycle import TRANSITIONS

__all__ = [
    "CODED_FIELDS",
    "DOCUMENTS",
    "EVENT",
    "KINDS",
    "MESSAGE_LIFE",
    "QUARANTINE",
    "RENAMED",
    "STEPS",
    "Column",
    "column_types",
    "columns_of",
    "event_columns",
    "field_type",
    "step_of",
    "struct_of",
    "type_of",
]


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    name: str
    #: `string`, `int`, `bigint`, `double`, `boolean`, `date`, `timestamp`; an `array<…>` or `struct<name:…>` of those.
    type: str
    #: What it says, in a sentence.
    about: str


_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestampType(),
}


def type_of(name: str) -> DataType:
    """Return Spark's type for a column's."""
    if name.startswith("array<"):
        return ArrayType(type_of(name[6:-1]))
    if name.startswith("struct<"):
        fields = (part.split(":") for part in name[7:-1].split(","))
        return StructType([StructField(field, type_of(kind)) for field, kind in fields])
    return _TYPES[name]


def struct_of(columns: Iterable[Column]) -> StructType:
    """Return Spark's schema for columns."""
    return StructType([StructField(column.name, type_of(column.type)) for column in columns])


#: Fields that hold JSON documents of their own; a column has their text. Other bytes are in base64, as in segments.
DOCUMENTS = frozenset({"payload", "metadata", "policy"})
#: Fields whose name means another thing in other kinds, with the column that they go to.
RENAMED: dict[tuple[str, str], str] = {
    ("PolicyAdopted", "version"): "policy_version",
    ("InterruptRaised", "by"): "interrupting",
    ("InterruptEnded", "by"): "interrupting",
}
#: Every kind of event by its name, as a record says it.
KINDS: dict[str, type] = {kind.__name__: kind for kind in EVENT_TYPES}


def field_type(hint: Any) -> str:
    """Return the column type of an event field's annotation."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (item for item in get_args(hint) if item is not type(None))
        return field_type(hint)
    if get_origin(hint) is tuple:
        return f"array<{field_type(get_args(hint)[0])}>"
    if isinstance(hint, type):
        if issubclass(hint, bool):
            return "boolean"
        if issubclass(hint, int):
            return "bigint"
        if issubclass(hint, float):
            return "double"
        if issubclass(hint, str | Enum | bytes):
            return "string"
    raise InvariantViolation(f"no column type for {hint}")


def columns_of(kind: type) -> dict[str, str]:
    """Return the fields of a kind, each with the column that it goes to."""
    return {field: RENAMED.get((kind.__name__, field), field) for field in get_type_hints(kind)}


def column_types(kinds: Iterable[type]) -> dict[str, str]:
    """Return the columns that hold the fields of these kinds; a name that is int here and float there is double."""
    found: dict[str, str] = {}
    for kind in kinds:
        hints = get_type_hints(kind)
        for field, name in columns_of(kind).items():
            wanted = field_type(hints[field])
            known = found.setdefault(name, wanted)
            if known != wanted:
                if {known, wanted} != {"bigint", "double"}:
                    raise InvariantViolation(f"{kind.__name__}.{field} is {wanted}, elsewhere {known}")
                found[name] = "double"
    return found


def event_columns(kinds: Iterable[type]) -> tuple[Column, ...]:
    """Return the columns of `event` for these kinds."""
    kinds = tuple(kinds)
    owners: dict[str, list[str]] = {}
    for kind in kinds:
        for name in columns_of(kind).values():
            owners.setdefault(name, []).append(kind.__name__)
    return (
        Column("project", "string", "The project."),
        Column("date", "date", "The day of `at`, in UTC."),
        Column("seq", "bigint", "The event's number in its project's journal."),
        Column("kind", "string", "What happened: the name of the event."),
        Column("at", "bigint", "When it happened, microseconds since the epoch."),
        *(
            Column(name, kind, "Of " + ", ".join(f"`{owner}`" for owner in owners[name]) + ".")
            for name, kind in column_types(kinds).items()
            if name != "at"
        ),
    )


EVENT: tuple[Column, ...] = event_columns(EVENT_TYPES)

#: Text fields that `message_life` aggregates as numbers: the kind of event and its field. Bronze lists the values that
#: occur in each, and the position in that list is the number.
CODED_FIELDS: tuple[tuple[str, str], ...] = (
    ("MessageDelivered", "how"),
    ("MessageAcknowledged", "status"),
    ("MessageProcessed", "how"),
    ("MessageExpired", "reason"),
    ("MessageDied", "reason"),
    ("MessageDied", "code"),
)

QUARANTINE: tuple[Column, ...] = (
    Column("project", "string", "The project whose segment it is in."),
    Column("file", "string", "The segment, below the landing zone."),
    Column("line", "bigint", "The line, counted from 1; 0 where the whole file is meant."),
    Column("reason", "string", "What is wrong with it: `malformed`, `unknown_kind`, `impossible` or `unreadable`."),
    Column("detail", "string", "The same in a sentence."),
    Column("text", "string", "The line as it is, as far as the limit goes."),
)


def step_of(kind: type) -> str:
    """Name the step of a message's life that a kind of event is: the last word of its name."""
    words: list[str] = re.findall(r"[A-Z][a-z]*", kind.__name__)
    return words[-1].lower()


#: What can happen to a message once it is accepted, by the words of `message_life.path`: all that moves it, and what it
#: keeps count of.
STEPS: dict[str, type] = {
    step_of(kind): kind
    for kind in (
        *dict.fromkeys(row.event for row in TRANSITIONS),
        ev.MessageRejected,
        ev.MessageBoosted,
        ev.DeadLetterPurged,
    )
}

MESSAGE_LIFE: tuple[Column, ...] = (
    Column("project", "string", "The project."),
    Column("date", "date", "The day on which it was accepted, in UTC."),
    Column("message", "bigint", "Its identity in events: the sequence number of its acceptance."),
    Column("message_id", "string", "Its messageId."),
    Column("sender", "string", "Who sent it."),
    Column("recipient", "string", "Whom it is for."),
    Column("message_type", "string", "Its type."),
    Column("requested", "int", "Priority asked for."),
    Column("priority", "int", "Priority granted."),
    Column("level", "int", "Priority granted, raised by its own waiting; what it is lent meanwhile aside."),
    Column("rule", "string", "Why granted differs from asked."),
    Column("importance", "int", "Importance inside its level when it was accepted."),
    Column("decay_rate", "double", "Share of the importance lost per decay interval."),
    Column("delivery_class", "string", "`sync` or `async`."),
    Column("ack_required", "boolean", "Whether its contract awaits an ACK."),
    Column("version", "string", "Protocol version of its envelope."),
    Column("correlation_id", "string", "Its thread."),
    Column("opens_thread", "boolean", "Whether it opened its thread."),
    Column("broadcast", "string", "The broadcast that it is a copy of."),
    Column("recipient_state", "string", "Presence of the recipient when it was sent."),
    Column("publish_path", "string", "What the bus did at send time."),
    Column("resolved_session", "string", "Session that the recipient was resolved to."),
    Column("held", "string", "Handoff point at which it was held for an approval; empty where it was queued at once."),
    Column("created_at", "timestamp", "When it was accepted."),
    Column("sent_at", "timestamp", "When its sender says it was written."),
    Column("expires_at", "timestamp", "When it expires, or was to."),
    Column("first_offered_at", "timestamp", "When it was first put on its way."),
    Column("offered_at", "timestamp", "When it was last put on its way."),
    Column("delivered_at", "timestamp", "When its recipient confirmed it; null again once it is requeued or dead."),
    Column("acked_at", "timestamp", "When its recipient acknowledged it."),
    Column("processed_at", "timestamp", "When its recipient was done with it."),
    Column("expired_at", "timestamp", "When it ended unread."),
    Column("recalled_at", "timestamp", "When its sender took it back."),
    Column("dead_at", "timestamp", "When it went to the dead letters; null again once it is redriven."),
    Column("redriven_at", "timestamp", "When it was last redriven."),
    Column("purged_at", "timestamp", "When it was dropped from the dead letters."),
    Column("state", "string", "Where it is in its life, as in `docs/concepts/lifecycle.md`."),
    Column("reason", "string", "Why it ended as it did: of expiry, or of its last death."),
    Column("code", "string", "Catalogue code of its last death."),
    Column("delivered_how", "string", "What confirmed it last: `receipt`, `next_call`, `ack`, `nack` or `response`."),
    Column("ack_status", "string", "What its recipient acknowledged."),
    Column("processed_how", "string", "What made it processed."),
    Column("offers", "int", "Times offered."),
    Column("attempts", "int", "Retries used since it was last queued afresh."),
    Column("requeues", "int", "Times that it went back to the queue."),
    Column("rejections", "int", "Times that its recipient rejected it."),
    Column("boosts", "int", "Times that waiting has raised it since it was last queued afresh."),
    Column("redrives", "int", "Times that it was redriven."),
    Column("first_waited_us", "bigint", "Microseconds from queue to first offer."),
    Column("ack_latency_us", "bigint", "Microseconds from offer to acknowledgement."),
    Column("processing_latency_us", "bigint", "Microseconds from delivery to processed."),
    Column(
        "path",
        "struct<" + ",".join(f"{step}:bigint" for step in STEPS) + ">",
        "Sequence number of the last event of each step: what happened to it, and in which order.",
    ),
    Column("last_seq", "bigint", "Sequence number of the last event about it."),
    Column("last_at", "timestamp", "When that was."),
    Column("is_open", "boolean", "Whether its contract still owes it something: delivery, an ACK, or its end."),
)

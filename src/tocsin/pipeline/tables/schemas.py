"""Columns of the tables: name, type and description.

The columns of `event` are derived from the structs in `tocsin.core.events`, so that a new kind or field needs no change
here. Other tables and views declare their columns beside their SQL. Nothing here needs Spark.
"""

import re
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.events import EVENT_TYPES
from tocsin.core.messages.lifecycle import TRANSITIONS

__all__ = [
    "DOCUMENTS",
    "EVENT",
    "KINDS",
    "MESSAGE_LIFE",
    "QUARANTINE",
    "RENAMED",
    "SEGMENT",
    "STEPS",
    "Column",
    "column_types",
    "columns_of",
    "event_columns",
    "field_type",
    "step_of",
]


class Column(msgspec.Struct, frozen=True):
    """One column of a table."""

    name: str
    #: `string`, `int`, `bigint`, `double`, `boolean`, `date`, `timestamp`; an `array<…>` or `struct<name:…>` of those.
    type: str
    #: Description, in a sentence.
    about: str


#: Fields that hold JSON documents; the column has their text. Other bytes are in base64, as in segments.
DOCUMENTS = frozenset({"payload", "metadata", "policy"})
#: Fields whose name means something else in other kinds, with the column that they are stored in.
RENAMED: dict[tuple[str, str], str] = {
    ("PolicyAdopted", "version"): "policy_version",
    ("InterruptRaised", "by"): "interrupting",
    ("InterruptEnded", "by"): "interrupting",
}
#: Every kind of event by its name.
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


@cache
def columns_of(kind: type) -> Mapping[str, str]:
    """Return the fields of a kind, each with the column that it is stored in."""
    return {field: RENAMED.get((kind.__name__, field), field) for field in get_type_hints(kind)}


def column_types(kinds: Iterable[type]) -> dict[str, str]:
    """Return the columns for the fields of these kinds; one that is int here and float there is double."""
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
        Column("seq", "bigint", "Sequence number of the event in its project's journal."),
        Column("kind", "string", "Name of the event type."),
        Column("at", "bigint", "Time of the event, microseconds since the epoch."),
        *(
            Column(name, kind, "Field of " + ", ".join(f"`{owner}`" for owner in owners[name]) + ".")
            for name, kind in column_types(kinds).items()
            if name != "at"
        ),
    )


EVENT: tuple[Column, ...] = event_columns(EVENT_TYPES)

QUARANTINE: tuple[Column, ...] = (
    Column("project", "string", "Project of the segment."),
    Column("file", "string", "Path of the segment below the landing zone."),
    Column("line", "bigint", "Line number, from 1; 0 for the whole file."),
    Column("reason", "string", "`malformed`, `unknown_kind`, `impossible` or `unreadable`."),
    Column("detail", "string", "The reason as a sentence."),
    Column("text", "string", "Content of the line, cut to `quarantine_text_max` bytes."),
)


SEGMENT: tuple[Column, ...] = (
    Column("project", "string", "Project of the segment."),
    Column("date", "date", "Day of its events, in UTC."),
    Column("segment", "string", "Path of the segment below the landing zone."),
    Column("bytes", "bigint", "Its compressed size."),
    Column("events", "bigint", "Number of its events that are in `event`."),
    Column("quarantined", "bigint", "Number of its lines that are not valid events."),
    Column("duplicates", "bigint", "Number of its events that were in `event` already."),
    Column("last_seq", "bigint", "Last sequence number in it; 0 if it has no events."),
    Column(
        "seqs", "array<bigint>", "Sequence numbers of its events in `event`: first and last of each range, in turn."
    ),
    Column("checksum", "string", "BLAKE2 digest of the file."),
    Column("changed_at", "bigint", "Time of the file's last change, microseconds since the epoch; null if not known."),
    Column("unknown_kinds", "array<string>", "Kinds of its lines that this version of Tocsin did not know."),
)


def step_of(kind: type) -> str:
    """Return the name of the lifecycle step of a kind of event: the last word of its name."""
    words: list[str] = re.findall(r"[A-Z][a-z]*", kind.__name__)
    return words[-1].lower()


#: Steps of a message after its acceptance, by their names in `message_life.path`: all state transitions, and the events
#: that the table counts.
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
    Column("message", "bigint", "Sequence number of its acceptance, by which other events refer to it."),
    Column("message_id", "string", "messageId of its envelope."),
    Column("sender", "string", "Agent that sent it."),
    Column("recipient", "string", "Agent that it is addressed to."),
    Column("message_type", "string", "Message type."),
    Column("requested", "int", "Priority requested, 0 (Info) to 4 (DirectorOverride)."),
    Column("priority", "int", "Priority granted, 0 (Info) to 4 (DirectorOverride)."),
    Column("level", "int", "Priority granted, plus boosts; without inherited priority."),
    Column("rule", "string", "Rule that determined the priority granted."),
    Column("importance", "int", "Importance at acceptance, 1 to 10."),
    Column("decay_rate", "double", "Share of the importance that is lost per decay interval."),
    Column("delivery_class", "string", "`sync` or `async`."),
    Column("ack_required", "boolean", "Whether its contract requires an ACK."),
    Column("version", "string", "Protocol version of its envelope."),
    Column("correlation_id", "string", "correlationId of its thread."),
    Column("opens_thread", "boolean", "Whether it opened the thread."),
    Column("broadcast", "string", "Broadcast that it is a copy of; null otherwise."),
    Column("recipient_state", "string", "Presence of the recipient at send time."),
    Column("publish_path", "string", "Publish path: `pushed_to_ws`, `buffered_for_piggyback` or `queued_offline`."),
    Column("resolved_session", "string", "Session that the recipient was resolved to at send time."),
    Column("held", "string", "Handoff point at which it was held for an approval; empty if it was queued at once."),
    Column("created_at", "timestamp", "Time of acceptance."),
    Column("sent_at", "timestamp", "Timestamp in its envelope, set by the sender."),
    Column("expires_at", "timestamp", "Time at which its TTL ends."),
    Column("first_offered_at", "timestamp", "Time of its first offer."),
    Column("offered_at", "timestamp", "Time of its last offer."),
    Column("delivered_at", "timestamp", "Time of the receipt; null again once it is requeued or dead."),
    Column("acked_at", "timestamp", "Time of the ACK."),
    Column("processed_at", "timestamp", "Time at which it was processed."),
    Column("expired_at", "timestamp", "Time at which it expired."),
    Column("recalled_at", "timestamp", "Time at which it was recalled."),
    Column("dead_at", "timestamp", "Time at which it became a dead letter; null again once it is redriven."),
    Column("redriven_at", "timestamp", "Time at which it was last redriven."),
    Column("purged_at", "timestamp", "Time at which it was purged from the dead letters."),
    Column("state", "string", "Current state, as in `docs/concepts/lifecycle.md`."),
    Column("reason", "string", "Reason of its expiry, or of its last dead-lettering."),
    Column("code", "string", "Error code of its last dead-lettering."),
    Column("delivered_how", "string", "What confirmed it: `receipt`, `ack`, `nack`, `response`; earlier `next_call`."),
    Column("ack_status", "string", "Status in the ACK."),
    Column("processed_how", "string", "What marked it as processed: `ack`, `processed` or `response`."),
    Column("offers", "int", "Number of offers."),
    Column("attempts", "int", "Retries used since it was accepted or last redriven."),
    Column("requeues", "int", "Number of times it was requeued."),
    Column("rejections", "int", "Number of times it was rejected (NACK)."),
    Column("boosts", "int", "Number of boosts since it was accepted or last redriven."),
    Column("redrives", "int", "Number of times it was redriven."),
    Column("first_waited_us", "bigint", "Time from queuing to the first offer, microseconds."),
    Column("ack_latency_us", "bigint", "Time from the offer to the ACK, microseconds."),
    Column("processing_latency_us", "bigint", "Time from delivery to processing, microseconds."),
    Column(
        "path",
        "struct<" + ",".join(f"{step}:bigint" for step in STEPS) + ">",
        "Sequence number of the last event of each step; null for steps that did not happen.",
    ),
    Column("last_seq", "bigint", "Sequence number of its last event."),
    Column("last_at", "timestamp", "Time of its last event."),
    Column("is_open", "boolean", "Whether it is not settled yet: it awaits delivery, an ACK, or its end."),
    Column(
        "moves",
        "array<struct<seq:bigint,us:bigint,level:bigint,waits:boolean>>",
        "Events that moved it into, inside or out of its mailbox, if it entered more than once, late, or was boosted.",
    ),
)

"""What the gateway answers with: the core's replies in words and ISO times, and the history as people read it."""

from typing import Any

import msgspec

from tocsin.core.commands import Drained, Receipt
from tocsin.core.messages.model import NEVER
from tocsin.core.protocol.envelope import iso
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.gateways.http.problems import ProblemDocument
from tocsin.journal.history import Brief, DeadLetter, Signal, life_of

__all__ = [
    "BriefView",
    "DeadLetterView",
    "DrainView",
    "HappeningView",
    "LifeView",
    "MessageView",
    "ReceiptView",
    "brief_view",
    "dead_letter_view",
    "drain_view",
    "life_view",
    "message_view",
    "moment",
    "receipt_view",
]


_LEVELS = tuple(liminal_name(level) for level in Priority)


def moment(at: int | None) -> str | None:
    """Write a time down; nothing where it never happened."""
    return None if at is None or at == NEVER else iso(at)


class ReceiptView(msgspec.Struct, frozen=True, gc=False):
    """What became of a send (SPEC-071 §5), and what it can be relied upon."""

    signal_id: str
    message_id: str
    delivered: bool
    queued: bool
    recipient: str
    recipient_state: str
    delivery_class: str
    expires_at: str
    resolved_to_session: str | None
    publish_path: str
    #: Priority granted.
    priority: str
    #: Priority asked for.
    requested_priority: str
    #: Whether this messageId had been accepted before.
    duplicate: bool
    #: Whether it is held until a director has approved it.
    held: bool
    #: `flushed` or `replicated`; `buffered` where a power cut could undo it.
    durability: str
    #: On how many nodes it is durable.
    copies: int


def receipt_view(receipt: Receipt) -> ReceiptView:
    """Write a receipt down."""
    return ReceiptView(
        signal_id=receipt.signal_id,
        message_id=receipt.message_id,
        delivered=receipt.delivered,
        queued=receipt.queued,
        recipient=receipt.recipient,
        recipient_state=receipt.recipient_state,
        delivery_class=receipt.delivery_class,
        expires_at=iso(receipt.expires_at),
        resolved_to_session=receipt.resolved_to_session,
        publish_path=receipt.publish_path,
        priority=_LEVELS[receipt.priority],
        requested_priority=_LEVELS[receipt.requested_priority],
        duplicate=receipt.duplicate,
        held=receipt.held,
        durability=receipt.durability,
        copies=receipt.copies,
    )


class DeliveryView(msgspec.Struct, frozen=True):
    """One message handed out."""

    signal_id: str
    #: Time it was handed out, counted from 1.
    offer: int
    #: The envelope, in the recipient's protocol version.
    envelope: dict[str, Any]


class DrainView(msgspec.Struct, frozen=True):
    """What was handed out, most urgent first; the next call is its receipt."""

    deliveries: list[DeliveryView]
    #: How many still wait, by priority.
    waiting: dict[str, int]


def drain_view(drained: Drained) -> DrainView:
    """Write a drain down."""
    return DrainView(
        [DeliveryView(item.signal_id, item.offer, msgspec.json.decode(item.envelope)) for item in drained.deliveries],
        {liminal_name(Priority(level)): count for level, count in enumerate(drained.waiting)},
    )


class MessageView(msgspec.Struct, frozen=True):
    """One recipient's copy of a message, as history knows it."""

    signal_id: str
    message_id: str
    sender: str
    recipient: str
    message_type: str
    #: As admitted.
    priority: str
    #: As it counts now.
    level: str
    state: str
    delivery_class: str
    correlation_id: str | None
    #: Null for a row from before there was such a column.
    publish_path: str | None
    recipient_state: str
    #: Retries used.
    attempts: int
    created_at: str | None
    expires_at: str | None
    offered_at: str | None
    delivered_at: str | None
    acked_at: str | None
    processed_at: str | None
    expired_at: str | None
    recalled_at: str | None
    dead_at: str | None
    payload: Any
    metadata: Any


def message_view(signal: Signal) -> MessageView:
    """Write a message down."""
    values = {name: getattr(signal, name) for name in MessageView.__struct_fields__}
    for name in values:
        if name.endswith("_at"):
            values[name] = moment(values[name])
    values["priority"] = liminal_name(Priority(signal.priority))
    values["level"] = liminal_name(Priority(signal.level))
    values["payload"] = msgspec.json.decode(signal.payload or b"null")
    values["metadata"] = msgspec.json.decode(signal.metadata or b"null")
    return MessageView(**values)


class BriefView(msgspec.Struct, frozen=True):
    """One recipient's copy of a message, without its content."""

    signal_id: str
    message_id: str
    sender: str
    recipient: str
    message_type: str
    #: As admitted.
    priority: str
    #: As it counts now.
    level: str
    state: str
    delivery_class: str
    correlation_id: str | None
    #: Null for a row from before there was such a column.
    publish_path: str | None
    recipient_state: str
    #: Retries used.
    attempts: int
    created_at: str | None
    expires_at: str | None
    #: When nothing more was awaited of it.
    ended_at: str | None


def brief_view(brief: Brief) -> BriefView:
    """Write a row of a list down."""
    values = {name: getattr(brief, name) for name in BriefView.__struct_fields__}
    for name in ("created_at", "expires_at", "ended_at"):
        values[name] = moment(values[name])
    return BriefView(**values | {"priority": _LEVELS[brief.priority], "level": _LEVELS[brief.level]})


class HappeningView(msgspec.Struct, frozen=True):
    """One thing that happened to a message."""

    #: Its place in the journal.
    seq: int
    at: str | None
    #: The event, in the past tense.
    kind: str
    #: Everything else that the event says.
    facts: dict[str, Any]


class LifeView(msgspec.Struct, frozen=True):
    """A message and everything that happened to it, oldest first."""

    message: MessageView
    life: list[HappeningView]


def life_view(signal: Signal) -> LifeView:
    """Write a life down."""
    happenings = []
    for entry in life_of(signal):
        facts = dict(entry)
        seq, at, kind = facts.pop("seq"), facts.pop("at", None), facts.pop("kind")
        happenings.append(HappeningView(seq, moment(at), kind, facts))
    return LifeView(message_view(signal), happenings)


class DeadLetterView(msgspec.Struct, frozen=True):
    """A message that could not be delivered, and why."""

    message: MessageView
    failures: int
    first_failed_at: str | None
    last_failed_at: str | None
    reason: str | None
    code: str | None
    life: list[HappeningView]


def dead_letter_view(letter: DeadLetter) -> DeadLetterView:
    """Write a dead letter down."""
    told = life_view(letter.signal)
    first, last = moment(letter.first_failed_at), moment(letter.last_failed_at)
    return DeadLetterView(told.message, letter.failures, first, last, letter.reason, letter.code, told.life)


class SendView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one send: what fits of these is there."""

    #: Of a message to one recipient.
    receipt: ReceiptView | None = None
    #: Of a broadcast, by recipient.
    receipts: list[ReceiptView] = []
    #: Who was left out of a broadcast, and why.
    failed: dict[str, ProblemDocument] = {}
    #: Of an ACK or NACK that reached nobody but counts: the message, and its state now.
    settled: dict[str, str] = {}
    #: Of a registration: the agent and the protocol version that it is spoken to in.
    registered: dict[str, str] = {}
    #: Of one item of a batch that was refused.
    problem: ProblemDocument | None = None

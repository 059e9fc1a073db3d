"""A message as the exchange holds it: one for each recipient, from acceptance until it is forgotten.

Messages are not tracked by the garbage collector and hold only scalars and bytes, so that a million of them cause no
collection pause. Only the appliers of events change them.

Theory of operation. `MessageRow` declares the fields. The compiled form holds messages as the native class of this
module, which has the same fields in the same order: compiled code reads and writes them without a Python object in
between. Python tracks every instance of a class that is written in Python, so the pure form holds the rows themselves;
there, `native_class` replaces the class by `MessageRow`. Only rows are encoded: see `tocsin.core.snapshot`.
"""

from typing import Any

import msgspec

from tocsin.core.messages.model import (
    NEVER,
    UNENDING,
    PublishPath,
    RecipientState,
    State,
    content_digest,
    native_class,
)
from tocsin.core.protocol.contracts import DeliveryClass

__all__ = [
    "Message",
    "drop_content",
    "is_open_to_recipient",
    "notice_subject",
    "queue_cause",
    "renewed_expiry",
    "signal_id",
]


@native_class(acyclic=True)
class Message:
    """One recipient's copy of an envelope, with its QoS and state; `MessageRow` describes the fields."""

    def __init__(
        self,
        seq: int,
        message_id: str,
        sender: str,
        recipient: str,
        type: str,  # noqa: A002
        priority: int,
        level: int,
        requested: int,
        importance: int,
        decay_rate: float,
        delivery_class: DeliveryClass,
        ack_required: bool,
        state: State,
        created_at: int,
        enqueued_at: int,
        expires_at: int,
        sent_at: int,
        payload: bytes,
        metadata: bytes,
        correlation_id: str | None,
        broadcast_id: str | None,
        recipient_state: RecipientState,
        publish_path: PublishPath,
        resolved_session: str | None,
        own_level: int = 0,
        pushed: bool = False,
        attempts: int = 0,
        offers: int = 0,
        boosts: int = 0,
        overdue: bool = False,
        backing_off: bool = False,
        ready_at: int = NEVER,
        offered_at: int = NEVER,
        delivered_at: int = NEVER,
        acked_at: int = NEVER,
        processed_at: int = NEVER,
        expired_at: int = NEVER,
        recalled_at: int = NEVER,
        dead_at: int = NEVER,
        session: str | None = None,
        digest: bytes | None = None,
        lent: int = 0,
    ) -> None:
        self.seq = seq
        self.message_id = message_id
        self.sender = sender
        self.recipient = recipient
        self.type = type
        self.priority = priority
        self.level = level
        self.requested = requested
        self.importance = importance
        self.decay_rate = decay_rate
        self.delivery_class = delivery_class
        self.ack_required = ack_required
        self.state = state
        self.created_at = created_at
        self.enqueued_at = enqueued_at
        self.expires_at = expires_at
        self.sent_at = sent_at
        self.payload = payload
        self.metadata = metadata
        self.correlation_id = correlation_id
        self.broadcast_id = broadcast_id
        self.recipient_state = recipient_state
        self.publish_path = publish_path
        self.resolved_session = resolved_session
        self.own_level = own_level
        self.pushed = pushed
        self.attempts = attempts
        self.offers = offers
        self.boosts = boosts
        self.overdue = overdue
        self.backing_off = backing_off
        self.ready_at = ready_at
        self.offered_at = offered_at
        self.delivered_at = delivered_at
        self.acked_at = acked_at
        self.processed_at = processed_at
        self.expired_at = expired_at
        self.recalled_at = recalled_at
        self.dead_at = dead_at
        self.session = session
        self.digest = digest
        self.lent = lent

    def copy(self) -> "Message":
        """Return a copy."""
        return Message(
            self.seq,
            self.message_id,
            self.sender,
            self.recipient,
            self.type,
            self.priority,
            self.level,
            self.requested,
            self.importance,
            self.decay_rate,
            self.delivery_class,
            self.ack_required,
            self.state,
            self.created_at,
            self.enqueued_at,
            self.expires_at,
            self.sent_at,
            self.payload,
            self.metadata,
            self.correlation_id,
            self.broadcast_id,
            self.recipient_state,
            self.publish_path,
            self.resolved_session,
            self.own_level,
            self.pushed,
            self.attempts,
            self.offers,
            self.boosts,
            self.overdue,
            self.backing_off,
            self.ready_at,
            self.offered_at,
            self.delivered_at,
            self.acked_at,
            self.processed_at,
            self.expired_at,
            self.recalled_at,
            self.dead_at,
            self.session,
            self.digest,
            self.lent,
        )

    def __eq__(self, other: object) -> bool:
        """Compare all fields, as structs do."""
        return isinstance(other, Message) and self.values() == other.values()

    def values(self) -> tuple[Any, ...]:
        """Return the values of all fields, in their order."""
        return (
            self.seq,
            self.message_id,
            self.sender,
            self.recipient,
            self.type,
            self.priority,
            self.level,
            self.requested,
            self.importance,
            self.decay_rate,
            self.delivery_class,
            self.ack_required,
            self.state,
            self.created_at,
            self.enqueued_at,
            self.expires_at,
            self.sent_at,
            self.payload,
            self.metadata,
            self.correlation_id,
            self.broadcast_id,
            self.recipient_state,
            self.publish_path,
            self.resolved_session,
            self.own_level,
            self.pushed,
            self.attempts,
            self.offers,
            self.boosts,
            self.overdue,
            self.backing_off,
            self.ready_at,
            self.offered_at,
            self.delivered_at,
            self.acked_at,
            self.processed_at,
            self.expired_at,
            self.recalled_at,
            self.dead_at,
            self.session,
            self.digest,
            self.lent,
        )


def signal_id(message: Message) -> str:
    """Return the id of one recipient's copy: the messageId, followed by the recipient for a broadcast."""
    if message.broadcast_id is None:
        return message.message_id
    return f"{message.message_id}:{message.recipient}"


def is_open_to_recipient(message: Message) -> bool:
    """Return whether the recipient may have seen a message: it was offered, or it waits and the recipient may look.

    A message that is held, or that ended before it was offered, is unknown to its recipient.
    """
    return message.offers > 0 or message.state is State.QUEUED


def notice_subject(message: Message) -> str:
    """Return the subject of a notice of the bus; empty if it has none."""
    if len(message.metadata) <= len(b"{}"):
        return ""
    return str(msgspec.json.decode(message.metadata).get("subject", ""))


def drop_content(message: Message) -> None:
    """Replace the content of a message by its digest."""
    if message.digest is None:
        message.digest = content_digest(message.payload)
        message.payload = message.metadata = b""


def renewed_expiry(message: Message, now: int) -> int:
    """Return the time of expiry if the message's TTL begins again now."""
    return UNENDING if message.expires_at == UNENDING else now + message.expires_at - message.enqueued_at


def queue_cause(message: Message) -> str:
    """Return the cause under which the message's present time in the queue is escalated."""
    return f"time_in_queue {message.seq} {message.enqueued_at}"

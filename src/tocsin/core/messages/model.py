"""A message as the exchange holds it: one per recipient, from acceptance until it is forgotten.

The struct is not tracked by the garbage collector and holds only scalars and bytes, so that a million of them cost no
pause. It is changed by the appliers of events and by nothing else.
"""

from enum import StrEnum
from hashlib import blake2b

import msgspec

from tocsin.core.protocol.contracts import DeliveryClass

__all__ = [
    "LENT_BY_RECIPIENT",
    "LENT_BY_SENDER",
    "NEVER",
    "Failure",
    "Message",
    "PublishPath",
    "RecipientState",
    "State",
    "content_digest",
    "queue_cause",
    "signal_id",
]

#: A stamp that has not been set.
NEVER = 0
#: Who lends a message the priority that it has inherited: bits of `Message.lent`.
LENT_BY_SENDER = 1
LENT_BY_RECIPIENT = 2


class State(StrEnum):
    """Where a message is in its life; `tocsin.core.messages.lifecycle` says how it moves."""

    HELD = "held"
    QUEUED = "queued"
    OFFERED = "offered"
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    PROCESSED = "processed"
    EXPIRED = "expired"
    RECALLED = "recalled"
    DEAD = "dead"


class RecipientState(StrEnum):
    """What the sender is told of the recipient (SPEC-071 §4.1)."""

    AVAILABLE = "available"
    STALE = "not_available_stale"
    OFFLINE = "not_available_offline"


class PublishPath(StrEnum):
    """What the bus did at send time (SPEC-071 §4.5)."""

    PUSHED = "pushed_to_ws"
    PIGGYBACK = "buffered_for_piggyback"
    QUEUED = "queued_offline"


class Message(msgspec.Struct, gc=False):
    """An envelope, its QoS and its state."""

    #: Sequence number of its acceptance: its identity in events, and its age in queues.
    seq: int
    message_id: str
    sender: str
    recipient: str
    type: str
    #: As admitted.
    priority: int
    #: As it counts now, with boosts and with what it is lent.
    level: int
    #: As the sender asked.
    requested: int
    importance: int
    #: Share of the importance lost per decay interval.
    decay_rate: float
    delivery_class: DeliveryClass
    #: Whether its contract awaited an ACK when it was accepted.
    ack_required: bool
    state: State
    created_at: int
    #: Since when it ages and decays; later than `created_at` once redriven.
    enqueued_at: int
    expires_at: int
    #: When the sender says it was written.
    sent_at: int
    payload: bytes
    #: Metadata as it came, with keys that Tocsin does not know.
    metadata: bytes
    correlation_id: str | None
    broadcast_id: str | None
    recipient_state: RecipientState
    publish_path: PublishPath
    #: Session that the recipient was resolved to at send time.
    resolved_session: str | None
    #: Whether it was offered within its send.
    pushed: bool = False
    #: Retries used.
    attempts: int = 0
    #: Times offered.
    offers: int = 0
    #: Times that waiting has raised it, as far as its age goes.
    boosts: int = 0
    #: Whether it has waited so long that it goes first in its level.
    overdue: bool = False
    #: Whether a retry waits for its backoff.
    backing_off: bool = False
    ready_at: int = NEVER
    offered_at: int = NEVER
    delivered_at: int = NEVER
    acked_at: int = NEVER
    processed_at: int = NEVER
    expired_at: int = NEVER
    recalled_at: int = NEVER
    dead_at: int = NEVER
    #: Session of the offer that has no receipt yet.
    session: str | None = None
    #: Fingerprint of the content, once the content itself is dropped.
    digest: bytes | None = None
    #: As it would count if nobody lent it anything.
    own_level: int = 0
    #: Who lends it priority: `LENT_BY_SENDER`, `LENT_BY_RECIPIENT`, both or neither.
    lent: int = 0


class Failure(msgspec.Struct, gc=False):
    """What went wrong with a message so far."""

    count: int
    first_at: int
    last_at: int
    reason: str
    code: str


def signal_id(message: Message) -> str:
    """Return the id of one recipient's copy: the messageId, with the recipient where it was a broadcast."""
    if message.broadcast_id is None:
        return message.message_id
    return f"{message.message_id}:{message.recipient}"


def queue_cause(message: Message) -> str:
    """Return what the escalation of its present waiting is known by."""
    return f"time_in_queue {message.seq} {message.enqueued_at}"


def content_digest(payload: bytes) -> bytes:
    """Fingerprint the payload, which a sender may not change when it sends a messageId again."""
    return blake2b(payload, digest_size=16).digest()

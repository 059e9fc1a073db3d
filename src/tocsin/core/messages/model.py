"""A message as the exchange holds it: one for each recipient, from acceptance until it is forgotten.

The struct is not tracked by the garbage collector and holds only scalars and bytes, so that a million of them cause no
collection pause. Only the appliers of events change it.
"""

from enum import StrEnum
from hashlib import blake2b

import msgspec

from tocsin.core.protocol.contracts import DeliveryClass

__all__ = [
    "LENT_BY_RECIPIENT",
    "LENT_BY_SENDER",
    "NEVER",
    "UNENDING",
    "Failure",
    "Message",
    "PublishPath",
    "RecipientState",
    "State",
    "content_digest",
    "notice_metadata",
    "notice_subject",
    "queue_cause",
    "renewed_expiry",
    "signal_id",
]

#: Value of a timestamp that is not set.
NEVER = 0
#: Time of expiry of a message that does not expire: one from before there was a TTL.
UNENDING = 253_402_300_799_000_000
#: Bits of `Message.lent`: the agent from which a message inherits priority.
LENT_BY_SENDER = 1
LENT_BY_RECIPIENT = 2


class State(StrEnum):
    """State of a message; `tocsin.core.messages.lifecycle` has the transitions."""

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
    """Availability of the recipient as the sender sees it."""

    AVAILABLE = "available"
    STALE = "not_available_stale"
    OFFLINE = "not_available_offline"
    #: Not recorded: a message from before there was a record of it.
    UNKNOWN = "unknown"


class PublishPath(StrEnum):
    """Path that a message took at send time."""

    PUSHED = "pushed_to_ws"
    PIGGYBACK = "buffered_for_piggyback"
    QUEUED = "queued_offline"
    #: Not recorded: a message from before there was a record of it.
    UNKNOWN = "unknown"


class Message(msgspec.Struct, gc=False):
    """One recipient's copy of an envelope, with its QoS and state."""

    #: Sequence number of its acceptance: its identity in events and its age in queues.
    seq: int
    message_id: str
    sender: str
    recipient: str
    type: str
    #: Priority at admission.
    priority: int
    #: Present priority level, with boosts and inherited priority.
    level: int
    #: Priority that the sender asked for.
    requested: int
    importance: int
    #: Share of the importance lost per decay interval.
    decay_rate: float
    delivery_class: DeliveryClass
    #: Whether its contract required an ACK when it was accepted.
    ack_required: bool
    state: State
    created_at: int
    #: Time from which it ages and decays; later than `created_at` once redriven.
    enqueued_at: int
    expires_at: int
    #: Time in the sender's envelope.
    sent_at: int
    payload: bytes
    #: Metadata as received, unknown keys included.
    metadata: bytes
    correlation_id: str | None
    broadcast_id: str | None
    recipient_state: RecipientState
    publish_path: PublishPath
    #: Session that the recipient was resolved to at send time.
    resolved_session: str | None
    #: Level without inherited priority.
    own_level: int = 0
    #: Whether it was offered in the same decision that accepted it.
    pushed: bool = False
    #: Retries used.
    attempts: int = 0
    #: Times offered.
    offers: int = 0
    #: Number of times that aging has raised it.
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
    #: Digest of the content, once the content itself is dropped.
    digest: bytes | None = None
    #: Agents that it inherits priority from: `LENT_BY_SENDER`, `LENT_BY_RECIPIENT`, both or neither.
    lent: int = 0


class Failure(msgspec.Struct, gc=False):
    """Delivery failures of a message so far."""

    count: int
    first_at: int
    last_at: int
    reason: str
    code: str


def signal_id(message: Message) -> str:
    """Return the id of one recipient's copy: the messageId, followed by the recipient for a broadcast."""
    if message.broadcast_id is None:
        return message.message_id
    return f"{message.message_id}:{message.recipient}"


def notice_metadata(subject: str) -> bytes:
    """Return the metadata of a notice of the bus about a subject."""
    return msgspec.json.encode({"subject": subject}) if subject else b"{}"


def notice_subject(message: Message) -> str:
    """Return the subject of a notice of the bus; empty if it has none."""
    if len(message.metadata) <= len(b"{}"):
        return ""
    return str(msgspec.json.decode(message.metadata).get("subject", ""))


def renewed_expiry(message: Message, now: int) -> int:
    """Return the time of expiry if the message's TTL begins again now."""
    return UNENDING if message.expires_at == UNENDING else now + message.expires_at - message.enqueued_at


def queue_cause(message: Message) -> str:
    """Return the cause under which the message's present time in the queue is escalated."""
    return f"time_in_queue {message.seq} {message.enqueued_at}"


def content_digest(payload: bytes) -> bytes:
    """Return a digest of the payload, which must not change when a messageId is sent again."""
    return blake2b(payload, digest_size=16).digest()

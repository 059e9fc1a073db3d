"""Fields of a message and their types: `tocsin.core.messages.message` has the message that the exchange holds."""

from collections.abc import Callable
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tocsin.core.protocol.contracts import DeliveryClass

__all__ = [
    "LENT_BY_RECIPIENT",
    "LENT_BY_SENDER",
    "NEVER",
    "UNENDING",
    "Failure",
    "MessageRow",
    "PublishPath",
    "RecipientState",
    "State",
    "content_digest",
    "native_class",
    "notice_metadata",
]

#: Value of a timestamp that is not set.
NEVER: Final = 0
#: Time of expiry of a message that does not expire: one from before there was a TTL.
UNENDING: Final = 253_402_300_799_000_000
#: Bits of `Message.lent`: the agent from which a message inherits priority.
LENT_BY_SENDER: Final = 1
LENT_BY_RECIPIENT: Final = 2


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


class MessageRow(msgspec.Struct, gc=False):
    """One recipient's copy of an envelope, with its QoS and state: a message of a snapshot, and of the pure form."""

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

    #: Return a copy: the struct's own method.
    copy = msgspec.Struct.__copy__  # type: ignore[attr-defined]

    def values(self) -> tuple[Any, ...]:
        """Return the values of all fields, in their order."""
        return msgspec.structs.astuple(self)


if TYPE_CHECKING:
    # mypyc reads this decorator and never calls it.
    from mypy_extensions import mypyc_attr as native_class
else:

    def native_class(**_: object) -> Callable[[type], type]:
        """Return a decorator that replaces the class of messages by `MessageRow`: only the pure form calls it."""
        return lambda _: MessageRow


class Failure(msgspec.Struct, gc=False):
    """Delivery failures of a message so far."""

    count: int
    first_at: int
    last_at: int
    reason: str
    code: str


def notice_metadata(subject: str) -> bytes:
    """Return the metadata of a notice of the bus about a subject."""
    return msgspec.json.encode({"subject": subject}) if subject else b"{}"


def content_digest(payload: bytes) -> bytes:
    """Return a digest of the payload, which must not change when a messageId is sent again."""
    return blake2b(payload, digest_size=16).digest()

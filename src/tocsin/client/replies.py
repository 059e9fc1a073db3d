"""What a client is told, whichever way it is attached: times are datetimes, priorities are LIMINAL's names."""

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from tocsin.core.commands import Acknowledged, Confirmed, Registered
from tocsin.core.errors import InvariantViolation, Problem
from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.protocol.contracts import DeliveryClass

__all__ = [
    "Acknowledged",
    "BroadcastReceipt",
    "Confirmed",
    "DeadLetter",
    "DeadLetters",
    "Happening",
    "Life",
    "Nothing",
    "Peer",
    "RecallResult",
    "Receipt",
    "Record",
    "Records",
    "Redriven",
    "Registered",
    "Rejected",
    "SendReply",
    "Sent",
    "Settled",
    "Waiting",
    "Welcome",
]


class Receipt(msgspec.Struct, frozen=True):
    """What became of a send (SPEC-071 §5), and what it can be relied upon."""

    signal_id: str
    message_id: str
    delivered: bool
    queued: bool
    recipient: str
    recipient_state: RecipientState
    delivery_class: DeliveryClass
    expires_at: datetime
    resolved_to_session: str | None
    publish_path: PublishPath
    #: Priority granted.
    priority: str
    #: Priority asked for.
    requested_priority: str
    #: Whether this messageId had been accepted before.
    duplicate: bool
    #: `flushed` or `replicated`; `buffered` where a power cut could undo it.
    durability: str
    #: On how many nodes it is durable.
    copies: int
    #: Whether it is held until a director has approved it.
    held: bool = False


class BroadcastReceipt(msgspec.Struct, frozen=True):
    """What became of a broadcast."""

    receipts: tuple[Receipt, ...]
    #: Who was left out, and why.
    failed: dict[str, Problem]

    @property
    def duplicate(self) -> bool:
        """Tell whether it had been accepted before."""
        return any(receipt.duplicate for receipt in self.receipts)


class Settled(msgspec.Struct, frozen=True):
    """What became of an ACK or NACK that reached nobody but counts: the message, and its state now."""

    signal_id: str
    state: str


Sent: TypeAlias = Receipt | BroadcastReceipt | Settled | Registered


class SendReply(msgspec.Struct, frozen=True):
    """What became of one send, as it travels: what fits of these is there."""

    receipt: Receipt | None = None
    receipts: tuple[Receipt, ...] = ()
    failed: dict[str, Problem] = {}
    settled: Settled | None = None
    registered: Registered | None = None

    def sent(self) -> Sent:
        """Return the one that is there."""
        if self.receipt is not None:
            return self.receipt
        if self.receipts or self.failed:
            return BroadcastReceipt(self.receipts, self.failed)
        told = self.settled or self.registered
        if told is None:
            raise InvariantViolation("the hub answered a send with nothing")
        return told


class Welcome(msgspec.Struct, frozen=True):
    """What a hub says to a client that attaches."""

    #: Who the client is, as its token says.
    agent: str
    session: str
    #: Whether the session is the one that was asked for.
    resumed: bool
    #: Protocol version that the client is spoken to in.
    version: str
    window: int
    #: Time between two signs of life, seconds.
    heartbeat_s: float
    batch_max: int
    frame_bytes_max: int
    message_bytes_max: int
    #: Operations without an answer.
    in_flight_max: int
    #: Messages that wait, by priority.
    waiting: tuple[int, ...]


class Waiting(msgspec.Struct, frozen=True):
    """How many messages wait, by priority."""

    waiting: tuple[int, ...]


class Rejected(msgspec.Struct, frozen=True):
    """The rejection stands."""

    signal_id: str
    state: str
    #: When it is offered again, where it is; microseconds since the epoch.
    ready_at: int | None = None


class RecallResult(msgspec.Struct, frozen=True):
    """What became of a recall (SPEC-071 §4.4)."""

    #: `recalled`, `already_delivered`, `already_expired` or `not_found`: the best of all copies.
    outcome: str
    #: By recipient.
    outcomes: dict[str, str]


class Redriven(msgspec.Struct, frozen=True):
    """What was queued again, and what was not, with the reason."""

    redriven: tuple[str, ...]
    refused: dict[str, Problem]


class Peer(msgspec.Struct, frozen=True):
    """An agent, and whether it is there."""

    agent: str
    #: What it is for routing.
    type: str
    #: What it may do.
    role: str
    #: Protocol version that it is spoken to in.
    version: str
    #: Message types that it takes; empty is any.
    capabilities: tuple[str, ...]
    presence: RecipientState
    #: Open sessions by kind.
    sessions: dict[str, int]
    #: How many messages wait for it, by priority.
    waiting: dict[str, int]
    #: Whether it is taken to inflate its priorities.
    gaming: bool
    registered_at: datetime | None


class Record(msgspec.Struct, frozen=True):
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
    delivery_class: DeliveryClass
    correlation_id: str | None
    publish_path: PublishPath
    recipient_state: RecipientState
    #: Retries used.
    attempts: int
    created_at: datetime | None
    expires_at: datetime | None
    offered_at: datetime | None
    delivered_at: datetime | None
    acked_at: datetime | None
    processed_at: datetime | None
    expired_at: datetime | None
    recalled_at: datetime | None
    dead_at: datetime | None
    payload: Any
    metadata: Any


class Records(msgspec.Struct, frozen=True):
    """Messages of the past, and where to go on."""

    items: list[Record]
    #: Cursor of the next page; null where this is the last.
    next: int | None


class Happening(msgspec.Struct, frozen=True):
    """One thing that happened to a message."""

    #: Its place in the journal.
    seq: int
    at: datetime | None
    #: The event, in the past tense.
    kind: str
    #: Everything else that the event says.
    facts: dict[str, Any]


class Life(msgspec.Struct, frozen=True):
    """A message and everything that happened to it, oldest first."""

    message: Record
    life: list[Happening]


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that could not be delivered, and why."""

    message: Record
    failures: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    reason: str | None
    code: str | None
    life: list[Happening]


class DeadLetters(msgspec.Struct, frozen=True):
    """Dead letters, and where to go on."""

    items: list[DeadLetter]
    #: Cursor of the next page; null where this is the last.
    next: int | None


class Nothing(msgspec.Struct, frozen=True):
    """It is done, and there is nothing to add."""

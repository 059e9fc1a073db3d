"""Sending, taking and settling messages, and what comes back."""

import msgspec

from tocsin.core.commands.base import CommandBase
from tocsin.core.errors import Problem
from tocsin.core.messages.model import Message, PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.priority import Priority

__all__ = [
    "Acknowledge",
    "Acknowledged",
    "BroadcastReceipt",
    "Confirm",
    "Confirmed",
    "Delivery",
    "Drain",
    "Drained",
    "MarkProcessed",
    "Recall",
    "RecallResult",
    "Receipt",
    "Redrive",
    "Redriven",
    "Reject",
    "Rejected",
    "Send",
    "receipt_of",
]


class Send(CommandBase, frozen=True):
    """Send an envelope."""

    envelope: Envelope


class Drain(CommandBase, frozen=True):
    """Take what waits, most urgent first; confirms what the session was offered before."""

    session: str
    limit: int
    #: Nothing below this level.
    at_least: int = 0
    #: Payloads of no more than this many bytes in all; absent is the policy's, which the first message may exceed.
    bytes_max: int | None = None
    #: Whether the call is the receipt of all that the session was offered; a gateway that knows better confirms itself.
    confirms: bool = True


class Confirm(CommandBase, frozen=True):
    """Confirm receipt."""

    message_ids: tuple[str, ...]


class Acknowledge(CommandBase, frozen=True):
    """Acknowledge a message."""

    message_id: str
    #: `received`, `queued` or `processed`.
    status: str = "received"
    notes: str = ""


class Reject(CommandBase, frozen=True):
    """Reject a message, for now or for good."""

    message_id: str
    reason: str
    code: str = ""
    can_retry: bool = False
    suggested_fix: str = ""


class MarkProcessed(CommandBase, frozen=True):
    """Say that a message has been dealt with."""

    message_id: str


class Recall(CommandBase, frozen=True):
    """Take back what nobody has been offered yet: a messageId, or one copy's signal id."""

    message_id: str


class Redrive(CommandBase, frozen=True):
    """Queue dead letters again."""

    #: Signal ids.
    signal_ids: tuple[str, ...]


class Receipt(msgspec.Struct, frozen=True):
    """What became of a send (SPEC-071 §5), and what it can be relied upon."""

    signal_id: str
    message_id: str
    delivered: bool
    queued: bool
    recipient: str
    recipient_state: RecipientState
    delivery_class: DeliveryClass
    expires_at: int
    resolved_to_session: str | None
    publish_path: PublishPath
    #: Priority granted.
    priority: int
    #: Priority asked for.
    requested_priority: int
    #: Whether this messageId had been accepted before.
    duplicate: bool = False
    #: Whether it is held until a director has approved it.
    held: bool = False
    #: What a crash cannot undo: filled in by whoever made it durable.
    durability: str = "none"
    #: On how many nodes it is durable.
    copies: int = 0


class BroadcastReceipt(msgspec.Struct, frozen=True):
    """What became of a broadcast."""

    broadcast_id: str
    receipts: tuple[Receipt, ...]
    #: Who was left out, and why.
    failed: dict[str, Problem]
    duplicate: bool = False

    @property
    def code(self) -> str | None:
        """Return E_ROUTING_004 where somebody was left out."""
        return "E_ROUTING_004" if self.failed else None


class Delivery(msgspec.Struct, frozen=True):
    """One message on its way to its recipient."""

    signal_id: str
    session: str
    offer: int
    #: The envelope, in the recipient's protocol version.
    envelope: bytes
    #: messageId of the work that it interrupts: put that aside first.
    interrupts: str | None = None
    #: How urgent it is now, with what it has gained by waiting.
    priority: int = Priority.INFO


class Drained(msgspec.Struct, frozen=True):
    """What was taken, and how much still waits by priority."""

    deliveries: tuple[Delivery, ...]
    waiting: tuple[int, ...]


class Confirmed(msgspec.Struct, frozen=True):
    """How many receipts were news; the others had been confirmed before."""

    confirmed: int
    #: Ids that are not the caller's, or forgotten.
    unknown: tuple[str, ...] = ()


class Acknowledged(msgspec.Struct, frozen=True):
    """The acknowledgement stands."""

    signal_id: str
    state: str
    #: Whether it had been acknowledged before.
    duplicate: bool = False


class Rejected(msgspec.Struct, frozen=True):
    """The rejection stands."""

    signal_id: str
    state: str
    #: When it is offered again, where it is.
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


def receipt_of(message: Message, signal: str, *, duplicate: bool) -> Receipt:
    """Say of a message what its sender was, or is, told; a redrive does not change that."""
    return Receipt(
        signal_id=signal,
        message_id=message.message_id,
        delivered=message.pushed,
        queued=not message.pushed and message.state is not State.HELD,
        recipient=message.recipient,
        recipient_state=message.recipient_state,
        delivery_class=message.delivery_class,
        expires_at=message.created_at + message.expires_at - message.enqueued_at,
        resolved_to_session=message.resolved_session,
        publish_path=message.publish_path,
        priority=message.priority,
        requested_priority=message.requested,
        duplicate=duplicate,
        held=message.state is State.HELD,
    )

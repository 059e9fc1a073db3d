"""Commands that send, fetch, settle, recall and redrive messages, and their replies."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase, MessageRef, Name
from tocsin.core.errors import Problem
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.priority import PRIORITY_NAMES, AnyPriorityName, Priority
from tocsin.core.protocol.rendering import render_envelope
from tocsin.core.protocol.timestamps import as_datetime

__all__ = [
    "AckStatus",
    "Acknowledge",
    "Acknowledged",
    "BroadcastReceipt",
    "Confirm",
    "Confirmed",
    "Delivery",
    "Drain",
    "Drained",
    "MarkProcessed",
    "QuotedCursors",
    "Reach",
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

#: How far the recipient is with a message.
AckStatus: TypeAlias = Literal["received", "queued", "processed"]
_HELD = State.HELD
#: Cursors of drains, separated by commas or spaces; one names a few bytes for each of its messages.
QuotedCursors: TypeAlias = Annotated[str, Meta(max_length=16_384)]
_Message = Annotated[MessageRef, Meta(description="The message_id of the message.")]


class Send(CommandBase, frozen=True, gc=False):
    """Send a message to an agent, or to all agents."""

    envelope: Envelope


class Drain(CommandBase, frozen=True):
    """Hand out waiting messages to a session, the most urgent first."""

    session: Name
    limit: int
    #: Lowest level to hand out.
    at_least: int = 0
    #: Bytes of payloads and metadata in all; the policy's limit if absent, which the first message may exceed.
    bytes_max: int | None = None
    #: The only message to hand out, if it waits; its size is not limited.
    message_id: MessageRef | None = None


class Confirm(CommandBase, frozen=True):
    """Confirm the receipt of messages."""

    message_ids: Annotated[tuple[MessageRef, ...], Meta(description="Messages that were received.")] = ()
    receipt: Annotated[QuotedCursors, Meta(description="Cursors of the drains that were received.")] = ""


class Acknowledge(CommandBase, frozen=True):
    """Acknowledge a message."""

    message_id: _Message
    status: Annotated[
        AckStatus,
        Meta(description="received: you have it; queued: you will do it; processed: you have done it."),
    ] = "received"
    notes: Annotated[str, Meta(description="Notes for the sender.")] = ""


class Reject(CommandBase, frozen=True):
    """Reject a message, temporarily or permanently."""

    message_id: _Message
    reason: Annotated[str, Meta(description="Why the message cannot be handled.")]
    code: Annotated[str, Meta(description="An error code, such as E_TASK_001.")] = ""
    can_retry: Annotated[bool, Meta(description="true: deliver it again later; false: it becomes a dead letter.")] = (
        False
    )
    suggested_fix: Annotated[str, Meta(description="What the sender can do about it.")] = ""


class MarkProcessed(CommandBase, frozen=True):
    """Mark a message as processed."""

    message_id: _Message


class Recall(CommandBase, frozen=True):
    """Recall a message that has not been handed out yet; only its sender can."""

    message_id: _Message


class Redrive(CommandBase, frozen=True):
    """Queue dead letters again; senders may redrive their own, directors all."""

    signal_ids: Annotated[tuple[MessageRef, ...], Meta(description="Signal ids of the dead letters.")]


#: Ways in which a message reaches an agent.
Reach: TypeAlias = Literal["push", "channel", "hook", "waker", "none"]


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The result of sending a message to one recipient."""

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
    priority: AnyPriorityName
    #: Priority requested.
    requested_priority: AnyPriorityName
    #: Whether this messageId was accepted before.
    duplicate: bool = False
    #: Whether it is held until a director approves it.
    held: bool = False
    #: `flushed` or `replicated`; `buffered` if a power cut could lose it; `none` before the commit.
    durability: str = "none"
    #: Number of nodes that have stored it.
    copies: int = 0
    #: How it reaches its recipient: `push` (connected), `channel` (an idle agent is notified), `hook` (its next check
    #: or call), `waker` (it is not running and is woken, if the priority is high enough), `none` until it comes back.
    reach: Reach = "push"


class BroadcastReceipt(msgspec.Struct, frozen=True):
    """The result of sending a message to several recipients."""

    broadcast_id: str
    receipts: tuple[Receipt, ...]
    #: Recipients that could not accept it, and why.
    failed: dict[str, Problem]
    duplicate: bool = False

    @property
    def code(self) -> str | None:
        """Return E_ROUTING_004 if a recipient could not accept it."""
        return "E_ROUTING_004" if self.failed else None


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message that was offered to a session, as it was then; its envelope is written when it is asked for."""

    signal_id: str
    session: str
    offer: int
    #: The message; only what never changes may be read from it.
    message: Message
    #: Name of its type in the recipient's protocol version.
    message_type: str
    sender_type: str
    recipient_type: str
    #: Protocol version of the recipient.
    version: str
    #: Payload and metadata as accepted; the message loses them when it ends.
    payload: bytes
    metadata: bytes
    #: Retries used.
    attempt: int
    #: messageId of the work that it interrupts: put that aside first.
    interrupts: str | None = None
    #: Current level, including boosts.
    priority: int = Priority.INFO

    @property
    def envelope(self) -> bytes:
        """Return the envelope, in the recipient's protocol version."""
        types, content = (self.sender_type, self.recipient_type), (self.payload, self.metadata)
        return render_envelope(self.message, self.message_type, types, self.version, content, self.attempt)


class Drained(msgspec.Struct, frozen=True):
    """Messages that were handed out, and the number still waiting by level."""

    deliveries: tuple[Delivery, ...]
    waiting: tuple[int, ...]
    #: Names these messages: quoting it confirms that they were received. Empty if there are none.
    cursor: str = ""


class Confirmed(msgspec.Struct, frozen=True):
    """Number of receipts that were new."""

    confirmed: int
    #: Ids and cursors that are unknown or belong to another agent.
    unknown: tuple[str, ...] = ()


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """An acknowledged message and its state."""

    signal_id: str
    state: str
    #: Whether it was acknowledged before.
    duplicate: bool = False


class Rejected(msgspec.Struct, frozen=True):
    """A rejected message and its state."""

    signal_id: str
    state: str
    #: When it is offered again, if it is.
    ready_at: datetime | None = None


class RecallResult(msgspec.Struct, frozen=True):
    """The result of a recall."""

    #: `recalled`, `already_delivered`, `already_expired` or `not_found`: the best outcome of all copies.
    outcome: str
    #: By recipient.
    outcomes: dict[str, str]


class Redriven(msgspec.Struct, frozen=True):
    """Dead letters that were queued again, and those that were refused with the reason."""

    redriven: tuple[str, ...]
    refused: dict[str, Problem]


def receipt_of(message: Message, signal: str, *, duplicate: bool, reach: Reach = "push") -> Receipt:
    """Return the receipt of an accepted message; a redrive does not change it."""
    held = message.state is _HELD
    # By position, in the order of the fields: every send makes one.
    return Receipt(
        signal,
        message.message_id,
        message.pushed,
        not message.pushed and not held,
        message.recipient,
        message.recipient_state,
        message.delivery_class,
        as_datetime(message.created_at + message.expires_at - message.enqueued_at),
        message.resolved_session,
        message.publish_path,
        PRIORITY_NAMES[message.priority],
        PRIORITY_NAMES[message.requested],
        duplicate,
        held,
        reach=reach,
    )

"""The socket protocol `tocsin.v1`, shared by the hub and the SDK.

A frame is a JSON array: of operations to the hub, of items from it. This module has the structs and the decoding, and
explains what cannot be decoded. Envelopes pass through as raw JSON.
"""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from tocsin.core import commands as cmd
from tocsin.core.errors import Problem
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.validation import explain, quote
from tocsin.wire.arguments import unknown_argument
from tocsin.wire.bounded import TooMany, read_items
from tocsin.wire.problems import ProblemDocument

__all__ = [
    "OPERATION_NAMES",
    "OPERATION_TYPES",
    "SUBPROTOCOL",
    "Acknowledge",
    "Answer",
    "AnyItem",
    "Bye",
    "Call",
    "Confirm",
    "Credit",
    "Deliver",
    "Fault",
    "Goodbye",
    "Hello",
    "Item",
    "Leave",
    "MarkProcessed",
    "Operation",
    "Ping",
    "Push",
    "Recall",
    "Refusal",
    "Reject",
    "Send",
    "Waiting",
    "Welcome",
    "encode_frame",
    "read_frame",
]

SUBPROTOCOL = "tocsin.v1"

#: Chosen by the client, unique among its operations without an answer.
Id = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class _Operation(
    msgspec.Struct, gc=False, tag_field="op", kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of all operations; `op` is the name."""


class Hello(_Operation, tag="hello"):
    """Open a session, or resume one: the first operation on a socket."""

    id: Id
    #: Offers without receipt at a time; the policy's default if absent.
    window: int | None = None
    #: The session to resume.
    session: str | None = None
    #: Register the agent with this type first; absent leaves its registration as it is.
    type: str | None = None
    #: Protocol versions that the agent supports.
    versions: tuple[str, ...] = VERSIONS
    #: Message types that the agent accepts; empty is any.
    capabilities: tuple[str, ...] = ()
    #: Open a `daemon` session: the agent's always-on listener, shown apart from its other sessions.
    daemon: bool = False
    #: Open a `channel` session: nothing is offered to it. It gets a `deliver` item with `offer` 0 for each message at
    #: or above the policy's `wake.level` that begins to wait, and for each `ApprovalDecided`, so that an idle agent can
    #: be notified; the message stays in the inbox.
    channel: bool = False


class Send(_Operation, tag="send_message"):
    """Send one envelope."""

    id: Id
    envelope: Raw
    #: HMAC of the envelope's bytes.
    signature: str | None = None


class Confirm(_Operation, tag="confirm_messages"):
    """Confirm the receipt of messages."""

    #: Message ids or signal ids.
    message_ids: tuple[str, ...]
    id: Id | None = None


class Acknowledge(_Operation, tag="acknowledge_message"):
    """Acknowledge a message."""

    id: Id
    message_id: str
    status: cmd.AckStatus = "received"
    notes: str = ""


class Reject(_Operation, tag="reject_message"):
    """Reject a message, temporarily or permanently."""

    id: Id
    message_id: str
    reason: str
    code: str = ""
    #: Whether another attempt may succeed.
    can_retry: bool = False
    suggested_fix: str = ""


class MarkProcessed(_Operation, tag="mark_processed"):
    """Mark a message as processed."""

    id: Id
    message_id: str


class Recall(_Operation, tag="recall_message"):
    """Recall a message that has not been handed out yet."""

    id: Id
    message_id: str


class Credit(_Operation, tag="credit"):
    """Change how many offers without receipt the session accepts at a time; 0 pauses it."""

    window: int
    id: Id | None = None


class Ping(_Operation, tag="ping"):
    """Keep the session fresh, and ask how many messages wait."""

    id: Id


class Call(_Operation, tag="call"):
    """Call an operation of the table by its name."""

    id: Id
    #: Name of the operation.
    operation: str
    #: Its arguments.
    arguments: dict[str, Any] = {}
    #: The envelope, if the operation sends one.
    envelope: Raw | UnsetType = UNSET
    #: HMAC of the envelope's bytes, or of the arguments where they are words for other agents.
    signature: str | None = None


class Bye(_Operation, tag="bye"):
    """Close the session; messages without receipt return to the queue."""

    id: Id | None = None


Operation: TypeAlias = (
    Hello | Send | Confirm | Acknowledge | Reject | MarkProcessed | Recall | Credit | Ping | Call | Bye
)

#: Names that operations had, and their names now.
_RENAMED = {
    "send": "send_message",
    "confirm": "confirm_messages",
    "ack": "acknowledge_message",
    "nack": "reject_message",
    "processed": "mark_processed",
    "recall": "recall_message",
}

OPERATION_TYPES: tuple[type[_Operation], ...] = tuple(_Operation.__subclasses__())
OPERATION_NAMES = {str(shape.__struct_config__.tag): shape for shape in OPERATION_TYPES}


class Welcome(msgspec.Struct, frozen=True):
    """The answer to `hello`."""

    agent: str
    session: str
    #: Whether the session is the one that was asked for; its unconfirmed offers follow.
    resumed: bool
    #: Protocol version that the agent is spoken to in.
    version: str
    #: Offers without receipt at a time.
    window: int
    #: How often to show a sign of life at least, seconds.
    heartbeat_s: float
    #: Operations in one frame at most, both ways.
    batch_max: int
    #: Bytes of one frame at most; a single item may make a frame of the hub larger.
    frame_bytes_max: int
    #: Bytes of one envelope at most.
    message_bytes_max: int
    #: Operations without an answer at most; beyond them the hub stops reading.
    in_flight_max: int
    #: How many messages wait, by priority, lowest first.
    waiting: tuple[int, ...]


class Waiting(msgspec.Struct, frozen=True):
    """The answer to `ping`."""

    #: How many messages wait, by priority, lowest first.
    waiting: tuple[int, ...]


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An operation is done and durable."""

    #: Id of the operation.
    re: int
    #: The reply of the operation.
    ok: Any


class Refusal(msgspec.Struct, frozen=True):
    """An operation was refused."""

    #: Id of the operation; null where it could not be read.
    re: int | None
    #: Why.
    problem: ProblemDocument


class Deliver(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One message."""

    signal_id: str
    #: Time it was offered, counted from 1; 0 on a channel session, which is only told that it waits.
    offer: int
    session: str
    #: The envelope, in the recipient's protocol version.
    envelope: Raw
    #: messageId of the work that it interrupts, where it does.
    interrupts: str | None = None


class Push(msgspec.Struct, frozen=True, gc=False):
    """A message on its way; `confirm` is its receipt."""

    deliver: Deliver


class Leave(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why the hub closes."""

    #: In a sentence.
    reason: str
    #: Whether to come back for the session.
    resume: bool
    #: Code of the catalogue, where the token has ended: `E_AUTH_004` or `E_AUTH_005`.
    code: str | None = None
    #: Address of the hub that serves the project from now on, where the project moves.
    address: str | None = None


class Goodbye(msgspec.Struct, frozen=True):
    """The last item of a socket that the hub closes."""

    bye: Leave


Item: TypeAlias = Answer | Refusal | Push | Goodbye


class AnyItem(msgspec.Struct, frozen=True, gc=False):
    """An item as a client reads it: the fields that are set tell which one it is."""

    re: int | None = None
    ok: Raw = Raw(b"")
    problem: Problem | None = None
    deliver: Deliver | None = None
    bye: Leave | None = None


class Fault(msgspec.Struct, frozen=True):
    """An operation, or a frame, that cannot be understood."""

    #: Its id, where it could be read.
    id: int | None
    problem: Problem


class _Named(msgspec.Struct, frozen=True):
    id: Id | None = None


_FRAME = msgspec.json.Decoder(list[Operation])
_PART: "msgspec.json.Decoder[Operation]" = msgspec.json.Decoder(Operation)
_NAMED = msgspec.json.Decoder(_Named)
_ENCODER = msgspec.json.Encoder()


def encode_frame(items: list[Item]) -> bytes:
    """Write items as one frame."""
    return _ENCODER.encode(items)


def read_frame(text: bytes | str, batch_max: int) -> list[Operation | Fault]:
    """Read a frame; each operation that cannot be understood has a fault in its place."""
    try:
        operations = _FRAME.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _read_loosely(text, batch_max)
    return list(operations) if len(operations) <= batch_max else [_too_many(batch_max)]


def _read_loosely(text: bytes | str, batch_max: int) -> list[Operation | Fault]:
    """Find out which operations of a frame are at fault; the others count."""
    try:
        parts = read_items(text, batch_max)
    except TooMany:
        return [_too_many(batch_max)]
    except msgspec.ValidationError:
        detail = "a frame is a JSON array of operations"
        return [Fault(None, Problem("E_VALIDATION_002", detail, "$", expected="an array"))]
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return [Fault(None, Problem("E_PROTOCOL_002", f"the frame is not JSON: {error}"))]
    return [_read_part(part) for part in parts]


def _read_part(part: Raw) -> Operation | Fault:
    try:
        return _PART.decode(part)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Fault(_id_of(part), _explain(part))


def _explain(part: Raw) -> Problem:
    try:
        value = msgspec.json.decode(part)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Problem("E_PROTOCOL_002", f"the operation is not JSON: {error}")
    if not isinstance(value, dict):
        return Problem("E_VALIDATION_002", "an operation is an object", "$", quote(value), "an object")
    name = value.get("op")
    shape = OPERATION_NAMES.get(name) if isinstance(name, str) else None
    if shape is None:
        renamed = _RENAMED.get(name) if isinstance(name, str) else None
        known = f"now called {renamed}" if renamed else "one of " + ", ".join(OPERATION_NAMES)
        return Problem("E_VALIDATION_003", f"op is {quote(name)}: it must be {known}", "$.op", quote(name), known)
    fields = list(shape.__struct_fields__)
    for field in value:
        if field != "op" and field not in fields:
            return unknown_argument(str(name), field, fields).problem
    return explain(shape, value)


def _id_of(part: Raw) -> int | None:
    try:
        return _NAMED.decode(part).id
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _too_many(batch_max: int) -> Fault:
    found = f"more than {batch_max} operations"
    return Fault(
        None, Problem("E_ADMISSION_008", f"the frame has {found}", "$", found, f"at most {batch_max} operations")
    )

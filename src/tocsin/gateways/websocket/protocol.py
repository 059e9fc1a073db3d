"""What goes over the wire, `tocsin.v1`: a frame is a JSON array, of operations one way and of items the other.

Owns the shapes and the decoding, and says of what cannot be understood why, by the catalogue. Envelopes pass through
as raw JSON. Refuses to know what any operation does.
"""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw

from tocsin.core.errors import Problem
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.validation import explain, quote
from tocsin.gateways.http.problems import ProblemDocument

__all__ = [
    "OPERATION_NAMES",
    "OPERATION_TYPES",
    "SUBPROTOCOL",
    "Ack",
    "Answer",
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
    "Nack",
    "Operation",
    "Ping",
    "Processed",
    "Push",
    "Recall",
    "Refusal",
    "Send",
    "WaitingView",
    "Welcome",
    "encode_frame",
    "read_frame",
]

SUBPROTOCOL = "tocsin.v1"

#: Chosen by the client, unique among its operations without an answer.
Id = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class _Operation(msgspec.Struct, frozen=True, gc=False, tag_field="op", tag=str.lower):
    """Base of all operations; `op` names it."""


class Hello(_Operation, frozen=True):
    """Open a session, or come back for one: the first operation of a socket."""

    id: Id
    #: Offers without receipt to take at a time; absent is the policy's default.
    window: int | None = None
    #: The session to come back for.
    session: str | None = None
    #: Registers the agent as this type first; absent leaves it as it is registered.
    agent_type: str | None = None
    #: Protocol versions that the agent speaks.
    supported: tuple[str, ...] = VERSIONS
    #: Message types that it takes; empty is any.
    capabilities: tuple[str, ...] = ()
    #: Whether it is the agent's always-on listener, which a dashboard shows apart from its other sessions.
    daemon: bool = False


class Send(_Operation, frozen=True):
    """Send one envelope."""

    id: Id
    #: The envelope, as APM has it.
    envelope: Raw
    #: HMAC of the envelope's bytes, as HTTP's `Tocsin-Signature`.
    signature: str | None = None


class Confirm(_Operation, frozen=True):
    """Confirm receipt."""

    #: Message ids, or signal ids.
    message_ids: tuple[str, ...]
    id: Id | None = None


class Ack(_Operation, frozen=True):
    """Acknowledge a message."""

    id: Id
    message_id: str
    status: Literal["received", "queued", "processed"] = "received"
    notes: str = ""


class Nack(_Operation, frozen=True):
    """Reject a message, for now or for good."""

    id: Id
    message_id: str
    reason: str
    code: str = ""
    #: Whether another attempt may help.
    can_retry: bool = False
    suggested_fix: str = ""


class Processed(_Operation, frozen=True):
    """Say that a message has been dealt with."""

    id: Id
    message_id: str


class Recall(_Operation, frozen=True):
    """Take back what nobody has been offered yet; only its sender can."""

    id: Id
    message_id: str


class Credit(_Operation, frozen=True):
    """Take more offers without receipt at a time, or fewer; 0 pauses."""

    window: int
    id: Id | None = None


class Ping(_Operation, frozen=True):
    """Show that the session lives, and ask what waits."""

    id: Id


class Call(_Operation, frozen=True):
    """Do an operation of the HTTP gateway by its name."""

    id: Id
    #: Its `operationId`.
    operation: str
    #: Parameters of its path.
    path: dict[str, str] = {}
    #: Its query.
    query: dict[str, Any] = {}
    #: Its body.
    body: dict[str, Any] = {}
    #: The envelope, in place of a body, where the operation takes one.
    envelope: Raw = msgspec.field(default_factory=Raw)
    #: HMAC of the envelope, where it is signed.
    signature: str | None = None


class Bye(_Operation, frozen=True):
    """Close the session; what was not confirmed goes back to the queue."""

    id: Id | None = None


Operation: TypeAlias = Hello | Send | Confirm | Ack | Nack | Processed | Recall | Credit | Ping | Call | Bye

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


class WaitingView(msgspec.Struct, frozen=True):
    """The answer to `ping`."""

    #: How many messages wait, by priority, lowest first.
    waiting: tuple[int, ...]


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An operation is done and durable."""

    #: Id of the operation.
    re: int
    #: What HTTP answers with.
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
    #: Time it was offered, counted from 1.
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


class Goodbye(msgspec.Struct, frozen=True):
    """The last item of a socket that the hub closes."""

    bye: Leave


Item: TypeAlias = Answer | Refusal | Push | Goodbye


class Fault(msgspec.Struct, frozen=True):
    """An operation, or a frame, that cannot be understood."""

    #: Its id, where it could be read.
    id: int | None
    problem: Problem


class _Named(msgspec.Struct, frozen=True):
    id: Id | None = None


_FRAME = msgspec.json.Decoder(list[Operation])
_PARTS = msgspec.json.Decoder(list[Raw])
_PART: "msgspec.json.Decoder[Operation]" = msgspec.json.Decoder(Operation)
_NAMED = msgspec.json.Decoder(_Named)
_ENCODER = msgspec.json.Encoder()


def encode_frame(items: list[Item]) -> str:
    """Write items as one frame."""
    return _ENCODER.encode(items).decode()


def read_frame(text: str, batch_max: int) -> list[Operation | Fault]:
    """Read a frame; each operation that cannot be understood has a fault in its place."""
    try:
        operations = _FRAME.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _read_loosely(text, batch_max)
    if len(operations) > batch_max:
        return [_too_many(len(operations), batch_max)]
    return list(operations)


def _read_loosely(text: str, batch_max: int) -> list[Operation | Fault]:
    """Find out which operations of a frame are at fault; the others count."""
    try:
        parts = _PARTS.decode(text)
    except msgspec.ValidationError:
        detail = "a frame is a JSON array of operations"
        return [Fault(None, Problem("E_VALIDATION_002", detail, "$", expected="an array"))]
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return [Fault(None, Problem("E_PROTOCOL_002", f"the frame is not JSON: {error}"))]
    if len(parts) > batch_max:
        return [_too_many(len(parts), batch_max)]
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
        known = "one of " + ", ".join(OPERATION_NAMES)
        return Problem("E_VALIDATION_003", f"op is {quote(name)}: it must be {known}", "$.op", quote(name), known)
    return explain(shape, value)


def _id_of(part: Raw) -> int | None:
    try:
        return _NAMED.decode(part).id
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _too_many(found: int, batch_max: int) -> Fault:
    detail = f"a frame of {found} operations: at most {batch_max} are taken"
    return Fault(None, Problem("E_ADMISSION_008", detail, "$", f"{found} operations", f"at most {batch_max}"))

"""What the tools take: each argument with its limits and with what a model needs to know of it."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.core.protocol.envelope import CorrelationId, MessageId, TypeName
from tocsin.core.protocol.payloads import PAYLOADS
from tocsin.core.protocol.validation import describe

__all__ = [
    "AcknowledgeArguments",
    "Arguments",
    "DeadLetterArguments",
    "FetchArguments",
    "GetArguments",
    "ListAgentsArguments",
    "RecallArguments",
    "RegisterArguments",
    "RejectArguments",
    "ReplyArguments",
    "Saying",
    "SearchArguments",
    "SendArguments",
    "WhoisArguments",
]


def payload_of(*kinds: str) -> str:
    """Say what the payloads of some message types must have."""
    return "; ".join(f"{kind} needs {_needed(PAYLOADS[kind])}" for kind in kinds)


def _needed(shape: type) -> str:
    return ", ".join(
        f"{field.encode_name}{_kind(msgspec.inspect.type_info(field.type))}"
        for field in msgspec.structs.fields(shape)
        if field.required
    )


def _kind(shape: msgspec.inspect.Type) -> str:
    match shape:
        case msgspec.inspect.StrType():
            return ""
        case msgspec.inspect.StructType(cls=cls):
            return f" (with {_needed(cls)})"
        case msgspec.inspect.FloatType(ge=low, le=high) if low is not None and high is not None:
            return f" ({low:g} to {high:g})"
        case _:
            return f" ({describe(shape)})"


Level = Literal["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
Id = Annotated[
    str, Meta(min_length=1, max_length=192, description="The message_id, as fetch_inbox or send_message gave it.")
]
Limit = Annotated[int, Meta(ge=1, le=100, description="At most this many.")]
Cursor = Annotated[int, Meta(ge=0, le=2**63 - 1, description="`next` of the page before; leave it out for the first.")]
Text = Annotated[
    str, Meta(max_length=100_000, description="What to say, in plain words; it becomes `text` of the payload.")
]
Payload = Annotated[
    dict[str, Any],
    Meta(
        description="What to say as an object, where the message type asks for certain fields; `text` is added to it."
    ),
]
Rank = Annotated[
    Level,
    Meta(
        description="Info: no hurry. Coordinate: ordinary work. Blocking: you cannot go on without an answer. "
        "Critical: something is broken now. DirectorOverride: directors and humans only. Higher ones cost more of your "
        "allowance, and using them too often lowers them. Leave it out for what the message type usually has."
    ),
]
Ttl = Annotated[
    float, Meta(gt=0, le=3.2e9, description="Seconds after which it is of no use any more and is dropped unread.")
]
Facts = Annotated[
    dict[str, Any],
    Meta(
        description='Facts that travel with the message beside its payload, such as {"tags": ["build"]}; the recipient '
        "sees them as `metadata`. Leave it out unless you have some."
    ),
]
OwnId = Annotated[
    MessageId,
    Meta(
        description="An id of your own, such as msg_20250101_a1b2: sending again with the same id and content sends "
        "nothing twice. Leave it out to get one."
    ),
]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all arguments."""


class RegisterArguments(Arguments, frozen=True, kw_only=True):
    """What you are and can."""

    type: Annotated[Name, Meta(description="What you are for routing: Manager, Implementation, AdHoc or any name.")] = (
        "AdHoc"
    )
    capabilities: Annotated[
        list[TypeName],
        Meta(max_length=256, description="Message types that you take; leave it out to take any."),
    ] = []


class ListAgentsArguments(Arguments, frozen=True, kw_only=True):
    """Nothing."""


class WhoisArguments(Arguments, frozen=True, kw_only=True):
    """Whom."""

    agent: Annotated[Name, Meta(description="The agent's name; leave it out to ask who you are.")] | None = None


class Saying(Arguments, frozen=True, kw_only=True):
    """What to say, and how."""

    text: Text | None = None
    payload: Payload | None = None
    priority: Rank | None = None
    ttl_s: Ttl | None = None
    own_id: OwnId | None = None
    metadata: Facts | None = None


class SendArguments(Saying, frozen=True, kw_only=True):
    """To whom, what, and how."""

    to: Annotated[Name, Meta(description="The agent to send to, by name; * sends to everybody.")]
    to_type: Annotated[Name, Meta(description="With to *, only to agents of this type.")] = "*"
    message_type: Annotated[
        TypeName,
        Meta(
            description="What kind of message: StatusUpdate, Question, Blocker, ReviewRequested, TaskAssigned, "
            "TaskCompleted, Acknowledgment, CUSTOM_ and a name; or one whose payload needs certain fields: "
            + payload_of("TASK_ASSIGNMENT", "TASK_UPDATE", "STATE_SYNC", "ERROR_REPORT", "HANDOFF_REQUEST")
            + ". It decides the usual priority, lifetime and acknowledgement."
        ),
    ] = "StatusUpdate"
    correlation_id: (
        Annotated[CorrelationId, Meta(description="The thread that it belongs to; leave it out to open a new one.")]
        | None
    ) = None
    delivery_class: (
        Annotated[
            Literal["sync", "async"],
            Meta(
                description="sync: refuse where the recipient is not there. async: leave it in its mailbox. Leave it "
                "out for what the message type usually has (Question and Blocker are sync)."
            ),
        ]
        | None
    ) = None


class ReplyArguments(Saying, frozen=True, kw_only=True):
    """To which message, what, and how."""

    message_id: Annotated[Id, Meta(description="The message_id of the message that you answer.")]
    message_type: Annotated[
        TypeName,
        Meta(
            description="What kind of message. A TASK_ASSIGNMENT is answered with TASK_UPDATE; in its payload "
            + payload_of("TASK_UPDATE")
            + "."
        ),
    ] = "StatusUpdate"


class FetchArguments(Arguments, frozen=True, kw_only=True):
    """How much."""

    limit: Limit = 20
    at_least: Annotated[
        Level,
        Meta(
            description="Nothing below this priority; from the lowest: Info, Coordinate, Blocking, Critical, "
            "DirectorOverride."
        ),
    ] = "Info"


class AcknowledgeArguments(Arguments, frozen=True, kw_only=True):
    """Which, and how far you are."""

    message_id: Id
    status: Annotated[
        Literal["received", "queued", "processed"],
        Meta(description="received: you have it. queued: you will do it later. processed: it is done."),
    ] = "received"
    notes: Annotated[str, Meta(max_length=10_000, description="A remark for the sender.")] = ""


class RejectArguments(Arguments, frozen=True, kw_only=True):
    """Which, and why."""

    message_id: Id
    reason: Annotated[str, Meta(min_length=1, max_length=10_000, description="Why, for the sender.")]
    can_retry: Annotated[
        bool, Meta(description="true: offer it to me again later. false: never; it becomes a dead letter.")
    ] = False
    code: Annotated[str, Meta(max_length=64, description="A code of the error catalogue, such as E_TASK_004.")] = ""
    suggested_fix: Annotated[str, Meta(max_length=10_000, description="What the sender should do instead.")] = ""


class RecallArguments(Arguments, frozen=True, kw_only=True):
    """Which."""

    message_id: Id


class GetArguments(Arguments, frozen=True, kw_only=True):
    """Which, and how much of it."""

    message_id: Id
    life: Annotated[bool, Meta(description="Whether to tell everything that happened to it.")] = False


class SearchArguments(Arguments, frozen=True, kw_only=True):
    """What for."""

    query: Annotated[str, Meta(min_length=1, max_length=1000, description="Words of the payload; all must be there.")]
    limit: Limit = 20
    after: Cursor = 0


class DeadLetterArguments(Arguments, frozen=True, kw_only=True):
    """Which page."""

    limit: Limit = 20
    after: Cursor = 0

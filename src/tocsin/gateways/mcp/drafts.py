"""Arguments of the tools that send a message: the fields of a draft instead of an envelope."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import NODEFAULT, Meta

from tocsin.core.commands.base import AgentName, TypeFilter
from tocsin.core.protocol.envelope import ANYONE, CorrelationId, MessageId, TypeName
from tocsin.core.protocol.payloads import PAYLOADS
from tocsin.core.protocol.priority import PriorityName
from tocsin.core.protocol.validation import describe
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.wire.arguments import fields_of
from tocsin.wire.drafts import Draft, EnvelopeWriter, Written
from tocsin.wire.operation import Operation, Request

__all__ = ["ENVELOPE_ARGUMENTS", "DraftArguments", "arguments_with_draft", "required_fields", "write_draft"]

#: Arguments by the field of the envelope that each becomes.
ENVELOPE_ARGUMENTS = {
    "$.receiver.agentId": "to",
    "$.receiver.type": "to_type",
    "$.receiver": "to",
    "$.messageType": "type",
    "$.messageId": "message_id",
    "$.correlationId": "correlation_id",
    "$.metadata.ttl": "ttl_s",
    "$.qos.deliveryClass": "delivery_class",
}
#: Types that continue the thread of another message; any other message without a thread starts one.
_CONTINUING = frozenset({"ACK", "NACK", "TASK_UPDATE"})


def required_fields(*types: str) -> str:
    """Describe the fields that the payloads of some message types need."""
    return "; ".join(f"{name} needs {_needed(PAYLOADS[name])}" for name in types)


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


class DraftArguments(Request, frozen=True, kw_only=True):
    """A message to send."""

    to: Annotated[AgentName, Meta(description="Name of the agent to send to; * sends to all agents.")]
    type: Annotated[
        TypeName,
        Meta(
            description="Message type: StatusUpdate, Question, Blocker, ReviewRequested, TaskAssigned, TaskCompleted, "
            "Acknowledgment, CUSTOM_ and a name; or one whose payload has required fields: "
            + required_fields("TASK_ASSIGNMENT", "TASK_UPDATE", "STATE_SYNC", "ERROR_REPORT", "HANDOFF_REQUEST")
            + ". It determines the default priority, lifetime and acknowledgement."
        ),
    ] = "StatusUpdate"
    text: Annotated[
        Annotated[str, Meta(max_length=100_000)] | None,
        Meta(description="Plain text; it becomes `text` of the payload."),
    ] = None
    payload: Annotated[
        dict[str, Any] | None, Meta(description="Payload as an object, for types that require fields.")
    ] = None
    priority: Annotated[
        PriorityName | None,
        Meta(
            description="Info: no hurry. Coordinate: ordinary work. Blocking: you cannot continue without an answer. "
            "Critical: something is broken now. DirectorOverride: directors and humans only. Higher priorities use up "
            "your quota, and frequent use lowers them. By default the message type's."
        ),
    ] = None
    ttl_s: Annotated[
        Annotated[float, Meta(gt=0, le=3.2e9)] | None,
        Meta(description="Seconds until it expires unread; by default the message type's."),
    ] = None
    correlation_id: Annotated[
        CorrelationId | None, Meta(description="The thread that it belongs to; by default a new one.")
    ] = None
    message_id: Annotated[
        MessageId | None,
        Meta(
            description="An id chosen by you, such as msg_20250101_a1b2: sending the same id and content again does "
            "not send twice. By default a new one."
        ),
    ] = None
    metadata: Annotated[
        dict[str, Any] | None,
        Meta(description='Data beside the payload that the recipient sees, such as {"tags": ["build"]}.'),
    ] = None
    to_type: Annotated[TypeFilter, Meta(description="With to *: only agents of this type.")] = ANYONE
    delivery_class: Annotated[
        Literal["sync", "async"] | None,
        Meta(
            description="sync: fail if the recipient is not available. async: leave it in the mailbox. By default the "
            "message type's (Question and Blocker are sync)."
        ),
    ] = None


def arguments_with_draft(
    operation: Operation, *more: type[msgspec.Struct], omit: tuple[str, ...] = (), **defaults: Any
) -> type[msgspec.Struct]:
    """Return the fields of an operation's request, with those of a draft in place of its envelope."""
    shapes: tuple[type[msgspec.Struct], ...] = (*more, fields_of(operation.request), DraftArguments)
    known = {field.name: field for shape in reversed(shapes) for field in msgspec.structs.fields(shape)}
    fields: list[Any] = []
    for name, field in known.items():
        default = defaults.get(name, field.default)
        if name not in omit:
            fields.append((name, field.type) if default is NODEFAULT else (name, field.type, default))
    return msgspec.defstruct(operation.request.__name__, fields, frozen=True, forbid_unknown_fields=True, kw_only=True)


async def write_draft(tool_call: ToolCall, given: Any, **fixed: Any) -> tuple[Written, str | None]:
    """Write the envelope that the arguments describe; return it and its thread."""
    values: Mapping[str, Any] = msgspec.structs.asdict(given) | fixed
    writer = EnvelopeWriter()
    sender = await tool_call.sender()
    writer.introduce(sender.agent_id, sender.type)
    message_id = values.get("message_id") or writer.fresh_id("msg")
    thread = values.get("correlation_id") or (None if values["type"] in _CONTINUING else message_id)
    payload = dict(values["payload"] or {})
    if values["text"] is not None:
        payload["text"] = values["text"]
    draft = Draft(
        to=values.get("to", ANYONE),
        type=values["type"],
        payload=payload,
        priority=values["priority"],
        ttl_s=values["ttl_s"],
        correlation_id=thread,
        delivery_class=values.get("delivery_class"),
        to_type=values.get("to_type", ANYONE),
        metadata=values["metadata"] or {},
        message_id=message_id,
    )
    return writer.write(draft), thread

"""Arguments of the tools that send a message: the fields of a draft instead of an envelope."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import NODEFAULT, Meta

from tocsin.core.commands.base import AgentName, TypeFilter
from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import ANYONE, AgentRef, CorrelationId, MessageId, TypeName
from tocsin.core.protocol.payloads import PAYLOADS
from tocsin.core.protocol.priority import PriorityName
from tocsin.core.protocol.validation import describe
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.wire.arguments import fields_of
from tocsin.wire.drafts import Draft, Written
from tocsin.wire.envelope_writer import EnvelopeWriter
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

    to: Annotated[AgentName, Meta(description="Agent to send to; * is all.")]
    type: Annotated[
        TypeName,
        Meta(
            description="StatusUpdate, Question, Blocker, ReviewRequested, TaskAssigned, TaskCompleted, "
            "Acknowledgment or CUSTOM_ and a name. TASK_ASSIGNMENT, TASK_UPDATE, STATE_SYNC, ERROR_REPORT and "
            "HANDOFF_REQUEST need a payload; a refusal names its fields."
        ),
    ] = "StatusUpdate"
    text: Annotated[
        Annotated[str, Meta(max_length=100_000)] | None,
        Meta(description="What to say; text or payload is required."),
    ] = None
    payload: Annotated[dict[str, Any] | None, Meta(description="Content as an object.")] = None
    priority: Annotated[
        PriorityName | None,
        Meta(
            description="Info: no hurry. Coordinate: work. Blocking: you cannot go on. Critical: something is broken "
            "now. DirectorOverride: directors only. If most of what you send is urgent, it is lowered to Info."
        ),
    ] = None
    ttl_s: Annotated[
        Annotated[float, Meta(gt=0, le=3.2e9)] | None,
        Meta(description="Seconds until it expires unread."),
    ] = None
    correlation_id: Annotated[CorrelationId | None, Meta(description="Thread to continue.")] = None
    message_id: Annotated[
        MessageId | None,
        Meta(description="Your own id, such as msg_20250101_a1b2, to repeat a call without sending twice."),
    ] = None
    metadata: Annotated[
        dict[str, Any] | None,
        Meta(description="Data beside the content."),
    ] = None
    to_type: Annotated[TypeFilter, Meta(description="With to *: only this agent type.")] = ANYONE
    delivery_class: Annotated[
        Literal["sync", "async"] | None,
        Meta(description="sync: fail unless the recipient is available; default of Question and Blocker."),
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


@lru_cache(maxsize=256)
def _writer_of(sender: AgentRef) -> EnvelopeWriter:
    """Return the writer of an agent's envelopes."""
    writer = EnvelopeWriter()
    writer.introduce(sender.agent_id, sender.type)
    return writer


async def write_draft(tool_call: ToolCall, given: Any, **fixed: Any) -> tuple[Written, str | None]:
    """Write the envelope that the arguments describe; return it and its thread."""
    values: Mapping[str, Any] = msgspec.structs.asdict(given) | fixed
    writer = _writer_of(await tool_call.sender())
    message_id = values.get("message_id") or writer.fresh_id("msg")
    thread = values.get("correlation_id") or (None if values["type"] in _CONTINUING else message_id)
    payload = dict(values["payload"] or {})
    if not payload and not (values["text"] or "").strip() and values["type"] not in PAYLOADS:
        expected = "text or payload"
        raise refusal(
            "E_VALIDATION_001", f"the message has no content: give {expected}", field="$.text", expected=expected
        )
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

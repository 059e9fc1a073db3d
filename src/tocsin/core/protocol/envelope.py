"""The fields of an envelope, as JSON names them, and their limits; `parsing` reads and checks envelopes.

Requirement: APM §1.
"""

import re
from datetime import datetime
from typing import Annotated, Any, get_origin

import msgspec
from msgspec import Meta, Raw

from tocsin.core.protocol.contracts import DeliveryClass

__all__ = [
    "ANYONE",
    "MESSAGE_ID",
    "MESSAGE_ID_MAX",
    "NESTING_MAX",
    "NO_METADATA",
    "TRACEPARENT",
    "VERSIONS",
    "AgentRef",
    "Envelope",
    "Metadata",
    "PriorityFields",
    "Qos",
    "RenderedEnvelope",
    "Traced",
    "unchecked",
]

#: Supported protocol versions, oldest first.
VERSIONS = ("1.0.0", "1.1.0")
#: Wildcard of a receiver.
ANYONE = "*"
#: Maximum nesting of an envelope, itself included, that every JSON reader on the way can handle.
NESTING_MAX = 128

#: Format of a `traceparent` (W3C Trace Context).
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")

#: Format of a messageId, and its length at most.
MESSAGE_ID = r"^msg_[0-9A-Za-z]+(?:[_\-][0-9A-Za-z]+)+\Z"
MESSAGE_ID_MAX = 128

#: Metadata of an envelope that has none.
NO_METADATA = Raw(b"{}")

#: An agent's id is also part of file names, so it contains no character that is special in a path.
AgentId = Annotated[str, Meta(pattern=r"^(?:\*|[A-Za-z0-9][A-Za-z0-9_.\-]{0,63})\Z")]
AgentType = Annotated[str, Meta(pattern=r"^(?:\*|[A-Za-z][A-Za-z0-9_\-]{0,63})\Z")]
MessageId = Annotated[str, Meta(pattern=MESSAGE_ID, max_length=MESSAGE_ID_MAX)]
CorrelationId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_.\-]+\Z", max_length=128)]
TypeName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]*\Z", max_length=64)]
Tag = Annotated[str, Meta(max_length=64)]


class AgentRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An agent as named in an envelope."""

    agent_id: AgentId
    type: AgentType


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata keys that Tocsin uses; other keys are passed through."""

    #: Retries so far: as counted by the sender on the way in, by Tocsin on the way out.
    retry_count: Annotated[int, Meta(ge=0)] = 0
    #: Time to live, seconds; the contract's by default.
    ttl: Annotated[float, Meta(gt=0)] | None = None
    #: Tags for categorization.
    tags: Annotated[list[Tag], Meta(max_length=32)] = []


class Traced(msgspec.Struct):
    """The part of metadata that is read to find a trace; it may hold any value."""

    traceparent: Any = None


class PriorityFields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of an envelope that determine its priority, to read them alone."""

    message_type: str
    priority: str | None = None


class Qos(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Quality-of-service fields that version 1.1.0 adds; they override the contract for one message."""

    delivery_class: DeliveryClass | None = None
    #: Importance from 1 to 10; orders messages within a priority level.
    importance: Annotated[int, Meta(ge=1, le=10)] | None = None
    #: Share of the importance lost per decay interval.
    decay_rate: Annotated[float, Meta(ge=0, le=1)] | None = None


class Envelope(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A message as its sender wrote it (APM §1.2)."""

    version: str
    message_id: MessageId
    timestamp: Annotated[datetime, Meta(tz=True)]
    sender: AgentRef
    receiver: AgentRef
    message_type: TypeName
    payload: Raw
    #: A name from the version's vocabulary; optional in 1.1.0.
    priority: str | None = None
    correlation_id: CorrelationId | None = None
    metadata: Raw = NO_METADATA
    qos: Qos | None = None


class RenderedEnvelope(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """A message as its recipient gets it."""

    version: str
    message_id: str
    timestamp: str
    sender: AgentRef
    receiver: AgentRef
    message_type: str
    priority: str
    payload: Raw
    metadata: Raw
    correlation_id: str | None = None
    qos: Qos | None = None


def unchecked(shape: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a struct with the fields of another one, whose required texts and agents are not checked."""
    fields: list[Any] = [
        (field.name, _unchecked_type(field.type))
        if field.required
        else (field.name, _unchecked_type(field.type), field.default)
        for field in msgspec.structs.fields(shape)
    ]
    return msgspec.defstruct(f"Unchecked{shape.__name__}", fields, rename="camel", gc=False)


def _unchecked_type(kind: Any) -> Any:
    if kind is AgentRef:
        return unchecked(AgentRef)
    return str if get_origin(kind) is Annotated and kind.__origin__ is str else kind

"""Contracts of message types: default priority, delivery class, TTL, ACK, retries, routing and payload schema.

A contract is data: the seven message types, the ten signals and any `CUSTOM_*` type are rows of one table in
`tocsin.yaml` (APM, SPEC-071). Payload schemas of the seven types are code (`tocsin.core.protocol.payloads`); other
types have theirs in the contract.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.core.protocol.priority import VOCABULARY, Priority

__all__ = ["AckRule", "Contract", "CorrelationRule", "DeliveryClass", "PayloadSchema", "ResponseRule"]


class DeliveryClass(StrEnum):
    """Behaviour when the recipient is not available (SPEC-071 §4.2)."""

    #: Fail at once.
    SYNC = "sync"
    #: Queue until the TTL is over.
    ASYNC = "async"


class AckRule(StrEnum):
    """Rule for the recipient's ACK (APM §2)."""

    #: An ACK is required: without one in time the message is retried, then becomes a dead letter.
    REQUIRED = "required"
    #: An ACK is expected, but nothing is retried without one.
    RECOMMENDED = "recommended"
    #: An ACK is allowed.
    OPTIONAL = "optional"
    #: There is no ACK.
    NONE = "none"


class CorrelationRule(StrEnum):
    """Rule for the `correlationId` of a message (APM §2.1)."""

    #: A new id: the message opens a thread.
    NEW = "new"
    #: The id of a thread that an assignment opened.
    MATCHES_ASSIGNMENT = "matches_assignment"
    #: The id of the message that it acknowledges or rejects.
    MATCHES_MESSAGE = "matches_message"
    #: Any id, or none.
    OPTIONAL = "optional"


class ResponseRule(StrEnum):
    """The message in its thread, from recipient to sender, that marks this one as processed."""

    #: Any message but an ACK or NACK.
    ANY = "any"
    #: A `TASK_UPDATE` with status completed or failed.
    COMPLETION = "completion"
    #: None: only an ACK with status processed.
    NONE = "none"


class PayloadSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of a payload, each with its type: a name out of `_SHAPES`, or a list of the strings allowed."""

    required: dict[str, str | list[str]] = {}
    optional: dict[str, str | list[str]] = {}


_SHAPES: dict[str, Any] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "object": dict[str, Any],
    "array": list[Any],
}


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Contract of one message type."""

    #: Priority of a message that does not set one; any vocabulary.
    priority: str
    #: Delivery class of a message that does not set one.
    delivery_class: DeliveryClass
    #: Time to live of a message that does not set one, seconds.
    ttl_s: Annotated[float, Meta(ge=1e-6, le=3.2e9)]
    #: Whether it is acknowledged.
    ack: AckRule
    #: Time for the ACK where one is required, else for the receipt of a push, seconds; null uses
    #: `delivery.receipt_timeout_s`.
    timeout_s: Annotated[float, Meta(ge=1e-6, le=3.2e9)] | None
    #: Retries before it becomes a dead letter.
    retries_max: Annotated[int, Meta(ge=0, le=1000)]
    #: Wait before each retry, seconds; the last value repeats.
    backoff_s: list[Annotated[float, Meta(ge=1e-6, le=3.2e9)]]
    #: Agent types that may send it; empty allows any.
    senders: list[str]
    #: Agent types that may receive it; empty allows any.
    receivers: list[str]
    #: Rule for its correlationId.
    correlation: CorrelationRule
    #: Response in its thread that marks it as processed.
    response: ResponseRule
    #: Whether the queue manager sets its decay rate when the sender does not.
    adaptive_decay: bool
    #: First protocol version that has this type.
    since: Literal["1.0.0", "1.1.0"]
    #: Whether only the bus itself and directors may send it.
    system: bool
    #: Schema of its payload, unless the schema is built in.
    payload: PayloadSchema | None

    @cached_property
    def default_priority(self) -> Priority:
        """Return `priority` on the internal scale."""
        return VOCABULARY[self.priority]

    @cached_property
    def timeout_us(self) -> int | None:
        """Return the timeout in microseconds."""
        return None if self.timeout_s is None else round(self.timeout_s * 1_000_000)

    @cached_property
    def shape(self) -> Any:
        """Return the type that a payload must have, built from `payload`."""
        if self.payload is None:
            return dict[str, Any]
        fields: list[Any] = [(name, _shape(kind)) for name, kind in self.payload.required.items()]
        fields += [(name, _shape(kind) | None, None) for name, kind in self.payload.optional.items()]
        return msgspec.defstruct("CustomPayload", fields)

    def backoff_us(self, attempt: int) -> int:
        """Return the wait before a retry, counted from 1, in microseconds."""
        waits = self.backoff_s
        return round(waits[min(attempt, len(waits)) - 1] * 1_000_000) if waits else 0

    def contradictions(self, levels: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield conflicts between fields: the field, and the rule that it breaks."""
        if self.priority not in VOCABULARY:
            yield "priority", "must be one of " + ", ".join(VOCABULARY)
        elif self.default_priority is Priority.DIRECTOR_OVERRIDE:
            yield "priority", "must be one of " + ", ".join(levels[:-1])
        if self.ack is AckRule.REQUIRED and self.timeout_s is None:
            yield "timeout_s", "a required ACK needs a timeout"
        if self.retries_max and not self.backoff_s:
            yield "backoff_s", "retries need at least one wait"
        if self.payload is not None:
            yield from _schema_contradictions(self.payload)


def _shape(kind: str | list[str]) -> Any:
    if isinstance(kind, str):
        return _SHAPES[kind]
    return Literal[tuple(kind)]


def _schema_contradictions(schema: PayloadSchema) -> Iterator[tuple[str, str]]:
    for part, fields in (("required", schema.required), ("optional", schema.optional)):
        for name, kind in fields.items():
            if isinstance(kind, str) and kind not in _SHAPES:
                yield f"payload.{part}.{name}", "must be a list of strings or one of " + ", ".join(_SHAPES)
            elif not kind:
                yield f"payload.{part}.{name}", "must name at least one allowed string"
            if not name.isidentifier():
                yield f"payload.{part}.{name}", "must be a plain name"
    for name in schema.required.keys() & schema.optional.keys():
        yield f"payload.optional.{name}", "must not be required as well"

"""What a message type promises.

A contract is data: APM's seven types, SPEC-071's ten signals and any `CUSTOM_*` are rows of one table in `tocsin.yaml`.
Payload schemas of APM's types are code (`tocsin.core.protocol.payloads`); other types bring theirs with the contract.
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
    """What happens when the recipient is not available (SPEC-071 §4.2)."""

    #: Fail at once.
    SYNC = "sync"
    #: Queue until the TTL is over.
    ASYNC = "async"


class AckRule(StrEnum):
    """Whether the recipient is to acknowledge (APM §2)."""

    #: It must: no ACK in time means a retry, then a dead letter.
    REQUIRED = "required"
    #: It should; nothing is retried without.
    RECOMMENDED = "recommended"
    #: It may.
    OPTIONAL = "optional"
    #: There is no ACK of this.
    NONE = "none"


class CorrelationRule(StrEnum):
    """What the `correlationId` of a message must be (APM §2.1)."""

    #: A new one: this message opens a thread.
    NEW = "new"
    #: One that an assignment opened.
    MATCHES_ASSIGNMENT = "matches_assignment"
    #: That of the message which it acknowledges or rejects.
    MATCHES_MESSAGE = "matches_message"
    #: None or any.
    OPTIONAL = "optional"


class ResponseRule(StrEnum):
    """Which message in its thread, from recipient to sender, means that this one is processed."""

    #: Any but an ACK or NACK.
    ANY = "any"
    #: A `TASK_UPDATE` that says completed or failed.
    COMPLETION = "completion"
    #: None: only a processed-ACK does.
    NONE = "none"


class PayloadSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a payload, each with its type: a name out of `_SHAPES`, or a list of the strings allowed."""

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
    """One row of the table."""

    #: Priority of a message that does not say (any vocabulary).
    priority: str
    #: Delivery class of a message that does not say.
    delivery_class: DeliveryClass
    #: Time to live of a message that does not say, seconds.
    ttl_s: Annotated[float, Meta(ge=1e-6, le=3.2e9)]
    #: Whether it is acknowledged.
    ack: AckRule
    #: Time for the ACK where one is required, else for the receipt of a push, seconds; null is the policy's own.
    timeout_s: Annotated[float, Meta(ge=1e-6, le=3.2e9)] | None
    #: Retries before it is dead.
    retries_max: Annotated[int, Meta(ge=0, le=1000)]
    #: Wait before each retry, seconds; the last repeats.
    backoff_s: list[Annotated[float, Meta(ge=1e-6, le=3.2e9)]]
    #: Agent types that may send it; empty is any.
    senders: list[str]
    #: Agent types that may receive it; empty is any.
    receivers: list[str]
    #: What its correlationId must be.
    correlation: CorrelationRule
    #: What in its thread means that it is processed.
    response: ResponseRule
    #: Whether the queue manager sets its decay rate when the sender does not.
    adaptive_decay: bool
    #: First protocol version that has it.
    since: Literal["1.0.0", "1.1.0"]
    #: Whether only the bus itself and directors may send it.
    system: bool
    #: Fields of its payload, where it is not one of APM's seven types.
    payload: PayloadSchema | None

    @cached_property
    def default_priority(self) -> Priority:
        """Return `priority` on the inside scale."""
        return VOCABULARY[self.priority]

    @cached_property
    def timeout_us(self) -> int | None:
        """Return the timeout in microseconds."""
        return None if self.timeout_s is None else round(self.timeout_s * 1_000_000)

    @cached_property
    def shape(self) -> Any:
        """Return the type that a payload must fit, built from `payload`."""
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
        """Yield what no single field shows: the field, and what would be right."""
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
        yield f"payload.optional.{name}", "is required already"

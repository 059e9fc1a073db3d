"""Payload schemas of the seven message types that Tocsin has built in.

Requirement: APM §2.2 to §2.8.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.core.errors import error_for
from tocsin.core.protocol import validation
from tocsin.core.protocol.contracts import Contract

__all__ = [
    "PAYLOADS",
    "Ack",
    "ErrorReport",
    "Nack",
    "StateSync",
    "TaskUpdate",
    "check_payload",
    "completes",
    "decoder_of",
    "is_completion",
    "is_confirmation",
    "is_critical_error",
    "registers",
]

Text = Annotated[str, Meta(min_length=1)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Moment = Annotated[datetime, Meta(tz=True)]
Free = dict[str, Any]


class _Payload(msgspec.Struct, frozen=True, rename="camel"):
    """Base of all payloads; unknown fields are allowed, because a later minor version may add some."""


class AgentName(_Payload, frozen=True):
    """An agent as named in a payload."""

    agent_id: Text
    type: Text


class Dependency(_Payload, frozen=True):
    """A task that must be done first."""

    task_id: Text
    status: str | None = None
    outputs: list[str] | None = None


class TaskAssignment(_Payload, frozen=True):
    """Payload of TASK_ASSIGNMENT (APM §2.2)."""

    task_id: Text
    task_ref: Text
    task_description: Text
    memory_log_path: Text
    execution_type: Literal["single-step", "multi-step"]
    dependencies: list[Dependency] | None = None
    context: Free | None = None


class Blocker(_Payload, frozen=True):
    """A blocker of a task."""

    type: Text
    description: str | None = None
    severity: str | None = None


class TaskUpdate(_Payload, frozen=True):
    """Payload of TASK_UPDATE (APM §2.3)."""

    task_id: Text
    status: Literal["in_progress", "blocked", "pending_review", "completed", "failed"]
    progress: Fraction
    current_step: str | None = None
    notes: str | None = None
    files_modified: list[str] | None = None
    blockers: list[Blocker] | None = None
    estimated_completion: Moment | None = None


class StateSync(_Payload, frozen=True):
    """Payload of STATE_SYNC (APM §2.4)."""

    entity_type: Literal["agent", "task", "memory_log", "configuration"]
    entity_id: Text
    operation: Literal["create", "update", "delete"]
    state: Free
    sync_timestamp: Moment
    previous_state: Free | None = None


class ErrorReport(_Payload, frozen=True):
    """Payload of ERROR_REPORT (APM §2.5)."""

    error_type: Literal["TaskFailure", "ValidationError", "SystemError", "DependencyError"]
    error_message: Text
    severity: Literal["critical", "high", "medium", "low"]
    error_code: str | None = None
    context: Free | None = None
    stack_trace: str | None = None
    recoverable: bool | None = None
    suggested_action: str | None = None
    metadata: Free | None = None


class HandoffRequest(_Payload, frozen=True):
    """Payload of HANDOFF_REQUEST (APM §2.6)."""

    task_id: Text
    reason: Literal["context_window_limit", "specialization_required", "load_balancing"]
    source_agent: AgentName
    target_agent: AgentName
    handoff_context: Free


class Ack(_Payload, frozen=True):
    """Payload of ACK (APM §2.7)."""

    acknowledged_message_id: Text
    status: Literal["received", "processed", "queued"]
    timestamp: Moment
    processing_time: Annotated[float, Meta(ge=0)] | None = None
    notes: str | None = None


class Nack(_Payload, frozen=True):
    """Payload of NACK (APM §2.8)."""

    rejected_message_id: Text
    reason: Text
    timestamp: Moment
    error_code: str | None = None
    can_retry: bool | None = None
    suggested_fix: str | None = None


PAYLOADS: dict[str, type[_Payload]] = {
    "TASK_ASSIGNMENT": TaskAssignment,
    "TASK_UPDATE": TaskUpdate,
    "STATE_SYNC": StateSync,
    "ERROR_REPORT": ErrorReport,
    "HANDOFF_REQUEST": HandoffRequest,
    "ACK": Ack,
    "NACK": Nack,
}

_DECODERS: dict[str, msgspec.json.Decoder[_Payload]] = {
    name: msgspec.json.Decoder(shape) for name, shape in PAYLOADS.items()
}


def check_payload(message_type: str, payload: bytes | msgspec.Raw, contract: Contract) -> _Payload | None:
    """Refuse a payload that does not fit its type; return it decoded if the type is built in."""
    decoder = _DECODERS.get(message_type)
    try:
        if decoder is not None:
            return decoder.decode(payload)
        if contract.payload is not None:
            msgspec.json.decode(payload, type=contract.shape)
        return None
    except msgspec.ValidationError:
        shape = PAYLOADS.get(message_type, contract.shape)
        raise error_for(validation.explain(shape, msgspec.json.decode(payload), "$.payload")) from None


def decoder_of(message_type: str, contract: Contract) -> Callable[[Any], Any] | None:
    """Return the function that decodes a payload of a type, or raises; null if the type allows any payload.

    It decides as `check_payload` does, and is prepared once for many payloads.
    """
    decoder = _DECODERS.get(message_type)
    if decoder is not None:
        return decoder.decode
    return None if contract.payload is None else msgspec.json.Decoder(contract.shape).decode


def is_confirmation(message_type: str) -> bool:
    """Return whether messages of a type settle another message."""
    return message_type in ("ACK", "NACK")


def registers(payload: StateSync, agent: str) -> bool:
    """Return whether a payload registers an agent (APM §5.3)."""
    return (
        payload.entity_type == "agent" and payload.operation == "create" and payload.entity_id == agent
    ) and "supportedVersions" in payload.state


def completes(payload: object) -> bool:
    """Return whether a payload reports that its task is done or has failed."""
    return isinstance(payload, TaskUpdate) and payload.status in ("completed", "failed")


def is_completion(message_type: str, payload: bytes) -> bool:
    """Return whether an accepted message reports that its task is done or has failed."""
    if message_type != "TASK_UPDATE":
        return False
    update = _DECODERS[message_type].decode(payload)
    return completes(update)


def is_critical_error(payload: bytes) -> bool:
    """Return whether the payload of an ERROR_REPORT marks its error as critical."""
    report = _DECODERS["ERROR_REPORT"].decode(payload)
    return isinstance(report, ErrorReport) and report.severity == "critical"

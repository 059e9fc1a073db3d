"""Reconstruction of envelopes from events.

Events have the granted priority, its rule and the expiry; the policy of the time has the defaults. Where the two agree,
the draft leaves the field unset, so that another policy can fill in its own default. Segments usually contain no
payloads: then a placeholder is used that is valid for its type and contains what later events imply.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.messages.message import Message
from tocsin.core.policy import Policy, microseconds
from tocsin.core.protocol.contracts import Contract, CorrelationRule, DeliveryClass
from tocsin.core.protocol.envelope import ANYONE, VERSIONS
from tocsin.core.protocol.priority import apm_name, priority_name
from tocsin.core.state import ProjectState
from tocsin.lab.traces.recorded_envelope import RecordedEnvelope, recorded_envelope

__all__ = ["DECIDED_ANEW", "accepted_envelope", "refused_envelope", "subject_of"]

#: Error codes of refusals that depend on the policy or the state. Others (a wrong type, an unknown thread) are kept.
DECIDED_ANEW = frozenset(
    {"E_ADMISSION_001", "E_ADMISSION_002", "E_ADMISSION_003", "E_ADMISSION_004", "E_ADMISSION_005", "E_ADMISSION_006"}
    | {"E_ADMISSION_008", "E_ROUTING_001"}
)
_ANY_TYPE = "AdHoc"
_MOMENT = "1970-01-01T00:00:00Z"


def accepted_envelope(
    state: ProjectState,
    event: ev.MessageAccepted,
    rest: Sequence[Event],
    broadcast: ev.BroadcastAccepted | None = None,
) -> RecordedEnvelope | None:
    """Return the envelope of an accepted message; None for a confirmation whose subject is not known."""
    policy = state.policy
    contract = policy.contract_of(event.message_type) or policy.custom_contract
    content = event if broadcast is None else broadcast
    payload = content.payload
    if not payload or payload == b"{}":
        found = _placeholder(state, event, rest)
        if found is None:
            return None
        payload = found
    metadata = content.metadata or b"{}"
    ttl_us = event.expires_at - event.at
    if ttl_us != max(1, microseconds(contract.ttl_s)) and b'"ttl"' not in metadata:
        metadata = msgspec.json.encode({"ttl": ttl_us / 1_000_000})
    usual = state.latency.rate if contract.adaptive_decay else 0.0
    sender = state.agents.get(event.sender)
    return recorded_envelope(
        message_id=event.message_id,
        sender=event.sender,
        receiver=event.recipient if broadcast is None else ANYONE,
        receiver_type=ANYONE if broadcast is None else broadcast.receiver_type,
        sender_type=_ANY_TYPE if sender is None else sender.agent_type,
        message_type=event.message_type,
        version=event.version,
        sent_at=event.sent_at,
        priority=_named(event, contract),
        correlation_id=event.correlation_id,
        delivery_class=None if event.delivery_class is contract.delivery_class else event.delivery_class,
        importance=None if event.importance == policy.decay.importance_default else event.importance,
        decay_rate=None if event.decay_rate == usual else event.decay_rate,
        metadata=metadata,
        payload=payload,
    )


def _named(event: ev.MessageAccepted, contract: Contract) -> str | None:
    """Return the priority that the sender named; None if it is the contract's default."""
    implied = event.requested == contract.default_priority
    if event.rule == "contract_default" or (implied and event.rule != "as_requested"):
        return None
    return _name(event.requested, event.version)


def _name(priority: int, version: str) -> str:
    return apm_name(priority) if version == VERSIONS[0] else priority_name(priority)


def refused_envelope(state: ProjectState, event: ev.SendRefused) -> RecordedEnvelope | None:
    """Return the envelope of a refused send; None if its thread cannot be determined."""
    policy: Policy = state.policy
    contract = policy.contract_of(event.message_type)
    if contract is None or contract.correlation in (
        CorrelationRule.MATCHES_ASSIGNMENT,
        CorrelationRule.MATCHES_MESSAGE,
    ):
        return None
    sender = state.agents.get(event.sender)
    implied = event.requested == contract.default_priority
    sync = event.code == "E_ADMISSION_006" and contract.delivery_class is not DeliveryClass.SYNC
    return recorded_envelope(
        message_id=event.message_id,
        sender=event.sender,
        receiver=event.recipient,
        receiver_type=ANYONE,
        sender_type=_ANY_TYPE if sender is None else sender.agent_type,
        message_type=event.message_type,
        version=VERSIONS[-1],
        sent_at=event.at,
        priority=None if implied else priority_name(event.requested),
        correlation_id=event.message_id if contract.correlation is CorrelationRule.NEW else None,
        delivery_class=DeliveryClass.SYNC if sync else None,
        metadata=msgspec.json.encode({"traceparent": event.traceparent} if event.traceparent else {}),
        payload=_payload(event.message_type),
    )


def subject_of(state: ProjectState, event: ev.MessageAccepted, rest: Sequence[Event]) -> Message | None:
    """Return the message that an ACK or NACK refers to, from the following events or from its thread."""
    for later in rest:
        if isinstance(later, ev.MessageDelivered | ev.MessageAcknowledged | ev.MessageProcessed | ev.MessageRejected):
            message = state.messages.get(later.message)
            if message is not None and message.recipient == event.sender and message.sender == event.recipient:
                return message
    return state.copy_for(event.sender, event.correlation_id or "")


def _placeholder(state: ProjectState, event: ev.MessageAccepted, rest: Sequence[Event]) -> bytes | None:
    kind = event.message_type
    if kind in ("ACK", "NACK"):
        subject = subject_of(state, event, rest)
        return None if subject is None else msgspec.json.encode(_confirmation(kind, subject, rest))
    if kind == "TASK_UPDATE":
        done = any(
            (isinstance(later, ev.MessageProcessed) and later.how == "response")
            or (isinstance(later, ev.RequestEnded) and later.detail == event.message_id)
            for later in rest
        )
        return _payload(kind, status="completed" if done else "in_progress")
    if kind == "ERROR_REPORT":
        critical = any(
            isinstance(later, ev.EscalationOpened)
            and later.trigger == "critical_error"
            and later.subject == event.message_id
            for later in rest
        )
        return _payload(kind, severity="critical" if critical else "low")
    return _payload(kind)


def _confirmation(kind: str, subject: Message, rest: Sequence[Event]) -> dict[str, Any]:
    mine = [later for later in rest if getattr(later, "message", None) == subject.seq]
    if kind == "NACK":
        fields = next((later for later in mine if isinstance(later, ev.MessageRejected)), None)
        return {
            "rejectedMessageId": subject.message_id,
            "reason": "unknown" if fields is None else fields.reason,
            "errorCode": None if fields is None else fields.code,
            "canRetry": fields is not None and fields.can_retry,
            "suggestedFix": None if fields is None else fields.suggested_fix,
            "timestamp": _MOMENT,
        }
    status = next((later.status for later in mine if isinstance(later, ev.MessageAcknowledged)), "received")
    if any(isinstance(later, ev.MessageProcessed) and later.how == "ack" for later in mine):
        status = "processed"
    notes = next((later.notes for later in mine if isinstance(later, ev.MessageAcknowledged)), "")
    return {
        "acknowledgedMessageId": subject.message_id,
        "status": status,
        "timestamp": _MOMENT,
        "notes": notes or None,
    }


_AGENT = {"agentId": "unknown", "type": _ANY_TYPE}
_PAYLOADS: dict[str, dict[str, Any]] = {
    "TASK_ASSIGNMENT": {
        "taskId": "unknown",
        "taskRef": "unknown",
        "taskDescription": "unknown",
        "memoryLogPath": "unknown",
        "executionType": "single-step",
    },
    "TASK_UPDATE": {"taskId": "unknown", "status": "in_progress", "progress": 0.0},
    "STATE_SYNC": {
        "entityType": "task",
        "entityId": "unknown",
        "operation": "update",
        "state": {},
        "syncTimestamp": _MOMENT,
    },
    "ERROR_REPORT": {"errorType": "TaskFailure", "errorMessage": "unknown", "severity": "low"},
    "HANDOFF_REQUEST": {
        "taskId": "unknown",
        "reason": "load_balancing",
        "sourceAgent": _AGENT,
        "targetAgent": _AGENT,
        "handoffContext": {},
    },
}


def _payload(kind: str, **fields: Any) -> bytes:
    """Return a placeholder payload that is valid for a type, with the given fields."""
    return msgspec.json.encode(_PAYLOADS.get(kind, {}) | fields)

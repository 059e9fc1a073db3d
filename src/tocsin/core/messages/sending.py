"""Sending: from a checked envelope to an accepted message, or a refusal that leaves nothing behind.

The order of checks: who sends, was it sent before, is it well-formed for its type, who receives, may it go at that
priority, is there room. A refusal of a well-formed message is an event; nothing else of it is kept.
"""

from sys import intern
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.agents.registry import decide_register
from tocsin.core.commands import (
    Acknowledged,
    BroadcastReceipt,
    Receipt,
    RegisterAgent,
    Registered,
    Rejected,
    Send,
    receipt_of,
)
from tocsin.core.decision import Decision
from tocsin.core.errors import Problem, TocsinError, error_for, refusal
from tocsin.core.messages.admission import Admission, admit, spend
from tocsin.core.messages.correlation import answered, check_correlation, follow
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.model import Message, State, content_digest, signal_id
from tocsin.core.messages.routing import Route, check_sender, recipients_of, route
from tocsin.core.messages.settlement import acknowledge, must_be_open, must_be_rejectable, process, reject, take_in
from tocsin.core.policy import microseconds
from tocsin.core.protocol.contracts import AckRule, Contract, DeliveryClass
from tocsin.core.protocol.envelope import ANYONE, Envelope, Qos, body, instant, metadata_of, priority_of, traceparent_of
from tocsin.core.protocol.payloads import Ack, Nack, StateSync, check_payload, completes, is_completion
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.core.queueing.decay import rounded_rate
from tocsin.core.scheduling import arm
from tocsin.core.state import Agent, Broadcast, ProjectState
from tocsin.core.teamwork import approvals
from tocsin.core.waiting.inheritance import lend_on_acceptance

__all__ = ["apply_accepted", "apply_broadcast", "decide_send", "message_of", "publish", "respond"]

_NO_QOS = Qos()


class _Draft(msgspec.Struct, frozen=True):
    """A message that may be accepted: everything but its recipient and what it costs."""

    envelope: Envelope
    contract: Contract
    requested: Priority
    delivery_class: DeliveryClass
    importance: int
    decay_rate: float
    ttl_us: int
    opens_thread: bool
    #: Handoff point at which it is held; empty where it is queued at once.
    held: str = ""


def decide_send(decision: Decision, command: Send) -> Receipt | BroadcastReceipt | Registered | Acknowledged | Rejected:
    """Accept a message, or refuse it."""
    return _send(decision, command.envelope, None, whole=False)


def publish(decision: Decision, envelope: Envelope, recipients: list[Agent], *, whole: bool) -> BroadcastReceipt | None:
    """Broadcast to some agents, to `whole` of them or to none; nothing comes back where there is nobody."""
    if envelope.message_type in ("ACK", "NACK"):
        raise refusal("E_ROUTING_002", f"{envelope.message_type} goes to one agent", field="$.messageType")
    if not recipients and envelope.message_id not in decision.state.broadcasts:
        _check_identity(decision, envelope)
        _check_content(decision, envelope)
        return None
    receipt = _send(decision, envelope, recipients, whole=whole)
    if not isinstance(receipt, BroadcastReceipt):
        raise refusal("E_ROUTING_002", f"{envelope.message_id} cannot be published", field="$.messageType")
    return receipt


def _send(
    decision: Decision, envelope: Envelope, recipients: list[Agent] | None, *, whole: bool
) -> Receipt | BroadcastReceipt | Registered | Acknowledged | Rejected:
    _check_identity(decision, envelope)
    payload, contract = _check_content(decision, envelope)
    if isinstance(payload, StateSync) and _is_registration(decision, payload):
        return _register(decision, envelope, payload)
    sender = decision.me()
    known = _sent_before(decision, envelope, contract)
    if known is not None:
        return known
    requested = priority_of(envelope, contract.default_priority)
    try:
        check_sender(sender, envelope.message_type, contract, decision.policy)
        if isinstance(payload, Ack | Nack):
            return _send_confirmation(decision, sender, envelope, contract, requested, payload)
        opens_thread = check_correlation(decision, envelope, contract.correlation, None)
        draft = _draft(decision, envelope, contract, requested, opens_thread)
        held = approvals.held_at(decision, sender, envelope.message_type)
        if held:
            approvals.check_room(decision, sender.agent)
            draft = msgspec.structs.replace(draft, held=held)
        receiver = envelope.receiver.agent_id
        request = answered(decision, envelope.correlation_id, sender.agent, receiver, completes=completes(payload))
        receipt = _dispatch(decision, sender, draft, recipients, whole=whole)
    except TocsinError as error:
        _record_refusal(decision, envelope, requested, error.problem)
        raise
    if held:
        approvals.hold(decision, held, envelope.message_id, sender.agent)
    if request is not None:
        _settle(decision, request, held=bool(held))
    return receipt


def _settle(decision: Decision, request: Message, *, held: bool) -> None:
    """Take a response as the word that its request is done; one that is held says only that the request arrived."""
    if request.state in (State.EXPIRED, State.RECALLED, State.DEAD):
        return
    (take_in if held else process)(decision, request, "response")
    responder = decision.state.agents.get(request.recipient)
    if responder is not None:
        pump(decision, responder)


def respond(decision: Decision, message: Message) -> None:
    """Let a message that was held, and goes now, be the response that it was meant to be."""
    if message.broadcast_id is not None:
        return
    done = is_completion(message.type, message.payload)
    request = answered(decision, message.correlation_id, message.sender, message.recipient, completes=done)
    if request is not None:
        _settle(decision, request, held=False)


def _send_confirmation(
    decision: Decision, sender: Agent, envelope: Envelope, contract: Contract, requested: Priority, payload: Ack | Nack
) -> Receipt | Acknowledged | Rejected:
    """Let an ACK or NACK do what its command does, and go to the sender where there is a way.

    It costs nothing, and what it confirms stands even when the sender is gone, full, or the bus itself: a confirmation
    held back would only make the message come again.
    """
    subject = _subject(decision, sender, payload)
    if envelope.receiver.agent_id != subject.sender:
        raise refusal(
            "E_ROUTING_002",
            f"{envelope.message_type} of {subject.message_id} goes to its sender {subject.sender}",
            field="$.receiver.agentId",
            found=envelope.receiver.agent_id,
            expected=subject.sender,
        )
    check_correlation(decision, envelope, contract.correlation, subject)
    draft = _draft(decision, envelope, contract, requested, opens_thread=False)
    receipt = None
    recipient = decision.state.agents.get(subject.sender)
    if recipient is not None:
        way = route(decision, recipient, envelope.message_type, contract, draft.delivery_class)
        if isinstance(way, Route):
            priority = min(requested, decision.policy.roles[sender.role].cap)
            receipt = _accept(decision, draft, way, Admission(priority, "confirmation", None, None, None), None)
    told = _confirm(decision, subject, payload)
    pump(decision, sender)
    return receipt or told


def _check_identity(decision: Decision, envelope: Envelope) -> None:
    if envelope.sender.agent_id != decision.caller.agent:
        raise refusal(
            "E_AUTH_002",
            f"the envelope says it is from {envelope.sender.agent_id}, the caller is {decision.caller.agent}",
            field="$.sender.agentId",
            found=envelope.sender.agent_id,
            expected=decision.caller.agent,
        )


def _check_content(decision: Decision, envelope: Envelope) -> tuple[object, Contract]:
    contract = decision.policy.contract_of(envelope.message_type)
    if contract is None or contract.since > envelope.version:
        known = [name for name, row in decision.policy.contracts.items() if row.since <= envelope.version]
        raise refusal(
            "E_VALIDATION_003",
            f"{envelope.message_type} is no message type of version {envelope.version}",
            field="$.messageType",
            found=envelope.message_type,
            expected="one of " + ", ".join([*known, "CUSTOM_*"]),
        )
    return check_payload(envelope.message_type, envelope.payload, contract), contract


def _is_registration(decision: Decision, payload: StateSync) -> bool:
    return (
        payload.entity_type == "agent" and payload.operation == "create" and payload.entity_id == decision.caller.agent
    ) and "supportedVersions" in payload.state


def _register(decision: Decision, envelope: Envelope, payload: StateSync) -> Registered:
    """Take APM's registration message for the command that it is (APM §5.3)."""
    try:
        supported = msgspec.convert(payload.state.get("supportedVersions"), tuple[str, ...])
        capabilities = msgspec.convert(payload.state.get("capabilities", []), tuple[str, ...])
    except msgspec.ValidationError as error:
        raise refusal("E_VALIDATION_002", f"$.payload.state: {error}", field="$.payload.state") from None
    return decide_register(decision, RegisterAgent(envelope.sender.type, supported, capabilities))


def _sent_before(decision: Decision, envelope: Envelope, contract: Contract) -> Receipt | BroadcastReceipt | None:
    """Answer a messageId that was accepted before with its first receipt, if it is the same message."""
    message_id, state = envelope.message_id, decision.state
    if message_id not in state.ids and message_id not in state.broadcasts:
        return None
    copies = state.copies_of(message_id)
    first = copies[0]
    broadcast = state.broadcasts.get(message_id)
    receiver = first.recipient if broadcast is None else ANYONE
    same = (
        first.sender == decision.caller.agent
        and first.type == envelope.message_type
        and first.requested == priority_of(envelope, contract.default_priority)
        and first.correlation_id == envelope.correlation_id
        and receiver == envelope.receiver.agent_id
        and (broadcast is None or broadcast.receiver_type == envelope.receiver.type)
        and (first.digest or content_digest(first.payload)) == content_digest(body(envelope.payload))
    )
    if not same:
        raise refusal(
            "E_ADMISSION_007",
            f"{message_id} was used for another message",
            field="$.messageId",
            found=message_id,
            expected="an id that was never used",
        )
    receipts = tuple(receipt_of(copy, signal_id(copy), duplicate=True) for copy in copies)
    if broadcast is None:
        return receipts[0]
    failed = dict(entry.split("=", 1) for entry in broadcast.failed)
    left_out = {agent: Problem(code, "left out of the first send") for agent, code in failed.items()}
    return BroadcastReceipt(message_id, receipts, left_out, duplicate=True)


def _draft(
    decision: Decision, envelope: Envelope, contract: Contract, requested: Priority, opens_thread: bool
) -> _Draft:
    qos, metadata, decay = envelope.qos or _NO_QOS, metadata_of(envelope), decision.policy.decay
    ttl_s = contract.ttl_s if metadata.ttl is None else metadata.ttl
    if ttl_s > decision.policy.limits.ttl_max_s:
        limit = f"at most {decision.policy.limits.ttl_max_s:.15g}"
        raise refusal(
            "E_VALIDATION_004",
            f"$.metadata.ttl is {ttl_s:.15g}: it must be {limit}",
            field="$.metadata.ttl",
            found=f"{ttl_s:.15g}",
            expected=limit,
        )
    if qos.decay_rate is not None:
        decay_rate = rounded_rate(qos.decay_rate, decay)
    else:
        decay_rate = decision.state.latency.rate if contract.adaptive_decay else 0.0
    delivery_class = qos.delivery_class or contract.delivery_class
    importance = decay.importance_default if qos.importance is None else qos.importance
    ttl_us = max(1, microseconds(ttl_s))
    return _Draft(envelope, contract, requested, delivery_class, importance, decay_rate, ttl_us, opens_thread)


def _dispatch(
    decision: Decision, sender: Agent, draft: _Draft, recipients: list[Agent] | None, *, whole: bool
) -> Receipt | BroadcastReceipt:
    envelope = draft.envelope
    if recipients is None:
        recipients = recipients_of(decision, envelope.receiver)
    if envelope.receiver.agent_id == ANYONE:
        return _broadcast(decision, sender, draft, recipients, whole=whole)
    way = route(decision, recipients[0], envelope.message_type, draft.contract, draft.delivery_class)
    if isinstance(way, Problem):
        raise error_for(way)
    admission = admit(decision, sender, draft.requested, default=envelope.priority is None)
    return _accept(decision, draft, way, admission, None)


def _broadcast(
    decision: Decision, sender: Agent, draft: _Draft, recipients: list[Agent], *, whole: bool
) -> BroadcastReceipt:
    """Accept one copy for each recipient that can be reached; it costs its sender once."""
    envelope = draft.envelope
    ways: list[Route] = []
    failed: dict[str, Problem] = {}
    for recipient in recipients:
        way = route(decision, recipient, envelope.message_type, draft.contract, draft.delivery_class)
        if isinstance(way, Problem):
            failed[recipient.agent] = way
        else:
            ways.append(way)
    if not ways or (whole and failed):
        reasons = ", ".join(f"{agent}: {problem.code}" for agent, problem in list(failed.items())[:5])
        detail = f"{len(failed)} of {len(recipients)} recipients could not be reached ({reasons}): nothing was sent"
        raise refusal("E_ROUTING_004", detail)
    admission = admit(decision, sender, draft.requested, default=envelope.priority is None)
    decision.emit(
        ev.BroadcastAccepted(
            at=decision.now,
            broadcast=envelope.message_id,
            sender=sender.agent,
            message_type=envelope.message_type,
            receiver_type=envelope.receiver.type,
            accepted=len(ways),
            failed=tuple(f"{agent}={problem.code}" for agent, problem in failed.items()),
            payload=body(envelope.payload),
            metadata=body(envelope.metadata),
        )
    )
    receipts: list[Receipt] = []
    for way in ways:
        receipts.append(_accept(decision, draft, way, admission, envelope.message_id))
        admission = msgspec.structs.replace(admission, tokens=None, critical_quota=None, blocking_quota=None)
    return BroadcastReceipt(envelope.message_id, tuple(receipts), failed)


def _accept(decision: Decision, draft: _Draft, way: Route, admission: Admission, broadcast: str | None) -> Receipt:
    envelope = draft.envelope
    decision.emit(
        ev.MessageAccepted(
            at=decision.now,
            message_id=envelope.message_id,
            sender=envelope.sender.agent_id,
            recipient=way.recipient.agent,
            message_type=envelope.message_type,
            requested=draft.requested,
            priority=admission.priority,
            rule=admission.rule,
            importance=draft.importance,
            decay_rate=draft.decay_rate,
            delivery_class=draft.delivery_class,
            ack_required=draft.contract.ack is AckRule.REQUIRED,
            expires_at=decision.now + draft.ttl_us,
            sent_at=instant(envelope.timestamp),
            version=envelope.version,
            correlation_id=envelope.correlation_id,
            opens_thread=draft.opens_thread,
            broadcast=broadcast,
            payload=b"" if broadcast else body(envelope.payload),
            metadata=b"" if broadcast else body(envelope.metadata),
            recipient_state=way.recipient_state,
            publish_path=way.publish_path,
            resolved_session=way.session,
            tokens=admission.tokens,
            critical_quota=admission.critical_quota,
            blocking_quota=admission.blocking_quota,
            held=draft.held,
        )
    )
    message = decision.state.messages[decision.state.seq]
    if draft.held:
        return receipt_of(message, signal_id(message), duplicate=False)
    pump(decision, way.recipient, message.seq)
    return receipt_of(message, signal_id(message), duplicate=False)


def _subject(decision: Decision, sender: Agent, payload: Ack | Nack) -> Message:
    """Find the message that an ACK or NACK is about, and refuse what could not be done to it."""
    if isinstance(payload, Ack):
        message_id, field = payload.acknowledged_message_id, "$.payload.acknowledgedMessageId"
    else:
        message_id, field = payload.rejected_message_id, "$.payload.rejectedMessageId"
    message = decision.state.copy_for(sender.agent, message_id)
    if message is None or not message.offers:
        raise refusal(
            "E_STATE_001", f"{message_id[:128]} is not there, not yours, or forgotten", field=field, found=message_id
        )
    if isinstance(payload, Ack):
        must_be_open(message, "acknowledged")
    else:
        must_be_rejectable(message)
    return message


def _confirm(decision: Decision, subject: Message, payload: Ack | Nack) -> Acknowledged | Rejected:
    if isinstance(payload, Ack):
        news = acknowledge(decision, subject, payload.status, payload.notes or "")
        return Acknowledged(signal_id(subject), subject.state, duplicate=not news)
    reject(
        decision,
        subject,
        payload.reason,
        payload.error_code or "",
        bool(payload.can_retry),
        payload.suggested_fix or "",
    )
    ready_at = as_datetime(subject.ready_at) if subject.state is State.QUEUED else None
    return Rejected(signal_id(subject), subject.state, ready_at)


def _record_refusal(decision: Decision, envelope: Envelope, requested: Priority, problem: Problem) -> None:
    decision.emit(
        ev.SendRefused(
            at=decision.now,
            message_id=envelope.message_id,
            sender=decision.caller.agent,
            recipient=envelope.receiver.agent_id,
            message_type=envelope.message_type,
            requested=requested,
            code=problem.code,
            detail=problem.detail,
            retry_after_s=problem.retry_after_s,
            traceparent=traceparent_of(envelope),
        )
    )


def apply_broadcast(state: ProjectState, event: ev.BroadcastAccepted) -> None:
    """Keep the content once for all copies."""
    state.broadcasts[event.broadcast] = Broadcast(
        broadcast=event.broadcast,
        sender=event.sender,
        message_type=event.message_type,
        receiver_type=event.receiver_type,
        copies={},
        failed=event.failed,
        payload=event.payload,
        metadata=event.metadata,
        accepted=event.accepted,
    )


def message_of(
    seq: Any, event: ev.MessageAccepted, sender: str, recipient: str, content: tuple[bytes, bytes]
) -> Message:
    """Return the message that an acceptance begins; its content is payload and metadata, a broadcast's for a copy."""
    at: Any = event.at
    return Message(
        seq=seq,
        message_id=event.message_id,
        sender=sender,
        recipient=recipient,
        type=intern(event.message_type),
        priority=event.priority,
        level=event.priority,
        own_level=event.priority,
        requested=event.requested,
        importance=event.importance,
        decay_rate=event.decay_rate,
        delivery_class=event.delivery_class,
        ack_required=event.ack_required,
        state=State.HELD if event.held else State.QUEUED,
        created_at=at,
        enqueued_at=at,
        expires_at=event.expires_at,
        sent_at=event.sent_at,
        payload=content[0],
        metadata=content[1],
        correlation_id=event.correlation_id,
        broadcast_id=event.broadcast,
        recipient_state=event.recipient_state,
        publish_path=event.publish_path,
        resolved_session=event.resolved_session,
    )


def apply_accepted(state: ProjectState, event: ev.MessageAccepted) -> None:
    """Queue it."""
    # One number for all who keep it: as an int, the compiled form would make another for each.
    seq: Any = state.seq
    payload, metadata = event.payload, event.metadata
    if event.broadcast is None:
        state.ids[event.message_id] = seq
    else:
        broadcast = state.broadcasts[event.broadcast]
        broadcast.copies[event.recipient] = seq
        payload, metadata = broadcast.payload, broadcast.metadata
    sender = state.agents.get(event.sender)
    recipient = state.agents[event.recipient].agent
    message = message_of(seq, event, event.sender if sender is None else sender.agent, recipient, (payload, metadata))
    state.messages[seq] = message
    follow(state, event)
    if state.inherited:
        lend_on_acceptance(state, message)
    arm(state, message)
    spend(state, event)

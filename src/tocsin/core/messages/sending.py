"""The decision on a send command: the checks in order, then an accepted message or a refusal.

The order of checks: the caller is the sender, the message was not sent before, the content fits its type, the recipient
exists, the priority is allowed, the mailbox has room. A refusal of a well-formed message is recorded as an event;
nothing else of it is kept.
"""

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
from tocsin.core.messages.acceptance import Draft, accept, draft_of
from tocsin.core.messages.admission import admit, grant
from tocsin.core.messages.broadcast import broadcast_to
from tocsin.core.messages.capacity import over_sender_or_project
from tocsin.core.messages.confirmations import send_confirmation
from tocsin.core.messages.correlation import answered, check_correlation
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.messages.model import State, content_digest
from tocsin.core.messages.routing import check_sender, recipients_of, route
from tocsin.core.messages.settlement import mark_received, process
from tocsin.core.protocol.contracts import Contract
from tocsin.core.protocol.envelope import ANYONE, Envelope
from tocsin.core.protocol.parsing import body, priority_of, traceparent_of
from tocsin.core.protocol.payloads import Ack, Nack, StateSync, check_payload, completes, is_completion, registers
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Agent
from tocsin.core.teamwork import approvals
from tocsin.core.wake.reach import reach_of

__all__ = ["decide_send", "publish", "respond", "settle_request"]


def decide_send(decision: Decision, command: Send) -> Receipt | BroadcastReceipt | Registered | Acknowledged | Rejected:
    """Accept a message, or refuse it."""
    return _send(decision, command.envelope, None, whole=False)


def publish(decision: Decision, envelope: Envelope, recipients: list[Agent], *, whole: bool) -> BroadcastReceipt | None:
    """Broadcast to some agents; `whole` refuses a partial broadcast. Return null where there are no recipients."""
    if envelope.message_type in ("ACK", "NACK"):
        raise refusal("E_ROUTING_002", f"{envelope.message_type} must be sent to one agent", field="$.messageType")
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
    if isinstance(payload, StateSync) and registers(payload, decision.caller.agent):
        return _register(decision, envelope, payload)
    sender = decision.me()
    known = _sent_before(decision, envelope, contract)
    if known is not None:
        return known
    requested = priority_of(envelope, contract.default_priority)
    try:
        check_sender(sender, envelope.message_type, contract, decision.policy)
        if isinstance(payload, Ack | Nack):
            return send_confirmation(decision, sender, envelope, contract, requested, payload)
        opens_thread = check_correlation(decision, envelope, contract.correlation, None)
        draft = draft_of(decision, envelope, contract, requested, opens_thread)
        held, notices = approvals.held_at(decision, sender, envelope.message_type), 0
        if held:
            approvals.check_room(decision, sender.agent)
            draft = msgspec.structs.replace(draft, held=held)
            notices = len(approvals.deciders(decision))
        receiver = envelope.receiver.agent_id
        request = answered(
            decision.state, envelope.correlation_id, sender.agent, receiver, completes=completes(payload)
        )
        receipt = _dispatch(decision, sender, draft, recipients, notices, whole=whole)
    except TocsinError as error:
        _record_refusal(decision, envelope, requested, error.problem)
        raise
    if held:
        approvals.hold(decision, held, envelope.message_id, sender.agent)
    if request is not None:
        settle_request(decision, request, held=bool(held))
    return receipt


def _dispatch(
    decision: Decision, sender: Agent, draft: Draft, recipients: list[Agent] | None, notices: int, *, whole: bool
) -> Receipt | BroadcastReceipt:
    """Accept a draft for its recipients; the sender also pays for `notices` about it."""
    envelope = draft.envelope
    if recipients is None:
        recipients = recipients_of(decision, envelope.receiver)
    if envelope.receiver.agent_id == ANYONE:
        return broadcast_to(decision, sender, draft, recipients, notices, whole=whole)
    granted = grant(decision, sender, draft.requested, default=envelope.priority is None)
    way = route(
        decision,
        recipients[0],
        envelope.message_type,
        draft.contract,
        draft.delivery_class,
        granted.priority,
        draft.size,
    )
    if isinstance(way, Problem):
        raise error_for(way)
    over = over_sender_or_project(decision, sender.agent, granted.priority, draft.size)
    if over is not None:
        raise over
    return accept(decision, draft, way, admit(decision, sender, granted, 1 + notices), None)


def _check_identity(decision: Decision, envelope: Envelope) -> None:
    if envelope.sender.agent_id != decision.caller.agent:
        raise refusal(
            "E_AUTH_002",
            f"the envelope's sender is {envelope.sender.agent_id}, but the caller is {decision.caller.agent}",
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
            f"{envelope.message_type} is not a message type of version {envelope.version}",
            field="$.messageType",
            found=envelope.message_type,
            expected="one of " + ", ".join([*known, "CUSTOM_*"]),
        )
    return check_payload(envelope.message_type, envelope.payload, contract), contract


def _register(decision: Decision, envelope: Envelope, payload: StateSync) -> Registered:
    """Handle a registration message as the register command (APM §5.3)."""
    try:
        supported = msgspec.convert(payload.state.get("supportedVersions"), tuple[str, ...])
        capabilities = msgspec.convert(payload.state.get("capabilities", []), tuple[str, ...])
    except msgspec.ValidationError as error:
        raise refusal("E_VALIDATION_002", f"$.payload.state: {error}", field="$.payload.state") from None
    return decide_register(decision, RegisterAgent(envelope.sender.type, supported, capabilities))


def _sent_before(decision: Decision, envelope: Envelope, contract: Contract) -> Receipt | BroadcastReceipt | None:
    """Return the first receipt of a messageId that was accepted before; refuse other content."""
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
            f"{message_id} was already used for another message: use a new id",
            field="$.messageId",
            found=message_id,
            expected="an id that was never used",
        )
    agents = decision.state.agents
    receipts = tuple(
        receipt_of(copy, signal_id(copy), duplicate=True, reach=reach_of(decision.state, agents.get(copy.recipient)))
        for copy in copies
    )
    if broadcast is None:
        return receipts[0]
    failed = dict(entry.split("=", 1) for entry in broadcast.failed)
    left_out = {agent: Problem(code, "left out when the message was first sent") for agent, code in failed.items()}
    return BroadcastReceipt(message_id, receipts, left_out, duplicate=True)


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


def settle_request(decision: Decision, request: Message, *, held: bool) -> None:
    """Mark a request as processed by its response; a held response only marks it as received."""
    if request.state in (State.EXPIRED, State.RECALLED, State.DEAD):
        return
    (mark_received if held else process)(decision, request, "response")
    responder = decision.state.agents.get(request.recipient)
    if responder is not None:
        pump(decision, responder)


def respond(decision: Decision, message: Message) -> None:
    """Settle the request that a released message responds to."""
    if message.broadcast_id is not None:
        return
    done = is_completion(message.type, message.payload)
    request = answered(decision.state, message.correlation_id, message.sender, message.recipient, completes=done)
    if request is not None:
        settle_request(decision, request, held=False)

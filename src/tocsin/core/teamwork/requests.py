"""Requests: an agent sends a message and waits for the answer in its thread.

A request is an ordinary message plus a wait in the wait graph: it lends its priority to the responder, and is ended if
it closes a deadlock. When its time is over, the message is raised once, if the requester asked for that; after that the
requester is notified, and the timeout is escalated unless the requester disabled it. The contract of the request's type
decides what counts as an answer. While a request is held for approval, its requester waits for any one of the
directors, and for the responder once it is released. An answer that is held does not count until it is released.

Requirement: LIMINAL's RequestResponse.
"""

from tocsin.core import events as ev
from tocsin.core.commands import (
    CancelRequest,
    Done,
    ExtendRequest,
    Receipt,
    Requested,
    Send,
    SendRequest,
    TimeoutExtended,
)
from tocsin.core.decision import Decision
from tocsin.core.errors import InvariantViolation, refusal
from tocsin.core.escalation.opening import open_escalation, raise_message
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import NEVER, State
from tocsin.core.messages.notices import notify
from tocsin.core.messages.sending import decide_send
from tocsin.core.policy import microseconds
from tocsin.core.protocol.contracts import ResponseRule
from tocsin.core.protocol.envelope import ANYONE, Envelope
from tocsin.core.protocol.payloads import is_completion
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_datetime, as_datetime_or_none
from tocsin.core.state import Agent, ProjectState
from tocsin.core.teamwork.approvals import deciders
from tocsin.core.teamwork.model import Request
from tocsin.core.waiting.graph import Wait, wait_key
from tocsin.core.waiting.waits import BREAKERS, begin_wait, end_wait, raise_wait, shift_wait

__all__ = [
    "answer",
    "apply_ended",
    "apply_extended",
    "apply_opened",
    "decide_cancel",
    "decide_request",
    "end_requests_of",
    "fail",
    "fire_request",
    "follow_directors",
    "released",
]

_KIND = "request"
_CONFIRMATIONS = ("ACK", "NACK")


def decide_request(decision: Decision, command: SendRequest) -> Requested:
    """Send a message and wait for its answer; a repeated request returns the same reply."""
    envelope = command.envelope
    known = decision.state.requests.get(envelope.message_id)
    timeout_s = _timeout_s(decision, command.timeout_s)
    correlation_id = _check_form(decision, envelope)
    if known is None:
        _check_room(decision, envelope, correlation_id)
    receipt = decide_send(decision, Send(envelope))
    if not isinstance(receipt, Receipt):
        raise InvariantViolation(f"a request to one agent returned {type(receipt).__name__}")
    if receipt.duplicate:
        due_at = None if known is None or known.requester != decision.caller.agent else known.due_at
        return Requested(receipt, envelope.message_id, as_datetime_or_none(due_at))
    message = decision.state.messages[decision.state.ids[envelope.message_id]]
    due_at = decision.now + max(1, microseconds(timeout_s))
    decision.emit(
        ev.RequestOpened(
            at=decision.now,
            request=envelope.message_id,
            requester=decision.caller.agent,
            responder=message.recipient,
            about=message.seq,
            correlation_id=correlation_id,
            timeout_s=timeout_s,
            boost=command.boost_on_timeout,
            due_at=due_at,
            escalate=command.escalate,
        )
    )
    held = message.state is State.HELD
    on = deciders(decision) if held else [message.recipient]
    begin_wait(decision, decision.caller.agent, _KIND, envelope.message_id, on=on, level=message.own_level, any_of=held)
    return Requested(receipt, envelope.message_id, as_datetime_or_none(due_at))


def _timeout_s(decision: Decision, wanted: float | None) -> float:
    policy = decision.policy.requests
    if wanted is None:
        return policy.timeout_s
    if not 0 < wanted <= policy.timeout_max_s:
        raise refusal(
            "E_VALIDATION_004",
            f"a timeout of {wanted:g} s is not allowed: it must be more than 0 and at most {policy.timeout_max_s:g} s",
            field="$.timeout_s",
            found=f"{wanted:g}",
            expected=f"more than 0, at most {policy.timeout_max_s:g}",
        )
    return float(wanted)


def _check_form(decision: Decision, envelope: Envelope) -> str:
    """Refuse a request that could never be answered; return the thread in which the answer comes."""
    if envelope.receiver.agent_id in (ANYONE, decision.caller.agent):
        raise refusal(
            "E_ROUTING_002",
            "a request must be sent to one other agent",
            field="$.receiver.agentId",
            found=envelope.receiver.agent_id,
            expected="one other agent",
        )
    contract = decision.policy.contract_of(envelope.message_type)
    if contract is not None and contract.response is ResponseRule.NONE:
        raise refusal(
            "E_VALIDATION_003",
            f"{envelope.message_type} has no response: send it without waiting",
            field="$.messageType",
            found=envelope.message_type,
            expected="a type whose contract names a response",
        )
    if envelope.correlation_id is None:
        raise refusal(
            "E_VALIDATION_001",
            "$.correlationId is missing: a request needs a thread for its answer",
            field="$.correlationId",
            found="nothing",
            expected="an id",
        )
    return envelope.correlation_id


def _check_room(decision: Decision, envelope: Envelope, correlation_id: str) -> None:
    state, me, most = decision.state, decision.caller.agent, decision.policy.requests.open_max
    if (correlation_id, envelope.receiver.agent_id, me) in state.asked:
        raise refusal("E_STATE_002", f"{me} already waits for an answer of {envelope.receiver.agent_id} in that thread")
    if state.asking.get(me, 0) >= most:
        raise refusal("E_ADMISSION_008", f"{me} has reached its limit of {most} open requests")


def decide_cancel(decision: Decision, command: CancelRequest) -> Done:
    """Cancel a request of the caller."""
    request = decision.state.requests.get(command.request)
    if request is None or request.requester != decision.me().agent:
        raise refusal("E_STATE_001", f"{command.request[:128]} is not an open request of {decision.caller.agent}")
    _end(decision, request, "cancelled", "cancelled by the requester")
    return Done()


def decide_extend(decision: Decision, command: ExtendRequest) -> TimeoutExtended:
    """Extend the timeout of a request of the caller."""
    me = decision.me().agent
    request = decision.state.requests.get(command.request)
    if request is None or request.requester != me:
        raise refusal("E_STATE_001", f"{command.request[:128]} is not an open request of {me}")
    due_at = decision.now + max(1, microseconds(_timeout_s(decision, command.timeout_s)))
    decision.emit(ev.RequestExtended(decision.now, request.request, due_at, me))
    return TimeoutExtended(request.request, as_datetime(due_at))


def answer(decision: Decision, message: Message) -> None:
    """End the request that a message answers, if it answers one."""
    if message.correlation_id is None or message.type in _CONFIRMATIONS:
        return
    name = decision.state.asked.get((message.correlation_id, message.sender, message.recipient))
    if name is None:
        return
    request = decision.state.requests[name]
    asked = decision.state.messages.get(request.about)
    completes = asked is not None and decision.state.contract(asked).response is ResponseRule.COMPLETION
    if completes and not is_completion(message.type, message.payload):
        return
    _end(decision, request, "answered", message.message_id)


def released(decision: Decision, message: Message) -> None:
    """Make the sender of a released request wait for its responder."""
    request = decision.state.requests.get(message.message_id)
    if request is not None and request.about == message.seq:
        shift_wait(decision, _KIND, request.request, request.requester, (request.responder,))


def follow_directors(decision: Decision) -> None:
    """Make the senders of held requests wait for the present directors."""
    for request in decision.state.requests.values():
        message = decision.state.messages.get(request.about)
        if message is not None and message.state is State.HELD:
            shift_wait(decision, _KIND, request.request, request.requester, deciders(decision))


def fail(decision: Decision, seq: int, detail: str) -> None:
    """End the request whose message can no longer be answered; the message may be forgotten already."""
    message = decision.state.messages.get(seq)
    if message is not None:
        request = decision.state.requests.get(message.message_id)
    else:
        request = next((known for known in decision.state.requests.values() if known.about == seq), None)
    if request is not None and request.about == seq:
        _end(decision, request, "failed", detail)
        _notify(decision, request, "E_ROUTING_003", detail)


def end_requests_of(decision: Decision, agent: str) -> None:
    """End the requests of an agent that has left, and those that waited for its answer."""
    for request in list(decision.state.requests.values()):
        if request.requester == agent:
            _end(decision, request, "retired", f"{agent} left the project")
        elif request.responder == agent:
            _end(decision, request, "failed", f"{agent} left the project")
            _notify(decision, request, "E_ROUTING_001", f"{agent} left the project without answering")


def fire_request(decision: Decision, name: str) -> None:
    """Handle the timeout of a request: raise its message once if asked for, else end and escalate it."""
    request = decision.state.requests.get(name)
    if request is None:
        return
    if decision.now < request.due_at:
        decision.state.timers.deadlines.schedule(f"{_KIND} {name}", request.due_at)
        return
    message = decision.state.messages.get(request.about)
    if request.boost and not request.boosted:
        decision.emit(ev.RequestExtended(decision.now, name, decision.now + max(1, microseconds(request.timeout_s))))
        levels = decision.policy.escalation.boost_levels
        if message is not None and message.state in (State.QUEUED, State.HELD):
            raise_message(decision, message, levels, request.timeout_s)
        if (wait := decision.state.waits.waits.get(wait_key(_KIND, name, request.requester))) is not None:
            raise_wait(decision, wait, levels)
        return
    whom = f"{request.responder} did not answer"
    if message is not None and message.state is State.HELD:
        whom = "nobody released"
    detail = f"{whom} {name} of {request.requester} within {request.timeout_s:g} s"
    _end(decision, request, "timeout", detail)
    _notify(decision, request, "E_PROTOCOL_004", detail)
    if request.escalate:
        cause, payer, limit_s = f"request_timeout {name}", request.requester, request.timeout_s
        open_escalation(decision, "request_timeout", cause, name, detail, about=message, threshold=limit_s, payer=payer)


def _end(decision: Decision, request: Request, outcome: str, detail: str) -> None:
    decision.emit(ev.RequestEnded(decision.now, request.request, request.requester, outcome, detail))
    reason = {"answered": "served", "failed": "cancelled"}.get(outcome, outcome)
    end_wait(decision, _KIND, request.request, request.requester, reason)


def _notify(decision: Decision, request: Request, code: str, detail: str) -> None:
    requester: Agent | None = decision.state.agents.get(request.requester)
    if requester is not None:
        payload = {
            "errorType": "DependencyError",
            "errorCode": code,
            "errorMessage": detail,
            "severity": "medium",
            "context": {"request": request.request, "responder": request.responder},
            "recoverable": True,
            "suggestedAction": "send the request again, ask another agent, or continue without an answer",
        }
        notify(decision, requester, "ERROR_REPORT", payload, Priority.BLOCKING, request.correlation_id)


def _refuse(decision: Decision, wait: Wait, detail: str) -> None:
    """End a request to break a deadlock; breaking the deadlock notifies the requester."""
    _end(decision, decision.state.requests[wait.ref], "deadlock", detail)


BREAKERS[_KIND] = _refuse


def apply_opened(state: ProjectState, event: ev.RequestOpened) -> None:
    """Add the request."""
    state.remember_request(
        Request(
            request=event.request,
            requester=event.requester,
            responder=event.responder,
            about=event.about,
            correlation_id=event.correlation_id,
            timeout_s=event.timeout_s,
            boost=event.boost,
            opened_at=event.at,
            due_at=event.due_at,
            escalate=event.escalate,
        )
    )
    state.timers.deadlines.schedule(f"{_KIND} {event.request}", event.due_at)


def apply_extended(state: ProjectState, event: ev.RequestExtended) -> None:
    """Set the request's new deadline."""
    request = state.requests[event.request]
    state.timers.deadlines.cancel(f"{_KIND} {event.request}", request.due_at)
    request.due_at = event.due_at
    if not event.by:
        request.boosted = True
    state.timers.deadlines.schedule(f"{_KIND} {event.request}", event.due_at)


def apply_ended(state: ProjectState, event: ev.RequestEnded) -> None:
    """Remove the request."""
    request = state.forget_request(event.request)
    state.timers.deadlines.cancel(f"{_KIND} {event.request}", request.due_at or NEVER)

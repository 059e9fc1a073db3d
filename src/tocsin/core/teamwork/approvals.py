"""Approvals: messages and actions that wait for a director's decision at the policy's handoff points.

A message of a type that the policy names is *held*: accepted, durable, paid for, and offered to nobody until a director
releases it, unchanged or with another payload, or refuses it with a reason. An action needs a `RequestApproval`;
the asker waits for any one of the directors and is notified of the decision. Directors need no approval. An approval
that is not decided in time, or that nobody can decide, is escalated and its asker is notified. It stays open: for a
held message until its TTL ends, for an action until the policy's limit.
"""

from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import (
    SYSTEM,
    ApprovalDecided,
    ApprovalRequested,
    DecideApproval,
    Done,
    RequestApproval,
    WithdrawApproval,
)
from tocsin.core.decision import Decision
from tocsin.core.errors import TocsinError, refusal
from tocsin.core.escalation.opening import open_escalation
from tocsin.core.leases.transitions import release
from tocsin.core.messages.admission import bill
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.endings.dead_letters import die
from tocsin.core.messages.message import Message, renewed_expiry
from tocsin.core.messages.model import NEVER, State
from tocsin.core.messages.notices import notify
from tocsin.core.protocol.payloads import check_payload
from tocsin.core.protocol.previews import preview
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.core.scheduling import move, schedule
from tocsin.core.state import Agent, ProjectState
from tocsin.core.teamwork.model import Approval
from tocsin.core.waiting.graph import Wait
from tocsin.core.waiting.inheritance import lend_on_acceptance
from tocsin.core.waiting.waits import BREAKERS, begin_wait, end_wait, shift_wait

__all__ = [
    "apply_ended",
    "apply_overdue",
    "apply_released",
    "apply_requested",
    "ask_directors",
    "decide_approval",
    "decide_ask",
    "decide_withdraw",
    "deciders",
    "end_approvals_of",
    "end_moot",
    "end_overrides",
    "fire_approval",
    "follow_directors",
    "held_at",
    "hold",
    "lapse",
    "notify_new_decider",
]

_KIND = "approval"
_OVERRIDE = "lease_override"
#: Permission to use a tool: an agent stands still meanwhile, so it is denied at the timeout and not escalated.
_PERMISSION = "tool_permission"
#: Outcomes that the asker is notified of by `ApprovalDecided`; it learns of the others in another way.
_NOTIFIED_OUTCOMES = frozenset({"approved", "changed", "refused", "moot", "timeout"})


def held_at(decision: Decision, sender: Agent, message_type: str) -> str:
    """Return the handoff point at which a sender's message is held; empty if it is not held."""
    handoff = decision.policy.approvals.held_types.get(message_type)
    return "" if handoff is None or decision.policy.roles[sender.role].directs else handoff


def check_room(decision: Decision, asker: str) -> None:
    """Refuse another approval if too many are open, in the project or for one agent."""
    policy, known = decision.policy.approvals, decision.state.approvals
    if len(known) >= policy.open_max:
        raise refusal("E_ADMISSION_008", f"the project has reached its limit of {policy.open_max} open approvals")
    if sum(approval.asker == asker for approval in known.values()) >= policy.per_agent_max:
        raise refusal("E_ADMISSION_008", f"{asker} has reached its limit of {policy.per_agent_max} open approvals")


def hold(decision: Decision, handoff: str, message_id: str, sender: str) -> None:
    """Open the approval of a message that was accepted and is held."""
    copies = decision.state.copies_of(message_id)
    whom = ", ".join(copy.recipient for copy in copies[:5])
    most = decision.policy.limits.text_max
    details = f"{copies[0].type} to {whom}: {preview(copies[0].payload, most)}"
    _request(decision, handoff, sender, message_id, details[:most], holds=True)


def decide_ask(decision: Decision, command: RequestApproval) -> ApprovalRequested:
    """Open an approval for an action."""
    me = decision.me()
    handoff = decision.policy.approvals.handoffs.get(command.handoff)
    if handoff is None or not handoff.enabled:
        enabled = [name for name, row in decision.policy.approvals.handoffs.items() if row.enabled]
        raise refusal(
            "E_VALIDATION_003",
            f"{command.handoff[:64]!r} is not an enabled handoff point of this project",
            field="$.handoff",
            found=command.handoff[:64],
            expected="one of " + ", ".join(enabled),
        )
    subject, details = decision.text(command.subject, "$.subject"), decision.text(command.details, "$.details")
    if command.handoff == _OVERRIDE and subject not in decision.state.leases.leases:
        raise refusal(
            "E_LEASE_001",
            f"{subject[:64]!r} is not a held lease: an override needs one",
            field="$.subject",
            found=subject[:64],
            expected="the id of a lease that is held",
        )
    check_room(decision, me.agent)
    charge = bill(decision, me, _KIND, _level(decision, me.agent), max(1, len(deciders(decision))))
    requested = ask_directors(decision, command.handoff, me.agent, subject, details)
    if charge is not None:
        decision.emit(charge)
    return requested


def ask_directors(
    decision: Decision, handoff: str, asker: str, subject: str, details: str, *, name: str = ""
) -> ApprovalRequested:
    """Open an approval for an action; the asker waits for any one of the directors. `name` is the approval's id."""
    approval = _request(decision, handoff, asker, subject, details, holds=False, name=name)
    level = _level(decision, asker)
    begin_wait(decision, asker, _KIND, approval.approval, on=deciders(decision), level=level, any_of=True)
    return ApprovalRequested(approval.approval, as_datetime(approval.due_at))


def _request(
    decision: Decision, handoff: str, asker: str, subject: str, details: str, *, holds: bool, name: str = ""
) -> Approval:
    name, rule = name or decision.ids.fresh("apr", decision.now), decision.policy.approvals.handoffs[handoff]
    due_at = decision.now + max(1, rule.timeout_us)
    decision.emit(
        ev.ApprovalRequested(decision.now, name, handoff, asker, subject, details, holds, rule.timeout_s, due_at)
    )
    approval, asked = decision.state.approvals[name], deciders(decision)
    for director in asked:
        _notify_decider(decision, approval, director)
    if not asked and handoff != _PERMISSION:
        _escalate(decision, approval, 0.0, "there is nobody in the project to decide it")
    return approval


def _notify_decider(decision: Decision, approval: Approval, director: str) -> None:
    """Notify a director of an approval that it may decide."""
    asker = approval.asker
    if director == asker:
        return
    question = approval.details if approval.holds else f"{approval.subject}\n{approval.details}".rstrip()
    payload = {
        "text": question,
        "approval": approval.approval,
        "handoff": approval.handoff,
        "asker": asker,
        "subject": approval.subject,
        "details": approval.details,
    }
    level = _level(decision, asker) if asker in decision.state.agents else Priority.COORDINATE
    recipient = decision.state.agents[director]
    notify(decision, recipient, "ApprovalRequested", payload, level, subject=f"approvals of {asker}")


def notify_new_decider(decision: Decision, director: str) -> None:
    """Notify an agent that has just become a director, or a human, of the approvals that are open."""
    for approval in list(decision.state.approvals.values()):
        _notify_decider(decision, approval, director)


def _level(decision: Decision, asker: str) -> Priority:
    """Return the priority of an agent's approval: Blocking, or its role's cap if that is lower."""
    return min(Priority.BLOCKING, decision.policy.roles[decision.state.agents[asker].role].cap)


def deciders(decision: Decision) -> list[str]:
    """Return the agents that may decide an approval: the directors and humans of the project, by name."""
    roles = decision.policy.roles
    return sorted(agent.agent for agent in decision.state.agents.values() if roles[agent.role].directs)


def decide_approval(decision: Decision, command: DecideApproval) -> ApprovalDecided:
    """Apply a director's decision: approve, approve with another payload, or refuse."""
    decision.must_direct("decide an approval")
    approval = _open(decision, command.approval)
    reason = decision.text(command.reason, "$.reason")
    held = _held(decision, approval)
    payload = b""
    if command.verdict == "refuse":
        if not reason:
            raise refusal("E_VALIDATION_001", "$.reason is missing: a refusal needs a reason", field="$.reason")
        if command.payload is not None:
            raise refusal("E_VALIDATION_004", "$.payload is allowed only with an approval", field="$.payload")
        outcome = "refused"
    else:
        payload = _changed_payload(decision, approval, held, command.payload)
        outcome = "approved" if command.payload is None else "changed"
    _end(decision, approval, outcome, decision.caller.agent, reason)
    for message in held:
        if outcome == "refused":
            detail = f"{decision.caller.agent} refused {message.message_id}: {reason}"
            die(decision, message, "approval_refused", "E_AUTH_003", detail)
        else:
            _release(decision, approval, message, payload)
    if outcome != "refused" and approval.handoff == _OVERRIDE:
        _override(decision, approval, reason)
    return ApprovalDecided(approval.approval, outcome)


def _override(decision: Decision, approval: Approval, reason: str) -> None:
    """Release the lease that an approved override is about; the next request in the queue gets it."""
    lease = decision.state.leases.leases.get(approval.subject)
    if lease is not None:
        note = f"{approval.asker} asked for it" + (f": {reason}" if reason else "")
        release(decision, lease, tuple(claim.resource for claim in lease.claims), "forced", note)


def _changed_payload(
    decision: Decision, approval: Approval, held: list[Message], changed: dict[str, Any] | None
) -> bytes:
    """Encode and check the payload that replaces a held message's own; empty where it stays as it is."""
    if changed is None:
        return b""
    if not held or held[0].broadcast_id is not None:
        raise refusal(
            "E_STATE_002", f"{approval.approval} is not about a message to one agent: its payload cannot be changed"
        )
    try:
        payload = msgspec.json.encode(changed)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError) as error:
        raise refusal("E_VALIDATION_002", f"$.payload cannot be written as JSON: {error}", field="$.payload") from None
    if len(payload) > decision.policy.limits.message_bytes_max:
        raise refusal("E_VALIDATION_005", "the payload is larger than a message may be", field="$.payload")
    check_payload(held[0].type, payload, decision.state.contract(held[0]))
    return payload


def _release(decision: Decision, approval: Approval, message: Message, payload: bytes) -> None:
    expires_at = renewed_expiry(message, decision.now)
    decision.emit(
        ev.MessageReleased(decision.now, message.seq, approval.approval, decision.caller.agent, expires_at, payload)
    )
    pump(decision, decision.state.agents[message.recipient])


def decide_withdraw(decision: Decision, command: WithdrawApproval) -> Done:
    """Withdraw an approval request of the caller."""
    approval = decision.state.approvals.get(command.approval)
    if approval is None or approval.asker != decision.me().agent:
        raise _unknown(command.approval)
    if approval.holds:
        raise refusal(
            "E_STATE_002", f"{approval.approval} holds the message {approval.subject}: recall the message instead"
        )
    _end(decision, approval, "withdrawn", approval.asker, "")
    return Done()


def fire_approval(decision: Decision, name: str) -> None:
    """Escalate an approval that was not decided in time; give up an action some time after that."""
    approval = decision.state.approvals.get(name)
    if approval is None or approval.due_at == NEVER:
        return
    if decision.now < approval.due_at:
        decision.state.timers.deadlines.schedule(f"{_KIND} {name}", approval.due_at)
        return
    if approval.handoff == _PERMISSION:
        _end(decision, approval, "timeout", SYSTEM.agent, "nobody answered in time, so it is denied")
    elif approval.overdue:
        _end(decision, approval, "timeout", SYSTEM.agent, "not decided after it was escalated")
    else:
        _escalate(decision, approval, approval.timeout_s, "nobody has decided it")


def _escalate(decision: Decision, approval: Approval, after_s: float, why: str) -> None:
    """Escalate an approval and notify its asker; directors and humans may still decide it."""
    name, due_at = approval.approval, NEVER
    if not approval.holds:
        due_at = decision.now + max(1, decision.policy.approvals.give_up_after_us)
    decision.emit(ev.ApprovalOverdue(decision.now, name, after_s, due_at))
    asker = decision.state.agents.get(approval.asker)
    if asker is not None:
        payload = {"handoff": approval.handoff, "subject": approval.subject, "reason": why}
        notify(decision, asker, "ApprovalOverdue", {"approval": name} | payload, _level(decision, approval.asker))
    detail = f"{approval.asker} waits for an approval ({approval.handoff}, {approval.subject}) and {why}"
    cause, payer = f"approval_timeout {name}", approval.asker
    open_escalation(decision, "approval_timeout", cause, name, detail, threshold=after_s, payer=payer)


def lapse(decision: Decision, seq: int) -> None:
    """End the approval of a held message that has ended; the message may be forgotten already."""
    message = decision.state.messages.get(seq)
    if message is not None and message.offers:
        return
    for approval in list(decision.state.approvals.values()):
        if approval.holds and not _held(decision, approval):
            _end(decision, approval, "expired", SYSTEM.agent, f"{approval.subject} is no longer held")


def end_approvals_of(decision: Decision, agent: str) -> None:
    """End the approvals that an agent that has left asked for; messages that it sent stay held."""
    for approval in list(decision.state.approvals.values()):
        if approval.asker == agent and not approval.holds:
            _end(decision, approval, "retired", SYSTEM.agent, f"{agent} left the project")


def end_moot(decision: Decision, name: str, reason: str) -> None:
    """End an approval, if it is open, whose decision would have no effect any more."""
    approval = decision.state.approvals.get(name)
    if approval is not None:
        _end(decision, approval, "moot", SYSTEM.agent, reason)


def end_overrides(decision: Decision, lease: str) -> None:
    """End the override approvals of a lease that has ended."""
    if lease in decision.state.leases.leases:
        return
    for approval in list(decision.state.approvals.values()):
        if approval.handoff == _OVERRIDE and approval.subject == lease:
            end_moot(decision, approval.approval, f"{lease} is no longer held")


def follow_directors(decision: Decision) -> None:
    """Make every wait for a director a wait for the present directors."""
    for approval in decision.state.approvals.values():
        if not approval.holds:
            shift_wait(decision, _KIND, approval.approval, approval.asker, deciders(decision))


def _end(decision: Decision, approval: Approval, outcome: str, by: str, reason: str) -> None:
    decision.emit(
        ev.ApprovalEnded(decision.now, approval.approval, approval.asker, outcome, by, reason, approval.subject)
    )
    end_wait(decision, _KIND, approval.approval, approval.asker, "served" if by != SYSTEM.agent else outcome)
    asker = decision.state.agents.get(approval.asker)
    if asker is not None and outcome in _NOTIFIED_OUTCOMES:
        payload = {
            "approval": approval.approval,
            "handoff": approval.handoff,
            "subject": approval.subject,
            "outcome": outcome,
            "by": by,
            "reason": reason,
        }
        notify(decision, asker, "ApprovalDecided", payload, Priority.BLOCKING)


def _held(decision: Decision, approval: Approval) -> list[Message]:
    if not approval.holds:
        return []
    copies = decision.state.copies_of(approval.subject)
    return [copy for copy in copies if copy.state is State.HELD and copy.sender == approval.asker]


def _open(decision: Decision, name: str) -> Approval:
    approval = decision.state.approvals.get(name)
    if approval is None:
        raise _unknown(name)
    return approval


def _unknown(name: str) -> TocsinError:
    return refusal("E_STATE_001", f"{name[:64]} is not an open approval of yours", found=name[:64])


def _refuse(decision: Decision, wait: Wait, detail: str) -> None:
    """End an approval to break a deadlock; breaking the deadlock notifies the asker."""
    _end(decision, decision.state.approvals[wait.ref], "deadlock", SYSTEM.agent, detail)


BREAKERS[_KIND] = _refuse


def apply_requested(state: ProjectState, event: ev.ApprovalRequested) -> None:
    """Add the approval."""
    state.approvals[event.approval] = Approval(
        approval=event.approval,
        handoff=event.handoff,
        asker=event.asker,
        subject=event.subject,
        details=event.details,
        holds=event.holds,
        timeout_s=event.timeout_s,
        opened_at=event.at,
        due_at=event.due_at,
    )
    state.timers.deadlines.schedule(f"{_KIND} {event.approval}", event.due_at)


def apply_overdue(state: ProjectState, event: ev.ApprovalOverdue) -> None:
    """Record that the approval was escalated."""
    approval = state.approvals[event.approval]
    state.timers.deadlines.cancel(f"{_KIND} {event.approval}", approval.due_at)
    approval.overdue = True
    approval.due_at = event.due_at
    if event.due_at != NEVER:
        state.timers.deadlines.schedule(f"{_KIND} {event.approval}", event.due_at)


def apply_ended(state: ProjectState, event: ev.ApprovalEnded) -> None:
    """Remove the approval."""
    approval = state.approvals.pop(event.approval)
    if approval.due_at != NEVER:
        state.timers.deadlines.cancel(f"{_KIND} {event.approval}", approval.due_at)


def apply_released(state: ProjectState, event: ev.MessageReleased) -> None:
    """Queue the message as if it had just been sent, with its new payload if it has one."""
    message = move(state, event.message, ev.MessageReleased)
    message.enqueued_at = event.at
    message.expires_at = event.expires_at
    if event.payload:
        state.volume.remove(message)
        message.payload = event.payload
        state.volume.add(message)
    if state.inherited:
        lend_on_acceptance(state, message)  # what its sender has inherited while it was held
    schedule(state, message)

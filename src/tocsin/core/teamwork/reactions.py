"""Coordination effects of a decision's events, run before the decision ends.

For example, a message that leaves its queue closes the escalation of its waiting; an agent found to inflate its
priorities, or an error report marked critical, opens one. Each reaction is selected by the type of an event and sees
the state as it is by then; the events that it adds are reacted to in turn. The modules that own messages do not depend
on this one.
"""

from collections.abc import Callable
from typing import Any, Final

from tocsin.core import events as ev
from tocsin.core.agents import attention
from tocsin.core.commands import SYSTEM
from tocsin.core.decision import Decision
from tocsin.core.escalation.closing import close_if_over
from tocsin.core.escalation.opening import open_escalation
from tocsin.core.escalation.steps import notify_newcomer
from tocsin.core.messages import sending
from tocsin.core.messages.endings.dead_letters import was_refused
from tocsin.core.messages.notices import unfold
from tocsin.core.protocol.payloads import is_critical_error
from tocsin.core.teamwork import approvals, discussions, requests, topics
from tocsin.core.teamwork.model import Escalation
from tocsin.core.waiting.resolution import settle
from tocsin.core.wake import channels
from tocsin.core.wake import decisions as wake

__all__ = ["react"]

_ERROR: Final = "ERROR_REPORT"


def react(decision: Decision) -> None:
    """Run the reactions to the events of this decision, and to the events that they add, until there are no more."""
    events, seen = decision.events, 0
    while True:
        unblocked = False
        while seen < len(events):
            kind = type(events[seen])
            reaction = _REACTIONS.get(kind)
            if reaction is not None:
                reaction(decision, events[seen])
            unblocked = unblocked or kind in _UNBLOCKING
            seen += 1
        if unblocked:
            _close_unblocked(decision)
        settle(decision)
        if seen == len(events):
            return


def _accepted(decision: Decision, event: ev.MessageAccepted) -> None:
    if not event.held and (event.correlation_id, event.sender, event.recipient) in decision.state.asked:
        message = decision.state.copy_for(event.recipient, event.message_id)
        if message is not None:
            requests.answer(decision, message)
    if event.message_type == _ERROR and event.sender != SYSTEM.agent:
        _critical_error(decision, event)


def _critical_error(decision: Decision, event: ev.MessageAccepted) -> None:
    """Escalate an error report that its sender marked as critical."""
    message = decision.state.copy_for(event.recipient, event.message_id)
    if message is not None and is_critical_error(message.payload):
        detail = f"{event.sender} reported a critical error to {event.recipient}: {event.message_id}"
        open_escalation(
            decision, "critical_error", f"critical_error {event.message_id}", event.message_id, detail, about=message
        )


def _released(decision: Decision, event: ev.MessageReleased | ev.DeadLetterRedriven) -> None:
    """Answer and settle requests with a message that was released or redriven."""
    message = decision.state.messages.get(event.message)
    if message is None:
        return
    if isinstance(event, ev.DeadLetterRedriven) and not was_refused(decision.state, message):
        return
    sending.respond(decision, message)
    requests.released(decision, message)
    requests.answer(decision, message)


def _left_queue(decision: Decision, event: Any) -> None:
    if decision.state.folded:
        unfold(decision, event.message)
    for name in list(decision.state.escalated.get(event.message, ())):
        if name in decision.state.open_escalations:
            close_if_over(decision, decision.state.escalations[name])


def _offered(decision: Decision, event: ev.MessageOffered) -> None:
    _left_queue(decision, event)
    if decision.state.wake_targets:
        wake.taken(decision, event)


def _delivered(decision: Decision, event: ev.MessageDelivered) -> None:
    _left_queue(decision, event)
    if decision.state.wake_targets:
        wake.taken(decision, event)
    if decision.state.folded:
        unfold(decision, event.message)


def _ended(decision: Decision, event: ev.MessageExpired | ev.MessageRecalled | ev.MessageDied) -> None:
    _left_queue(decision, event)
    attention.end_interrupt(decision, event.message)
    if decision.state.wake_targets:
        wake.left_queue(decision, event.message)
    if decision.state.approvals:
        approvals.lapse(decision, event.message)
    if decision.state.requests:
        requests.fail(decision, event.message, f"the message of the request {_ENDINGS[type(event)]}")


def _processed(decision: Decision, event: ev.MessageProcessed) -> None:
    """Close escalations of a request that was answered."""
    _left_queue(decision, event)
    attention.end_interrupt(decision, event.message)


def _requeued(decision: Decision, event: ev.MessageRequeued) -> None:
    attention.end_interrupt(decision, event.message)


def _retired(decision: Decision, event: ev.AgentRetired) -> None:
    requests.end_requests_of(decision, event.agent)
    approvals.end_approvals_of(decision, event.agent)
    discussions.leave(decision, event.agent)
    topics.leave(decision, event.agent)
    wake.retire(decision, event.agent)
    _follow_directors(decision)


def _registered(decision: Decision, event: ev.AgentRegistered) -> None:
    """Update waits for directors; notify a new director of what was open before it came."""
    _follow_directors(decision)
    roles, agent = decision.policy.roles, decision.state.agents.get(event.agent)
    directed = event.former_role in roles and roles[event.former_role].directs
    if agent is not None and roles[event.role].directs and not directed:
        approvals.notify_new_decider(decision, event.agent)
        notify_newcomer(decision, agent)


def _adopted(decision: Decision, event: ev.PolicyAdopted) -> None:
    """Update waits for directors, because the policy decides which roles direct."""
    _follow_directors(decision)


def _follow_directors(decision: Decision) -> None:
    approvals.follow_directors(decision)
    requests.follow_directors(decision)


def _decided(decision: Decision, event: ev.ApprovalEnded) -> None:
    discussions.ratified(decision, event)
    name = decision.state.causes.get(f"approval_timeout {event.approval}")
    if name is not None:
        close_if_over(decision, decision.state.escalations[name])


def _lease_ended(decision: Decision, event: ev.LeaseReleased | ev.LeaseLapsed | ev.LeaseReclaimed) -> None:
    """End override approvals of the lease."""
    if decision.state.approvals:
        approvals.end_overrides(decision, event.lease)


def _close_unblocked(decision: Decision) -> None:
    """Close the escalations of waits that have ended, and of contention that has."""
    for trigger in ("dependency_blocked", "resource_contended"):
        for opened in _open_about(decision, trigger):
            close_if_over(decision, opened)


def _open_about(decision: Decision, trigger: str) -> list[Escalation]:
    known = decision.state.escalations
    return [opened for name in decision.state.open_escalations if (opened := known[name]).trigger == trigger]


def _contended(decision: Decision, event: ev.LeaseContended) -> None:
    """Escalate contention for a resource, once for as long as it lasts."""
    if any(known.subject == event.resource for known in _open_about(decision, "resource_contended")):
        return
    waits = "1 request waits" if event.depth == 1 else f"{event.depth} requests wait"
    detail = f"{waits} for {event.resource} ({', '.join(event.waiters)}); held by {', '.join(event.holders)}"
    cause = f"resource_contended {event.resource} {decision.state.seq}"
    open_escalation(decision, "resource_contended", cause, event.resource, detail)


def _gaming(decision: Decision, event: ev.GamingDetected) -> None:
    detail = (
        f"{event.agent} inflates its priorities: {event.high} of its last {event.messages} messages in "
        f"{event.window_s:g} s were Blocking or above; they are sent as Info until that ends"
    )
    cause = f"priority_inflation {event.agent} {decision.state.seq}"
    ratio = decision.policy.gaming.high_priority_ratio
    open_escalation(decision, "priority_inflation", cause, event.agent, detail, threshold=ratio)


def _deadlock(decision: Decision, event: ev.DeadlockFound) -> None:
    """Record a broken deadlock as an escalation; breaking it has already notified everybody."""
    detail = f"{' → '.join((*event.cycle, event.cycle[0]))} waited for each other; {event.victim} was refused"
    cause = f"deadlock {event.refused} {decision.state.seq}"
    open_escalation(decision, "deadlock", cause, event.refused, detail)


def _cleared(decision: Decision, event: ev.GamingCleared) -> None:
    for opened in _open_about(decision, "priority_inflation"):
        if opened.subject == event.agent:
            close_if_over(decision, opened)


_ENDINGS: dict[type, str] = {
    ev.MessageExpired: "expired",
    ev.MessageRecalled: "was recalled",
    ev.MessageDied: "could not be delivered",
}

#: Events that may end what escalations of waits and of contention are about. One decision may have many of them, and
#: many escalations may be open, so these are looked through once and not for each event.
_UNBLOCKING: Final = frozenset(
    {ev.WaitEnded, ev.LeaseGranted, ev.LeaseReleased, ev.LeaseLapsed, ev.LeaseReclaimed, ev.LeaseWaitEnded}
)

_REACTIONS: Final[dict[type, Callable[[Decision, Any], None]]] = {
    ev.MessageAccepted: _accepted,
    ev.MessageReleased: _released,
    ev.DeadLetterRedriven: _released,
    ev.MessageOffered: _offered,
    ev.MessageDelivered: _delivered,
    ev.MessageExpired: _ended,
    ev.MessageRecalled: _ended,
    ev.MessageDied: _ended,
    ev.MessageProcessed: _processed,
    ev.PolicyAdopted: _adopted,
    ev.MessageRequeued: _requeued,
    ev.AgentRetired: _retired,
    ev.SessionOpened: wake.attached,
    ev.SessionHeartbeat: channels.heard,
    ev.AgentRegistered: _registered,
    ev.ApprovalEnded: _decided,
    ev.LeaseReleased: _lease_ended,
    ev.LeaseLapsed: _lease_ended,
    ev.LeaseReclaimed: _lease_ended,
    ev.LeaseContended: _contended,
    ev.GamingDetected: _gaming,
    ev.GamingCleared: _cleared,
    ev.DeadlockFound: _deadlock,
}

"""Conditions under which an escalation is over, and under which a closed one may be forgotten."""

from tocsin.core.messages.model import NEVER, State
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import Deferred, Escalation

__all__ = ["is_open", "is_over", "may_be_forgotten"]

_ENDED = (State.PROCESSED, State.EXPIRED, State.RECALLED, State.DEAD)
#: Triggers whose condition may outlast the escalation, and would open another: a command closes it while the cause
#: persists. The causes of inflated priorities and of contention are new each time.
_OUTLASTING = frozenset({"approval_timeout", "dependency_blocked", "health_degraded"})


def is_open(opened: Escalation) -> bool:
    """Return whether an escalation is not closed."""
    return opened.closed_at == NEVER


def is_over(state: ProjectState, opened: Escalation | Deferred) -> bool:
    """Return whether the condition that an escalation is about has ended."""
    match opened.trigger:
        case "time_in_queue":
            message = state.messages.get(opened.about)
            return message is None or message.state is not State.QUEUED or message.enqueued_at != opened.waiting_since
        case "priority_inflation":
            agent = state.agents.get(opened.subject)
            return agent is None or not agent.gaming
        case "request_timeout":
            asked = state.messages.get(opened.about)
            return asked is None or asked.state in _ENDED
        case "health_degraded":
            alert = state.alerts.get(opened.subject)
            return alert is None or alert.raised_at == NEVER or not opened.cause.endswith(f" {alert.breach}")
        case "approval_timeout":
            return opened.subject not in state.approvals
        case "dependency_blocked":
            return opened.subject not in state.waits.waits
        case "resource_contended":
            return state.leases.contention(opened.subject).depth < (state.policy.escalation.contention_depth or 1)
        case "critical_error":
            return _was_handled(state, opened.about)
        case "wake_failed":
            woken = state.wakes.get(opened.subject)
            return woken is None or not woken.failed
        case "deadlock":
            return True
    return False


def _was_handled(state: ProjectState, seq: int) -> bool:
    """Return whether a report was processed by an agent whose role directs."""
    report = state.messages.get(seq)
    if report is None or report.state is not State.PROCESSED:
        return False
    recipient = state.agents.get(report.recipient)
    return recipient is not None and state.policy.roles[recipient.role].directs


def may_be_forgotten(state: ProjectState, known: Escalation) -> bool:
    """Return whether an escalation is closed and its cause cannot occur again."""
    if is_open(known):
        return False
    if known.trigger in _OUTLASTING:
        return is_over(state, known)
    message = state.messages.get(known.about)
    if message is None or known.trigger != "time_in_queue":
        return True
    return message.enqueued_at != known.waiting_since or message.state in _ENDED

"""Closing of escalations, and removal of the oldest closed ones from the state."""

from heapq import nsmallest

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.escalation.conditions import is_over, may_be_forgotten
from tocsin.core.escalation.opening import open_deferred
from tocsin.core.escalation.paths import Place
from tocsin.core.escalation.steps import move
from tocsin.core.messages.model import NEVER
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import Escalation

__all__ = ["apply_forgotten", "close", "close_if_over", "trim_history"]


def close_if_over(decision: Decision, opened: Escalation) -> bool:
    """Close an escalation whose condition has ended; return whether it is closed."""
    if opened.closed_at != NEVER:
        return True
    if not is_over(decision.state, opened):
        return False
    if opened.state in (Place.BOOSTED, Place.INHERITANCE, Place.ALERT, Place.DIRECTOR, Place.HUMAN):
        move(decision, opened, "over", detail="the condition has ended")
        close(decision, opened)
    return opened.closed_at != NEVER


def close(decision: Decision, opened: Escalation) -> None:
    """Close an escalation, and open a deferred one in its place."""
    move(decision, opened, "returned", detail="")
    open_deferred(decision)


def trim_history(decision: Decision) -> None:
    """Forget the oldest closed escalations over the limit, at the end of a decision that may have closed many."""
    surplus = len(decision.state.closed_escalations) - decision.policy.escalation.history_max
    if surplus > 0:
        names = tuple([known.escalation for known in _oldest_closed(decision.state, surplus)])
        if names:
            decision.emit(ev.EscalationsForgotten(decision.now, names))


def _oldest_closed(state: ProjectState, count: int) -> list[Escalation]:
    """Return the oldest closed escalations that may be forgotten, by time of closing and name."""
    found: list[Escalation] = []
    for name in state.closed_escalations:
        known = state.escalations[name]
        if len(found) >= count and known.closed_at != found[-1].closed_at:
            break
        if may_be_forgotten(state, known):
            found.append(known)
    return nsmallest(count, found, key=lambda known: (known.closed_at, known.escalation))


def apply_forgotten(state: ProjectState, event: ev.EscalationsForgotten) -> None:
    """Remove closed escalations and deferred causes from the state."""
    for name in event.escalations:
        state.forget_escalation(name)
    for cause in event.causes:
        del state.deferred[cause]

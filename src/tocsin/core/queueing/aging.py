"""Aging: raising the priority of messages that wait, so that the longest wait has a bound.

Each time a message has waited another `aging.threshold_s`, it rises by `aging.boost_levels`, up to `aging.top`
(Blocking by default); one threshold later it is overdue and goes first in that level. It keeps its original enqueueing
time. A message above `aging.top` does not age, and one that was raised above it otherwise is not overdue there: so
a message that merely waited never goes before, or among, those that were sent, escalated or lent to Critical.

The bound: a message of priority p is overdue once it is `Aging.bound_us(p)` old, and from then on only messages above
`aging.top` (Critical, which quotas ration, and DirectorOverride), and messages both older than it and overdue
themselves, are offered before it, whatever else arrives.
"""

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.messages.model import State
from tocsin.core.protocol.priority import Priority
from tocsin.core.scheduling import boost_due, schedule, unschedule
from tocsin.core.state import ProjectState

__all__ = ["apply_boosted", "fire_aging"]


def fire_aging(decision: Decision, seq: int) -> None:
    """Raise a message that has waited long enough."""
    message = decision.state.messages.get(seq)
    if message is None or message.state is not State.QUEUED:
        return
    due = boost_due(decision.state, message)
    if due is None:
        return
    if decision.now < due:
        decision.state.timers.aging.schedule(seq, due)
        return
    aging = decision.policy.aging
    age = decision.now - message.enqueued_at
    boosts = age // aging.threshold_us
    enough = aging.boosts_to_front[message.priority]
    aged = max(message.own_level, Priority(message.priority).boost(boosts * aging.boost_levels, aging.top_level))
    decision.emit(
        ev.MessageBoosted(
            at=decision.now,
            message=seq,
            old_level=message.level,
            new_level=max(message.level, aged),
            overdue=enough is not None and boosts >= enough,
            rule="aging",
            threshold_s=aging.threshold_s,
            age_us=age,
            boosts=boosts,
            own_level=aged,
        )
    )


def apply_boosted(state: ProjectState, event: ev.MessageBoosted) -> None:
    """Move the message to its new level."""
    message = state.message(event.message)
    unschedule(state, message)
    message.own_level = event.new_level if event.own_level is None else event.own_level
    message.level = event.new_level
    message.overdue = event.overdue
    message.boosts = event.boosts
    schedule(state, message)

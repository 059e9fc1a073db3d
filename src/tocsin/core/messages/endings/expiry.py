"""Expiry of queued messages: TTL and decayed importance.

Requirement: SPEC-071 §4.3, §9; DECAY §3.
"""

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.queueing.decay import current_importance, stale_at
from tocsin.core.scheduling import move, schedule
from tocsin.core.state import ProjectState

__all__ = ["apply_expired", "expire_if_due", "fire_decay", "fire_expiry"]


def expire_if_due(decision: Decision, message: Message) -> bool:
    """Expire a queued message whose TTL is over or whose importance is below the stale threshold."""
    decay = decision.policy.decay
    if decision.now > message.expires_at:
        reason, due_at = "ttl", message.expires_at
    else:
        stale = stale_at(message, decay)
        if stale is None or decision.now <= stale:
            return False
        reason, due_at = "stale", stale
    importance = current_importance(message, decision.now, decay)
    decision.emit(ev.MessageExpired(decision.now, message.seq, reason, due_at, importance, decay.stale_threshold))
    return True


def fire_expiry(decision: Decision, seq: int) -> None:
    """Handle the TTL timer of a message."""
    message = decision.state.messages.get(seq)
    waits = message is not None and message.state in (State.QUEUED, State.HELD)
    if message is not None and waits and not expire_if_due(decision, message):
        decision.state.timers.expiry.schedule(seq, message.expires_at)


def fire_decay(decision: Decision, seq: int) -> None:
    """Handle the decay timer of a message."""
    message = decision.state.messages.get(seq)
    if message is None or message.state is not State.QUEUED or expire_if_due(decision, message):
        return
    stale = stale_at(message, decision.policy.decay)
    if stale is not None:
        decision.state.timers.decay.schedule(seq, stale)


def apply_expired(state: ProjectState, event: ev.MessageExpired) -> None:
    """Mark the message as expired."""
    message = move(state, event.message, ev.MessageExpired)
    message.expired_at = event.at
    schedule(state, message)
    state.settle(message, event.at)

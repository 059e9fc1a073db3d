"""Arithmetic of importance decay, without a clock or a queue.

A decay rate is the share of the original importance lost per `decay.interval_s`. Decay is linear, so the time at which
a message becomes stale is known when it is enqueued.

Requirement: DECAY §1 to §3.
"""

from tocsin.core.messages.message import Message
from tocsin.core.policy import Decay

__all__ = ["current_importance", "rounded_rate", "stale_at"]


def current_importance(message: Message, now: int, decay: Decay) -> float:
    """Return a message's importance at a time."""
    if not message.decay_rate:
        return message.importance
    age = (now - message.enqueued_at) / decay.interval_us
    return message.importance * (1 - message.decay_rate * age)


def stale_at(message: Message, decay: Decay) -> int | None:
    """Return the last time at which a message is not yet stale, or null where it never decays."""
    if not message.decay_rate:
        return None
    intervals = (1 - decay.stale_threshold / message.importance) / message.decay_rate
    return message.enqueued_at + max(0, int(intervals * decay.interval_us))


def rounded_rate(rate: float, decay: Decay) -> float:
    """Round a rate to the policy's steps, which limits the number of classes in a mailbox."""
    return max(0.0, min(1.0, round(round(rate / decay.rate_step) * decay.rate_step, 9)))

"""The lifecycle of a message: one table of transitions; every state change is in it.

Theory of operation. A message is queued when its acceptance is durable, or held first if a director must approve it. An
offer puts it on its way; a receipt records that it arrived; until then it may return to the queue, and so may a
delivery whose ACK never came. A confirmation may arrive while the message is queued: after it has returned to the
queue, or because the recipient has looked at its inbox without taking it. The recipient has seen it, so the
confirmation settles it and it is not offered any more. Expiry and recall end only what is held or
queued: what is on its way may have been seen. Dead letters are kept, and can be redriven. The diagram in
`docs/concepts/lifecycle.md` is generated from this table.
"""

from typing import Final

import msgspec

from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State

__all__ = ["APM_STATES", "TRANSITIONS", "Transition", "advance", "apm_state"]


class Transition(msgspec.Struct, frozen=True):
    """One transition of the diagram."""

    before: State
    event: type
    after: State
    #: Condition for the transition.
    when: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(State.HELD, ev.MessageReleased, State.QUEUED, "a director approved it"),
    Transition(State.HELD, ev.MessageDied, State.DEAD, "a director refused it; recipient gone"),
    Transition(State.HELD, ev.MessageExpired, State.EXPIRED, "TTL over before a decision"),
    Transition(State.HELD, ev.MessageRecalled, State.RECALLED, "recalled while it was held"),
    Transition(State.QUEUED, ev.MessageOffered, State.OFFERED, "pushed, piggybacked or drained"),
    Transition(State.OFFERED, ev.MessageDelivered, State.DELIVERED, "receipt, or an answer"),
    Transition(State.OFFERED, ev.MessageRequeued, State.QUEUED, "session ended, or no receipt in time"),
    Transition(State.OFFERED, ev.MessageDied, State.DEAD, "no receipt, retries used up; recipient gone"),
    Transition(State.DELIVERED, ev.MessageAcknowledged, State.ACKNOWLEDGED, "ACK"),
    Transition(State.DELIVERED, ev.MessageRequeued, State.QUEUED, "no ACK in time, or a retryable NACK"),
    Transition(State.DELIVERED, ev.MessageDied, State.DEAD, "retries used up, or a permanent NACK"),
    Transition(State.DELIVERED, ev.MessageProcessed, State.PROCESSED, "processed without an ACK"),
    Transition(State.ACKNOWLEDGED, ev.MessageProcessed, State.PROCESSED, "processed-ACK, or the response"),
    Transition(State.QUEUED, ev.MessageDelivered, State.DELIVERED, "confirmed late, or answered unoffered"),
    Transition(State.QUEUED, ev.MessageExpired, State.EXPIRED, "TTL over, or importance below the stale threshold"),
    Transition(State.QUEUED, ev.MessageRecalled, State.RECALLED, "recalled before it was offered"),
    Transition(State.QUEUED, ev.MessageDied, State.DEAD, "recipient gone"),
    Transition(State.DEAD, ev.DeadLetterRedriven, State.QUEUED, "redriven"),
)

_NEXT: Final[dict[tuple[State, type], State]] = {(row.before, row.event): row.after for row in TRANSITIONS}

#: APM name of each state, for a message that awaits an ACK and for one that does not.
APM_STATES: dict[State, tuple[str | None, str | None]] = {
    State.HELD: ("PENDING", "PENDING"),
    State.QUEUED: ("PENDING", "PENDING"),
    State.OFFERED: ("IN_TRANSIT", "IN_TRANSIT"),
    State.DELIVERED: ("IN_TRANSIT", "DELIVERED"),
    State.ACKNOWLEDGED: ("DELIVERED", "DELIVERED"),
    State.PROCESSED: ("PROCESSED", "PROCESSED"),
    State.EXPIRED: ("FAILED", "FAILED"),
    State.RECALLED: (None, None),
    State.DEAD: ("FAILED", "FAILED"),
}


def advance(message: Message, event: type) -> None:
    """Change a message's state by the table."""
    after = _NEXT.get((message.state, event))
    if after is None:
        raise InvariantViolation(f"message {message.seq} is {message.state}: {event.__name__} cannot happen to it")
    message.state = after


def apm_state(message: Message) -> str | None:
    """Return the APM name of a message's state; a recalled one has none."""
    return APM_STATES[message.state][0 if message.ack_required else 1]

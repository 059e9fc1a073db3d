"""Delivery from the mailbox to the recipient: offers, pushes, drains, and the return to the queue.

An offer is durable before it is sent, and returns to the queue when its session ends or its receipt is overdue. So even
a message without ACK is delivered at least once.
"""

from typing import Final

from tocsin.core import events as ev
from tocsin.core.agents.preemption import may_deliver
from tocsin.core.agents.presence import has_room, push_session
from tocsin.core.commands import Delivery
from tocsin.core.decision import Decision
from tocsin.core.messages.endings.expiry import expire_if_due
from tocsin.core.messages.lifecycle import advance
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.messages.model import NEVER, Failure, State
from tocsin.core.messages.volume import size_of
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.negotiation import type_name_for, type_of
from tocsin.core.scheduling import cancel_receipt, check_wake, move, schedule, schedule_receipt, unschedule
from tocsin.core.state import Agent, ProjectState, Session

__all__ = [
    "apply_offered",
    "apply_ready",
    "apply_requeued",
    "clear_in_flight",
    "delivery_of",
    "end_offer",
    "fire_backoff",
    "note_failure",
    "offer",
    "pump",
    "requeue",
    "start_offer",
    "take",
    "take_one",
]


_LATEST: Final = VERSIONS[-1]
_Offered: Final = ev.MessageOffered
_Delivery: Final = Delivery


def pump(decision: Decision, agent: Agent, sent: int = 0) -> None:
    """Offer queued messages to the agent's push sessions while they have room; `sent` is the message just accepted."""
    if not agent.mailbox.depth:
        return
    attention = decision.state.attention.get(agent.agent)
    while (session := push_session(agent, decision.policy, decision.now)) is not None:
        message = _next(decision, agent)
        if message is None or (attention is not None and not may_deliver(decision, attention, message)):
            return
        offer(decision, message, session, pushed=message.seq == sent)


def take(
    decision: Decision, agent: Agent, session: Session, limit: int, at_least: int = 0, bytes_max: int | None = None
) -> list[Message]:
    """Offer up to `limit` messages of a level or above to a session that drains."""
    taken: list[Message] = []
    most = decision.policy.limits.drain_bytes_max
    room = most if bytes_max is None else min(bytes_max, most)
    while len(taken) < limit and has_room(session):
        message = _next(decision, agent)
        if message is None or message.level < at_least:
            break
        size = size_of(message)
        if size > room and (taken or bytes_max is not None):
            break
        room -= size
        offer(decision, message, session, pushed=False)
        taken.append(message)
    return taken


def take_one(decision: Decision, agent: Agent, session: Session, message_id: str) -> list[Message]:
    """Offer a message to a session that asks for it by its id, if it waits; the delivery order does not matter."""
    message = decision.state.copy_for(agent.agent, message_id)
    if message is None or message.state is not State.QUEUED or message.backing_off or not has_room(session):
        return []
    if expire_if_due(decision, message):
        return []
    offer(decision, message, session, pushed=False)
    return [message]


def _next(decision: Decision, agent: Agent) -> Message | None:
    """Return the next message in delivery order; expire those before it that are due."""
    for _ in range(decision.policy.limits.timers_per_tick):
        message = agent.mailbox.head(decision.now, decision.policy.decay)
        if message is None or (decision.now <= message.expires_at and not message.decay_rate):
            return message
        if not expire_if_due(decision, message):
            return message
    return None


def offer(decision: Decision, message: Message, session: Session, *, pushed: bool) -> None:
    """Offer a message to a session."""
    decision.emit(
        _Offered(
            decision.now,
            message.seq,
            session.session,
            message.offers + 1,
            message.level,
            max(0, decision.now - message.enqueued_at),
            pushed,
        )
    )


def delivery_of(state: ProjectState, message: Message) -> Delivery:
    """Return an offered message in the form that is sent out."""
    interrupts = None
    if state.attention:
        attention = state.attention.get(message.recipient)
        if attention is not None and attention.work is not None and attention.interrupted_by == message.seq:
            interrupts = attention.work.message_id
    sender, recipient = state.agents.get(message.sender), state.agents.get(message.recipient)
    version = _LATEST if recipient is None else recipient.version
    return _Delivery(
        message.message_id if message.broadcast_id is None else signal_id(message),
        message.session or "",
        message.offers,
        message,
        message.type if version == _LATEST else type_name_for(message.type, version, state.policy),
        type_of(message.sender, state) if sender is None else sender.agent_type,
        type_of(message.recipient, state) if recipient is None else recipient.agent_type,
        version,
        message.payload,
        message.metadata,
        message.attempts,
        interrupts,
        message.level,
    )


def requeue(
    decision: Decision, message: Message, cause: str, ready_at: int, threshold_s: float, attempts_max: int
) -> None:
    """Return a message to the queue; it counts as an attempt unless only its session ended."""
    attempts = message.attempts + (cause != "session_ended")
    decision.emit(ev.MessageRequeued(decision.now, message.seq, cause, attempts, attempts_max, ready_at, threshold_s))
    if not message.backing_off:
        expire_if_due(decision, message)


def fire_backoff(decision: Decision, seq: int) -> None:
    """Make a retry eligible once its backoff is over."""
    message = decision.state.messages.get(seq)
    if message is None or message.state is not State.QUEUED or not message.backing_off:
        return
    if decision.now < message.ready_at:
        decision.state.timers.backoff.schedule(seq, message.ready_at)
        return
    decision.emit(ev.MessageReady(decision.now, seq))
    pump(decision, decision.state.agents[message.recipient])


def apply_offered(state: ProjectState, event: ev.MessageOffered) -> None:
    """Record the offer in its session."""
    message = state.message(event.message)
    unschedule(state, message)
    start_offer(state, message, event)


def start_offer(state: ProjectState, message: Message, event: ev.MessageOffered) -> None:
    """Put a message that is in no queue on its way to a session."""
    advance(message, _Offered)
    session = state.session(event.session)
    message.offered_at = event.at
    message.session = session.session
    message.offers = event.offer
    if event.pushed:
        message.pushed = True
    session.in_flight[message.seq] = None
    schedule_receipt(state, message, session)


def end_offer(state: ProjectState, message: Message) -> None:
    """Remove a message that is in no queue from its session, with the timer of the offer; its state changes next."""
    if message.session is not None:
        session = state.session(message.session)
        cancel_receipt(state, message, session)
        session.in_flight.pop(message.seq, None)
        message.session = None


def clear_in_flight(state: ProjectState, message: Message) -> None:
    """Remove a message from the offers of its session."""
    if message.session is not None:
        state.session(message.session).in_flight.pop(message.seq, None)
        message.session = None


def apply_requeued(state: ProjectState, event: ev.MessageRequeued) -> None:
    """Queue the message again and clear its offer and delivery times."""
    message = move(state, event.message, ev.MessageRequeued)
    clear_in_flight(state, message)
    message.offered_at = message.delivered_at = NEVER
    message.attempts = event.attempts
    message.ready_at = event.ready_at
    message.backing_off = event.ready_at > event.at
    schedule(state, message)
    if event.cause != "session_ended":
        note_failure(state, message.seq, event.at, event.cause, "E_PROTOCOL_004")


def apply_ready(state: ProjectState, event: ev.MessageReady) -> None:
    """Add a retry to its mailbox."""
    message = state.message(event.message)
    state.timers.backoff.cancel(message.seq, message.ready_at)
    message.backing_off = False
    state.agents[message.recipient].mailbox.add(message)
    state.depths[message.level] += 1
    if message.priority >= state.wake_from:
        check_wake(state, message)


def note_failure(state: ProjectState, seq: int, at: int, reason: str, code: str) -> None:
    """Record a failure of a message."""
    failure = state.failures.get(seq)
    if failure is None:
        state.failures[seq] = Failure(1, at, at, reason, code)
    else:
        failure.count += 1
        failure.last_at = at
        failure.reason = reason
        failure.code = code

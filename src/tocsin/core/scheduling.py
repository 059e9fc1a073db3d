"""Mailbox places and timers, derived from the state of messages, sessions, leases and waits.

Every applier that changes a message's state unschedules it, changes it and schedules it again. So mailboxes and timers
always follow from the messages, and a restored state rebuilds them in the same way.
"""

from typing import Any

from tocsin.core.commands.base import SYSTEM
from tocsin.core.errors import InvariantViolation
from tocsin.core.leases.model import Lease, LeaseRequest
from tocsin.core.messages.lifecycle import advance
from tocsin.core.messages.model import Message, State, notice_subject
from tocsin.core.queueing.decay import stale_at
from tocsin.core.state import ProjectState, Session
from tocsin.core.waiting.graph import Wait

__all__ = [
    "ack_due",
    "boost_due",
    "escalation_due",
    "lease_due",
    "move",
    "receipt_due",
    "schedule",
    "schedule_all",
    "schedule_lease",
    "schedule_lease_request",
    "schedule_session",
    "schedule_wait",
    "session_due",
    "unschedule",
    "wait_due",
]

_BUS = SYSTEM.agent
# Members of an enum are looked up by name only once: a message passes here several times.
_HELD, _QUEUED, _OFFERED, _DELIVERED, _DEAD = State.HELD, State.QUEUED, State.OFFERED, State.DELIVERED, State.DEAD


def schedule(state: ProjectState, message: Message) -> None:
    """Add a message to its mailbox and timers."""
    timers = state.timers
    # Typed as Any so that the compiled form keeps this int object and does not create another.
    seq: Any = message.seq
    status = message.state
    if status is _QUEUED:
        if message.backing_off:
            timers.backoff.schedule(seq, message.ready_at)
        else:
            state.agents[message.recipient].mailbox.add(message)
        sent = state.outgoing.get(message.sender)
        if sent is None:
            sent = state.outgoing[message.sender] = {}
        sent[seq] = None
        if message.sender == _BUS and (subject := notice_subject(message)):
            state.noticed.setdefault((message.recipient, subject), {})[seq] = None
        timers.expiry.schedule(seq, message.expires_at)
        if message.decay_rate:
            timers.decay.schedule(seq, _stale_due(state, message))
        boost = boost_due(state, message)
        if boost is not None:
            timers.aging.schedule(seq, boost)
        if state.queue_after_us[message.priority] is not None:
            escalation = escalation_due(state, message)
            if escalation is not None:
                timers.escalation.schedule(seq, escalation)
    elif status is _HELD:
        timers.expiry.schedule(seq, message.expires_at)
    elif status is _OFFERED:
        timers.receipts.schedule(seq, receipt_due(state, message))
    elif status is _DELIVERED:
        if message.ack_required:
            timers.acks.schedule(seq, ack_due(state, message))
    elif status is _DEAD:
        timers.dead.schedule(seq, message.dead_at + state.policy.retention.dead_us)


def unschedule(state: ProjectState, message: Message) -> None:
    """Remove a message from its mailbox and timers."""
    timers, seq, status = state.timers, message.seq, message.state
    if status is _QUEUED:
        if message.backing_off:
            timers.backoff.cancel(seq, message.ready_at)
        else:
            state.agents[message.recipient].mailbox.remove(message)
        del state.outgoing[message.sender][seq]
        if message.sender == _BUS and (subject := notice_subject(message)):
            about = state.noticed[message.recipient, subject]
            del about[seq]
            if not about:
                del state.noticed[message.recipient, subject]
        timers.expiry.cancel(seq, message.expires_at)
        if message.decay_rate:
            timers.decay.cancel(seq, _stale_due(state, message))
        boost = boost_due(state, message)
        if boost is not None:
            timers.aging.cancel(seq, boost)
        if state.queue_after_us[message.priority] is not None:
            escalation = escalation_due(state, message)
            if escalation is not None:
                timers.escalation.cancel(seq, escalation)
    elif status is _HELD:
        timers.expiry.cancel(seq, message.expires_at)
    elif status is _OFFERED:
        timers.receipts.cancel(seq, receipt_due(state, message))
    elif status is _DELIVERED:
        if message.ack_required:
            timers.acks.cancel(seq, ack_due(state, message))
    elif status is _DEAD:
        timers.dead.cancel(seq, message.dead_at + state.policy.retention.dead_us)


def move(state: ProjectState, seq: int, event: type) -> Message:
    """Unschedule a message and advance its state; the applier sets the timestamps and schedules it again."""
    message = state.message(seq)
    unschedule(state, message)
    advance(message, event)
    return message


def boost_due(state: ProjectState, message: Message) -> int | None:
    """Return when aging next raises a message, or null where it does not rise again."""
    aging = state.policy.aging
    enough = aging.boosts_to_front[message.priority]
    if not aging.enabled or enough is None or (message.overdue and message.own_level >= aging.top_level):
        return None
    boosts = message.boosts + 1
    return message.enqueued_at + (boosts if boosts < enough else enough) * aging.threshold_us


def escalation_due(state: ProjectState, message: Message) -> int | None:
    """Return when a queued message is escalated: once for each time in the queue, never for the bus's own messages."""
    after_us = state.queue_after_us[message.priority]
    if after_us is None or message.sender == _BUS or state.was_escalated(message):
        return None
    return message.enqueued_at + after_us


def wait_due(state: ProjectState, wait: Wait) -> int | None:
    """Return when a wait is escalated: once, and at some priorities never."""
    after_us = state.policy.escalation.wait_after_us[wait.level]
    if after_us is None or state.is_known(wait.cause):
        return None
    return wait.since + after_us


def schedule_wait(state: ProjectState, wait: Wait) -> None:
    """Schedule the escalation of a wait."""
    due = wait_due(state, wait)
    if due is not None:
        state.timers.deadlines.schedule(f"wait {wait.key}", due)


def receipt_due(state: ProjectState, message: Message) -> int:
    """Return the time by which an offer must be confirmed."""
    return message.offered_at + receipt_timeout_us(state, message)


def receipt_timeout_us(state: ProjectState, message: Message) -> int:
    """Return how long an offer may stay unconfirmed: for a push without ACK, the contract's timeout if it has one."""
    if message.session is None:
        raise InvariantViolation(f"message {message.seq} is offered but has no session")
    session = state.session(message.session)
    if session.pushes and not message.ack_required:
        timeout_us = state.contract(message).timeout_us
        if timeout_us is not None:
            return timeout_us
    return state.policy.delivery.receipt_timeout_us[session.kind]


def ack_due(state: ProjectState, message: Message) -> int:
    """Return the time by which a delivery must be acknowledged."""
    return message.delivered_at + ack_timeout_us(state, message)


def ack_timeout_us(state: ProjectState, message: Message) -> int:
    """Return how long a delivery may stay unacknowledged."""
    timeout_us = state.contract(message).timeout_us
    return timeout_us if timeout_us is not None else state.policy.delivery.receipt_timeout_us["push"]


def _stale_due(state: ProjectState, message: Message) -> int:
    due = stale_at(message, state.policy.decay)
    if due is None:
        raise InvariantViolation(f"message {message.seq} does not decay")
    return due


def session_due(state: ProjectState, session: Session) -> int:
    """Return when a silent session becomes stale or, once it is stale, when it lapses."""
    limits = state.policy.sessions
    return session.heartbeat_at + (limits.lapse_after_us if session.stale else limits.stale_after_us)


def schedule_session(state: ProjectState, session: Session) -> None:
    """Schedule the next staleness check of a session."""
    state.timers.sessions.schedule(session.session, session_due(state, session))


def lease_due(state: ProjectState, lease: Lease) -> int:
    """Return when the holder of a lease is warned or, once warned, when the lease lapses."""
    return lease.expires_at - (0 if lease.warned else state.policy.leases.warning_us(lease.ttl_s))


def schedule_lease(state: ProjectState, lease: Lease) -> None:
    """Schedule the warning or the end of a lease."""
    state.timers.leases.schedule(lease.lease, lease_due(state, lease))


def schedule_lease_request(state: ProjectState, request: LeaseRequest) -> None:
    """Schedule the end of a lease request's waiting time."""
    state.timers.lease_waits.schedule(request.lease, request.wait_until)


def schedule_all(state: ProjectState) -> None:
    """Schedule everything again, after a policy change or a restore; mailboxes must be empty."""
    state.outgoing.clear()
    state.noticed.clear()
    for message in state.messages.values():
        schedule(state, message)
    for session in state.sessions.values():
        schedule_session(state, session)
    for wait in state.waits.waits.values():
        schedule_wait(state, wait)
    for kind, entries in state.with_deadlines().items():
        for name, entry in entries.items():
            if entry.due_at:
                state.timers.deadlines.schedule(f"{kind} {name}", entry.due_at)
    for lease in state.leases.leases.values():
        schedule_lease(state, lease)
    for request in state.leases.queue.values():
        schedule_lease_request(state, request)
    state.leases.unsettle_all()

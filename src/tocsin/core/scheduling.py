"""Mailbox places and timers, derived from the state of messages, sessions, leases and waits.

Every applier that changes a message's state unschedules it, changes it and schedules it again. So mailboxes and timers
always follow from the messages, and a restored state rebuilds them in the same way.
"""

from typing import Any, Final

from tocsin.core.commands.base import SYSTEM
from tocsin.core.errors import InvariantViolation
from tocsin.core.leases.model import Lease, LeaseRequest
from tocsin.core.messages.lifecycle import advance
from tocsin.core.messages.message import Message, notice_subject
from tocsin.core.messages.model import State
from tocsin.core.protocol.priority import Priority
from tocsin.core.queueing.decay import stale_at
from tocsin.core.state import Agent, ProjectState, Session
from tocsin.core.waiting.graph import Wait
from tocsin.core.wake.model import Waking

__all__ = [
    "ack_due",
    "boost_due",
    "cancel_receipt",
    "check_channel",
    "check_wake",
    "escalation_due",
    "is_attended",
    "is_notified",
    "lease_due",
    "move",
    "note_absence",
    "receipt_due",
    "schedule",
    "schedule_all",
    "schedule_lease",
    "schedule_lease_request",
    "schedule_receipt",
    "schedule_session",
    "schedule_wait",
    "schedule_wake",
    "session_due",
    "unschedule",
    "wait_due",
]

_BUS: Final = SYSTEM.agent
# Members of an enum are looked up by name only once: a message passes here several times.
_HELD: Final = State.HELD
_QUEUED: Final = State.QUEUED
_OFFERED: Final = State.OFFERED
_DELIVERED: Final = State.DELIVERED
_DEAD: Final = State.DEAD


def schedule(state: ProjectState, message: Message) -> None:
    """Add a message to its mailbox and timers."""
    status = message.state
    if status is _QUEUED:
        _enqueue(state, message)
    elif status is _OFFERED:
        state.timers.receipts.schedule(message.seq, receipt_due(state, message))
    elif status is _DELIVERED:
        if message.ack_required:
            state.timers.acks.schedule(message.seq, ack_due(state, message))
    elif status is _HELD:
        state.timers.expiry.schedule(message.seq, message.expires_at)
    elif status is _DEAD:
        state.timers.dead.schedule(message.seq, message.dead_at + state.policy.retention.dead_us)


def unschedule(state: ProjectState, message: Message) -> None:
    """Remove a message from its mailbox and timers."""
    status = message.state
    if status is _QUEUED:
        _dequeue(state, message)
    elif status is _OFFERED:
        state.timers.receipts.cancel(message.seq, receipt_due(state, message))
    elif status is _DELIVERED:
        if message.ack_required:
            state.timers.acks.cancel(message.seq, ack_due(state, message))
    elif status is _HELD:
        state.timers.expiry.cancel(message.seq, message.expires_at)
    elif status is _DEAD:
        state.timers.dead.cancel(message.seq, message.dead_at + state.policy.retention.dead_us)


def _enqueue(state: ProjectState, message: Message) -> None:
    # Typed as Any so that the compiled form keeps this int object and does not create another.
    seq: Any = message.seq
    sender, priority = message.sender, message.priority
    if message.backing_off:
        state.timers.backoff.schedule(seq, message.ready_at)
    else:
        state.agents[message.recipient].mailbox.add(message)
        state.depths[message.level] += 1
    sent = state.outgoing.get(sender)
    if sent is None:
        sent = state.outgoing[sender] = {}
    sent[seq] = None
    if sender == _BUS and (subject := notice_subject(message)):
        state.noticed.setdefault((message.recipient, subject), {})[seq] = None
    if message.decay_rate:
        state.timers.decay.schedule(seq, _stale_due(state, message))
    escalation = None if state.queue_after_us[priority] is None else escalation_due(state, message)
    state.timers.enqueue(seq, message.expires_at, boost_due(state, message), escalation)
    if message.priority >= state.wake_from and not message.backing_off:
        check_wake(state, message)


def _dequeue(state: ProjectState, message: Message) -> None:
    seq: Any = message.seq
    sender = message.sender
    if message.backing_off:
        state.timers.backoff.cancel(seq, message.ready_at)
    else:
        state.agents[message.recipient].mailbox.remove(message)
        state.depths[message.level] -= 1
    del state.outgoing[sender][seq]
    if sender == _BUS and (subject := notice_subject(message)):
        about = state.noticed[message.recipient, subject]
        del about[seq]
        if not about:
            del state.noticed[message.recipient, subject]
    if message.decay_rate:
        state.timers.decay.cancel(seq, _stale_due(state, message))
    # The escalation may be over already: then there is no timer to cancel.
    after_us = state.queue_after_us[message.priority]
    escalation = None if after_us is None else message.enqueued_at + after_us
    state.timers.dequeue(seq, message.expires_at, boost_due(state, message), escalation)


def move(state: ProjectState, seq: int, event: type) -> Message:
    """Unschedule a message and advance its state; the applier sets the timestamps and schedules it again."""
    message = state.message(seq)
    unschedule(state, message)
    state.volume.remove(message)
    advance(message, event)
    state.volume.add(message)
    return message


def boost_due(state: ProjectState, message: Message) -> int | None:
    """Return when aging next raises a message, or null where it does not rise again."""
    if not message.boosts and not message.overdue:
        after_us = state.boost_after_us[message.priority]
        return None if after_us is None else message.enqueued_at + after_us
    aging = state.policy.aging
    enough = aging.boosts_to_front[message.priority]
    if not aging.enabled or enough is None or (message.overdue and message.own_level >= aging.top_level):
        return None
    boosts = message.boosts + 1
    return message.enqueued_at + (boosts if boosts < enough else enough) * aging.threshold_us


def escalation_due(state: ProjectState, message: Message) -> int | None:
    """Return when a queued message is escalated: once for each time in the queue, never for the bus's own messages."""
    after_us = state.queue_after_us[message.priority]
    if after_us is None or message.sender == _BUS:
        return None
    if (state.escalated or state.deferred) and state.was_escalated(message):
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


def is_attended(state: ProjectState, agent: Agent) -> bool:
    """Return whether an agent has a live session: one not known to be stale, and no channel that led to nothing."""
    return any(not session.stale and session.session not in state.ignored for session in agent.sessions.values())


def is_notified(state: ProjectState, agent: Agent) -> bool:
    """Return whether an agent is notified through a channel that counts, and nothing is pushed to it."""
    live = [session for session in agent.sessions.values() if not session.stale]
    has_channel = any(session.kind == "channel" and session.session not in state.ignored for session in live)
    return has_channel and not any(session.pushes for session in live)


def check_wake(state: ProjectState, message: Message) -> None:
    """Schedule a check of a recipient whose channel may lead to nothing, or which may have to be woken."""
    agent, policy = state.agents[message.recipient], state.policy.wake
    if is_notified(state, agent):
        schedule_wake(state, agent.agent, message.enqueued_at + policy.notifications_us)
    elif not is_attended(state, agent) and state.can_wake(agent):
        schedule_wake(state, agent.agent, message.enqueued_at + policy.after_us)


def check_channel(state: ProjectState, agent: Agent, at: int) -> None:
    """Schedule a check of an agent that is notified through a channel, if messages wait for it."""
    if agent.mailbox.depth and is_notified(state, agent):
        schedule_wake(state, agent.agent, at)


def note_absence(state: ProjectState, name: str, at: int) -> None:
    """Record since when an agent that has a waker is without a live session, and schedule a check of it."""
    agent = state.agents[name]
    if is_attended(state, agent):
        check_channel(state, agent, at)
        return
    if not state.can_wake(agent):
        return
    record = state.wakes.get(name)
    if record is None:
        record = state.wakes[name] = Waking(name)
    record.away_since = at
    if agent.mailbox.depth:
        schedule_wake(state, name, at + state.policy.wake.after_us)


def schedule_wake(state: ProjectState, name: str, due: int) -> None:
    """Schedule a check of an agent that may have to be woken, unless an earlier one is scheduled."""
    known = state.timers.wake_due.get(name)
    if known is None or due < known:
        state.timers.wake_due[name] = due
        state.timers.deadlines.schedule(f"wake {name}", due)


def receipt_due(state: ProjectState, message: Message) -> int:
    """Return the time by which an offer must be confirmed."""
    return message.offered_at + receipt_timeout_us(state, message)


def receipt_timeout_us(state: ProjectState, message: Message) -> int:
    """Return how long an offer may stay unconfirmed: for a push without ACK, the contract's timeout if it has one."""
    if message.session is None:
        raise InvariantViolation(f"message {message.seq} is offered but has no session")
    return _receipt_timeout_us(state, message, state.session(message.session))


def _receipt_timeout_us(state: ProjectState, message: Message, session: Session) -> int:
    known, key = state.receipt_timeouts, (session.kind, message.type, message.ack_required)
    timeout_us = known.get(key)
    if timeout_us is None:
        if len(known) >= state.policy.limits.plans_max:
            known.clear()
        timeout_us = known[key] = _contracted_timeout_us(state, message, session)
    return timeout_us


def _contracted_timeout_us(state: ProjectState, message: Message, session: Session) -> int:
    if session.kind != "piggyback" and not message.ack_required:
        timeout_us = state.contract(message).timeout_us
        if timeout_us is not None:
            return timeout_us
    return state.policy.delivery.receipt_timeout_us[session.kind]


def schedule_receipt(state: ProjectState, message: Message, session: Session) -> None:
    """Schedule the end of an offer to a session."""
    due = message.offered_at + _receipt_timeout_us(state, message, session)
    # Typed as Any so that the compiled form keeps this int object and does not create another.
    seq: Any = message.seq
    state.timers.receipts.schedule(seq, due)


def cancel_receipt(state: ProjectState, message: Message, session: Session) -> None:
    """Cancel the end of an offer to a session."""
    due = message.offered_at + _receipt_timeout_us(state, message, session)
    state.timers.receipts.cancel(message.seq, due)


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
    state.depths = [0] * len(Priority)
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
    for name, record in state.wakes.items():
        if record.due_at:
            schedule_wake(state, name, record.due_at)
    for lease in state.leases.leases.values():
        schedule_lease(state, lease)
    for request in state.leases.queue.values():
        schedule_lease_request(state, request)
    state.leases.unsettle_all()

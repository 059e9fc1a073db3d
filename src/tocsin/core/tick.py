"""The tick: the project's next due time, and the timers that fire when it is reached."""

from collections.abc import Callable

from tocsin.core.agents import attention, registry
from tocsin.core.commands import Tick, Ticked
from tocsin.core.decision import Decision
from tocsin.core.escalation import decisions as escalation
from tocsin.core.escalation import opening
from tocsin.core.leases import decisions as leases
from tocsin.core.messages import delivery, settlement
from tocsin.core.messages.endings import dead_letters, expiry, retention
from tocsin.core.queueing import aging, queue_manager
from tocsin.core.state import ProjectState
from tocsin.core.teamwork import approvals, discussions, requests
from tocsin.core.timers import earliest
from tocsin.core.wake import decisions as wake

__all__ = ["decide_tick", "next_due", "quiet_until"]

#: Handler of a deadline, by kind of object.
_DEADLINES: dict[str, Callable[[Decision, str], None]] = {
    "attention": attention.fire_attention,
    "escalation": escalation.fire_escalation,
    "approval": approvals.fire_approval,
    "discussion": discussions.fire_discussion,
    "request": requests.fire_request,
    "wait": opening.fire_wait,
    "wake": wake.fire_wake,
}


def next_due(state: ProjectState) -> int | None:
    """Return when the next timer is due, or null where there is none."""
    if not state.has_policy:
        return None
    soonest = earliest(state.timers.next_due(), queue_manager.idle_due(state))
    return earliest(soonest, retention.retention_due(state))


def quiet_until(state: ProjectState, now: int) -> int:
    """Return a time before which only timers of the wheels can be due, whatever is decided from now on.

    It holds until another policy is adopted; without a policy it is 0. With `Timers.not_before` it tells cheaply that
    nothing is due. What is kept from now on can be forgotten after its retention, and a rate that changes from now on
    falls after the cooldown.
    """
    if not state.has_policy:
        return 0
    kept, manager = state.policy.retention, state.policy.queue_manager
    until = now + min(kept.settled_us, kept.acknowledged_us, kept.thread_idle_us)
    if manager.enabled:
        until = min(until, now + manager.cooldown_us)
    for due in (queue_manager.idle_due(state), retention.retention_due(state)):
        until = until if due is None else min(until, due)
    return until


def decide_tick(decision: Decision, command: Tick) -> Ticked:
    """Fire the timers that are due, up to a limit or until their events fill a group; the next tick continues."""
    opening.open_deferred(decision)
    fired = int(queue_manager.fire_idle(decision)) + retention.fire_retention(decision)
    timers, limit = decision.state.timers, decision.policy.limits.timers_per_tick
    events, most = decision.events, decision.policy.storage.group_events_max
    for wheel, fire in (
        (timers.receipts, settlement.fire_receipt),
        (timers.acks, settlement.fire_ack),
        (timers.expiry, expiry.fire_expiry),
        (timers.decay, expiry.fire_decay),
        (timers.backoff, delivery.fire_backoff),
        (timers.aging, aging.fire_aging),
        (timers.escalation, opening.fire_queued),
        (timers.dead, dead_letters.fire_dead),
    ):
        while fired < limit and len(events) < most and (seq := wheel.pop(decision.now)) is not None:
            fire(decision, seq)
            fired += 1
    for names, fire_named in (
        (timers.sessions, registry.fire_session),
        (timers.leases, leases.fire_lease),
        (timers.lease_waits, leases.fire_lease_wait),
    ):
        while fired < limit and len(events) < most and (name := names.pop(decision.now)) is not None:
            fire_named(decision, name)
            fired += 1
    while fired < limit and len(events) < most and (key := timers.deadlines.pop(decision.now)) is not None:
        kind, _, name = key.partition(" ")
        _DEADLINES[kind](decision, name)
        fired += 1
    return Ticked(fired, next_due(decision.state))

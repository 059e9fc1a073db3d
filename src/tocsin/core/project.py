"""What the project is run by, and by when: policies and the tick."""

from collections.abc import Callable

import msgspec

from tocsin.core import events as ev
from tocsin.core.agents import attention, registry
from tocsin.core.commands import Adopted, AdoptPolicy, Tick, Ticked
from tocsin.core.decision import Decision, bounded_text
from tocsin.core.leases import decisions
from tocsin.core.messages import dead_letters, delivery, expiry, retention, settlement
from tocsin.core.policy import document_of, policy_from
from tocsin.core.queueing import aging, queue_manager
from tocsin.core.queueing.mailbox import Mailbox
from tocsin.core.scheduling import rearm_all
from tocsin.core.state import ProjectState
from tocsin.core.teamwork import approvals, discussions, escalation, requests
from tocsin.core.timers import earliest

__all__ = ["apply_policy", "decide_adopt", "decide_tick", "next_due"]


#: What to do when an affair's moment has come, by kind.
_DEADLINES: dict[str, Callable[[Decision, str], None]] = {
    "attention": attention.fire_attention,
    "escalation": escalation.fire_escalation,
    "approval": approvals.fire_approval,
    "discussion": discussions.fire_discussion,
    "request": requests.fire_request,
    "wait": escalation.fire_wait,
}


def decide_adopt(decision: Decision, command: AdoptPolicy) -> Adopted:
    """Run the project by another policy from now on."""
    decision.must_direct("change the policy")
    policy = policy_from(command.policy)
    reason = bounded_text(command.reason, "$.reason", policy.limits.text_max)
    version = decision.state.policy_version + 1
    encoded = msgspec.json.encode(document_of(policy), order="sorted")
    decision.emit(ev.PolicyAdopted(decision.now, decision.caller.agent, version, reason, encoded))
    decision.policy = decision.state.policy  # what follows from it follows by it
    return Adopted(version)


def apply_policy(state: ProjectState, event: ev.PolicyAdopted) -> None:
    """Put it in force; whatever is open waits by the new times."""
    state.adopt(policy_from(msgspec.json.decode(event.policy)))
    state.policy_version = event.version
    queue_manager.keep_in_bounds(state)
    for agent in state.agents.values():
        agent.mailbox = Mailbox(state.messages)
    rearm_all(state)


def next_due(state: ProjectState) -> int | None:
    """Return when anything is due."""
    if not state.has_policy:
        return None
    soonest = earliest(state.timers.next_due(), queue_manager.idle_due(state))
    return earliest(soonest, retention.retention_due(state))


def decide_tick(decision: Decision, command: Tick) -> Ticked:
    """Let what is due happen, up to a limit; the next tick goes on where this one stops."""
    escalation.open_deferred(decision)
    fired = int(queue_manager.fire_idle(decision)) + retention.fire_retention(decision)
    timers, limit = decision.state.timers, decision.policy.limits.timers_per_tick
    for wheel, fire in (
        (timers.receipts, settlement.fire_receipt),
        (timers.acks, settlement.fire_ack),
        (timers.expiry, expiry.fire_expiry),
        (timers.decay, expiry.fire_decay),
        (timers.backoff, delivery.fire_backoff),
        (timers.aging, aging.fire_aging),
        (timers.escalation, escalation.fire_queued),
        (timers.dead, dead_letters.fire_dead),
    ):
        while fired < limit and (seq := wheel.pop(decision.now)) is not None:
            fire(decision, seq)
            fired += 1
    for names, fire_named in (
        (timers.sessions, registry.fire_session),
        (timers.leases, decisions.fire_lease),
        (timers.lease_waits, decisions.fire_lease_wait),
    ):
        while fired < limit and (name := names.pop(decision.now)) is not None:
            fire_named(decision, name)
            fired += 1
    while fired < limit and (key := timers.deadlines.pop(decision.now)) is not None:
        kind, _, name = key.partition(" ")
        _DEADLINES[kind](decision, name)
        fired += 1
    return Ticked(fired, next_due(decision.state))

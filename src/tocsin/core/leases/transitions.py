"""Lease events and their state changes: grant, release, warning, lapse, end of a request; and notices to agents.

The commands are in `tocsin.core.leases.decisions`; the rules for conflicts are in `tocsin.core.leases.book`.
"""

from collections.abc import Mapping
from itertools import islice

import msgspec

from tocsin.core import events as ev
from tocsin.core.agents.presence import presence
from tocsin.core.commands import SYSTEM
from tocsin.core.decision import Decision
from tocsin.core.errors import InvariantViolation
from tocsin.core.leases.book import claims_of
from tocsin.core.leases.model import LapsedLease, Lease, LeaseRequest
from tocsin.core.messages.model import RecipientState
from tocsin.core.messages.notices import notify
from tocsin.core.policy import microseconds
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.protocol.timestamps import iso
from tocsin.core.scheduling import lease_due, schedule_lease, schedule_lease_request, schedule_wait
from tocsin.core.state import ProjectState
from tocsin.core.waiting.graph import Wait
from tocsin.core.waiting.waits import BREAKERS

__all__ = [
    "apply_lease_ended",
    "apply_lease_expiring",
    "apply_lease_granted",
    "apply_lease_queued",
    "apply_lease_released",
    "apply_lease_renewed",
    "apply_lease_wait_ended",
    "end_request",
    "grant",
    "grant_ready",
    "lapse",
    "release",
    "release_for",
    "release_leases_of",
    "warn",
]


def grant(decision: Decision, request: LeaseRequest, passed: tuple[str, ...]) -> None:
    """Grant a request."""
    decision.emit(
        ev.LeaseGranted(
            at=decision.now,
            lease=request.lease,
            holder=request.agent,
            exclusive=_names(request, shared=False),
            shared=_names(request, shared=True),
            level=request.level,
            ttl_s=request.ttl_s,
            expires_at=decision.now + microseconds(request.ttl_s),
            waited_us=max(0, decision.now - request.asked_at),
            passed=passed,
        )
    )


def grant_ready(decision: Decision) -> None:
    """Grant the first request in the queue that has no obstacles, and notify its agent; places must be up to date."""
    book = decision.state.leases
    if not book.ready:
        return
    request = min((book.queue[name] for name in book.ready), key=book.order)
    level = book.effective(request)
    grant(decision, request, book.obstacles(request, decision.policy.leases.overtakes_max).passed)
    lease = book.leases[request.lease]
    _notify(
        decision,
        lease.holder,
        "LEASE_GRANTED",
        lease,
        level,
        {"waitedS": (decision.now - request.asked_at) / 1_000_000},
    )


def release(decision: Decision, lease: Lease, resources: tuple[str, ...], reason: str, note: str) -> None:
    """Release some resources of a lease; notify a holder that did not do it itself."""
    by = decision.caller.agent if reason in ("released", "forced") else SYSTEM.agent
    before = msgspec.structs.replace(lease)
    decision.emit(ev.LeaseReleased(decision.now, lease.lease, lease.holder, resources, reason, by, note))
    if reason in ("forced", "deadlock"):
        more = {"reason": reason, "by": by, "note": note, "lost": list(resources)}
        _notify(decision, lease.holder, "LEASE_LOST", before, Priority.BLOCKING, more)


def release_for(decision: Decision, holder: str, wait: Wait, note: str) -> None:
    """Release what a holder has that blocks a wait for a lease, to break a deadlock."""
    book = decision.state.leases
    request = book.queue.get(wait.ref) if wait.kind == "lease" else None
    if request is None:
        return
    for name, resources in book.blocking(request, holder).items():
        release(decision, book.leases[name], resources, "deadlock", note)


def release_leases_of(decision: Decision, agent: str) -> None:
    """Release all leases of an agent that leaves the project, and end its lease requests."""
    book = decision.state.leases
    for name in list(book.by_agent.get(agent, ())):
        if name in book.leases:
            lease = book.leases[name]
            release(decision, lease, tuple(claim.resource for claim in lease.claims), "retired", "")
        else:
            end_request(decision, book.queue[name], "retired")


def warn(decision: Decision, lease: Lease) -> None:
    """Warn a holder that its lease is about to lapse; even if late, half the warning time is left."""
    left = decision.policy.leases.warning_us(lease.ttl_s) // 2
    decision.emit(ev.LeaseExpiring(decision.now, lease.lease, lease.holder, max(lease.expires_at, decision.now + left)))
    _notify(decision, lease.holder, "LEASE_EXPIRING", lease, lease.level, {})


def lapse(decision: Decision, lease: Lease) -> None:
    """End a lease whose time is over: lapsed if the holder is available, reclaimed if not."""
    before = msgspec.structs.replace(lease)
    holder = decision.state.agents.get(lease.holder)
    there = RecipientState.OFFLINE if holder is None else presence(holder, decision.policy, decision.now)
    resources = tuple(claim.resource for claim in lease.claims)
    lapsed = decision.state.leases.lapsed
    forgotten = tuple(islice(lapsed, max(0, len(lapsed) + 1 - decision.policy.leases.lapsed_max)))
    if there is RecipientState.AVAILABLE:
        decision.emit(ev.LeaseLapsed(decision.now, lease.lease, lease.holder, resources, lease.expires_at, forgotten))
    else:
        decision.emit(
            ev.LeaseReclaimed(decision.now, lease.lease, lease.holder, resources, lease.expires_at, forgotten, there)
        )
    more = {"reason": "lapsed", "by": SYSTEM.agent, "note": "its duration was over", "lost": list(resources)}
    _notify(decision, lease.holder, "LEASE_LOST", before, Priority.BLOCKING, more)


def end_request(decision: Decision, request: LeaseRequest, reason: str, note: str = "") -> None:
    """End a lease request without a lease; notify an agent that did not do it itself."""
    decision.emit(
        ev.LeaseWaitEnded(decision.now, request.lease, request.agent, reason, max(0, decision.now - request.asked_at))
    )
    if reason in ("timeout", "deadlock", "forced"):
        code = "E_LEASE_004" if reason == "deadlock" else "E_LEASE_002"
        more: dict[str, object] = {"reason": reason, "note": note, "errorCode": code}
        _notify(decision, request.agent, "LEASE_REFUSED", request, request.level, more)


def _break(decision: Decision, wait: Wait, detail: str) -> None:
    end_request(decision, decision.state.leases.queue[wait.ref], "deadlock", detail)


BREAKERS["lease"] = _break


def _names(request: LeaseRequest | Lease, *, shared: bool) -> tuple[str, ...]:
    return tuple(claim.resource for claim in request.claims if claim.shared is shared)


def _notify(
    decision: Decision,
    agent: str,
    message_type: str,
    about: Lease | LeaseRequest,
    level: int,
    more: Mapping[str, object],
) -> None:
    known = decision.state.agents.get(agent)
    if known is None:
        return
    payload: dict[str, object] = {
        "lease": about.lease,
        "exclusive": _names(about, shared=False),
        "shared": _names(about, shared=True),
        "priority": priority_name(about.level),
    }
    if isinstance(about, Lease):
        payload["expiresAt"] = iso(about.expires_at)
    notify(decision, known, message_type, {**payload, **more}, Priority(max(level, Priority.COORDINATE)))


def apply_lease_queued(state: ProjectState, event: ev.LeaseQueued) -> None:
    """Queue the request."""
    request = LeaseRequest(
        event.lease,
        event.agent,
        claims_of(event.exclusive, event.shared),
        event.level,
        event.ttl_s,
        event.at,
        event.wait_until,
        state.seq,
    )
    state.leases.enter(request)
    schedule_lease_request(state, request)
    schedule_wait(state, state.leases.wait_of(request))


def apply_lease_granted(state: ProjectState, event: ev.LeaseGranted) -> None:
    """Add the lease, and remove its request from the queue."""
    book = state.leases
    request = book.queue.get(event.lease)
    if request is not None:
        _leave(state, request)
    lease = Lease(
        event.lease,
        event.holder,
        claims_of(event.exclusive, event.shared),
        event.level,
        event.ttl_s,
        event.at,
        event.expires_at,
        state.seq,
    )
    book.hold(lease)
    for passed in event.passed:
        book.overtake(passed)
    schedule_lease(state, lease)


def apply_lease_renewed(state: ProjectState, event: ev.LeaseRenewed) -> None:
    """Extend the lease."""
    lease = _lease(state, event.lease)
    state.timers.leases.cancel(lease.lease, lease_due(state, lease))
    lease.ttl_s, lease.expires_at = event.ttl_s, event.expires_at
    lease.warned = False
    lease.renewals += 1
    schedule_lease(state, lease)


def apply_lease_expiring(state: ProjectState, event: ev.LeaseExpiring) -> None:
    """Record that the holder has been warned."""
    lease = _lease(state, event.lease)
    state.timers.leases.cancel(lease.lease, lease_due(state, lease))
    lease.warned = True
    lease.expires_at = event.expires_at
    schedule_lease(state, lease)


def apply_lease_released(state: ProjectState, event: ev.LeaseReleased) -> None:
    """Remove the released resources."""
    lease = _lease(state, event.lease)
    state.leases.release(lease, event.resources)
    if not lease.claims:
        state.timers.leases.cancel(lease.lease, lease_due(state, lease))


def apply_lease_ended(state: ProjectState, event: ev.LeaseLapsed | ev.LeaseReclaimed) -> None:
    """Remove the lease, and record for a while that it lapsed."""
    lease, lapsed = _lease(state, event.lease), state.leases.lapsed
    state.timers.leases.cancel(lease.lease, lease_due(state, lease))
    state.leases.release(lease, event.resources)
    for name in event.forgotten:
        del lapsed[name]
    lapsed[event.lease] = LapsedLease(event.lease, event.holder, state.seq)


def apply_lease_wait_ended(state: ProjectState, event: ev.LeaseWaitEnded) -> None:
    """Remove the request from the queue."""
    request = state.leases.queue.get(event.lease)
    if request is None:
        raise InvariantViolation(f"an event names the request {event.lease}, which does not exist")
    _leave(state, request)


def _leave(state: ProjectState, request: LeaseRequest) -> None:
    state.timers.lease_waits.cancel(request.lease, request.wait_until)
    state.leases.leave(request)


def _lease(state: ProjectState, name: str) -> Lease:
    lease = state.leases.leases.get(name)
    if lease is None:
        raise InvariantViolation(f"an event names the lease {name}, which does not exist")
    return lease

"""Lease commands (acquire, renew, release, force release) and the timers of leases.

The order of checks: caller, resources, duplicate, limits, availability. A request that is refused for its content
leaves nothing behind; one that is refused because the resource is taken, or a limit is reached, is recorded as an
event.
"""

import math
import re

from tocsin.core import events as ev
from tocsin.core.commands import AcquireLease, ForceRelease, LeaseRecord, Released, ReleaseLease, RenewLease
from tocsin.core.decision import Decision
from tocsin.core.errors import TocsinError, refusal
from tocsin.core.leases.limits import check_room, checked_claims
from tocsin.core.leases.model import Claim, Lease, LeaseRequest, Obstacles
from tocsin.core.leases.transitions import end_request, grant, lapse, release, warn
from tocsin.core.policy import microseconds
from tocsin.core.protocol.priority import PRIORITY_NAMES, VOCABULARY, Priority
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.core.state import Agent, ProjectState
from tocsin.core.waiting.deadlock import cycle_text
from tocsin.core.waiting.resolution import settle

__all__ = [
    "decide_acquire",
    "decide_force",
    "decide_release",
    "decide_renew",
    "fire_lease",
    "fire_lease_wait",
    "held_of",
    "queued_of",
]

_LEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}")


def decide_acquire(decision: Decision, command: AcquireLease) -> LeaseRecord:
    """Grant a lease, queue the request, or refuse it."""
    me = decision.me()
    claims = checked_claims(decision, command)
    ttl_s = _seconds(
        command.ttl_s, decision.policy.leases.ttl_default_s, decision.policy.leases.ttl_max_s, "$.ttl_s", least=1e-3
    )
    wait_s = _seconds(
        command.wait_s, decision.policy.leases.wait_default_s, decision.policy.leases.wait_max_s, "$.wait_s", least=0
    )
    level = _level(decision, me, command.priority)
    known = _asked_before(decision, me, command.lease, claims)
    if known is not None:
        return known
    lease = command.lease or decision.ids.fresh("lse", decision.now)
    until = decision.now + microseconds(wait_s)
    request = LeaseRequest(lease, me.agent, claims, level, ttl_s, decision.now, until, decision.state.seq + 1)
    try:
        check_room(decision, me, request)
        obstacles = decision.state.leases.obstacles(request, decision.policy.leases.overtakes_max)
        if not obstacles.is_free:
            _check_wait(decision, request, obstacles, wait_s)
    except TocsinError as error:
        names = _split(claims)
        decision.emit(ev.LeaseRefused(decision.now, me.agent, *names, error.problem.code, error.problem.detail))
        raise
    if obstacles.is_free:
        grant(decision, request, obstacles.passed)
    else:
        _wait(decision, request, obstacles)
    settle(decision)
    return _outcome(decision, request)


def _seconds(value: float | None, default: float, most: float, field: str, *, least: float) -> float:
    if value is None:
        return default
    if not math.isfinite(value) or not least <= value <= most:
        raise refusal(
            "E_VALIDATION_004",
            f"{field} is {value:g}: it must be {least:g} to {most:g}",
            field=field,
            found=f"{value:g}",
            expected=f"{least:g} to {most:g}",
        )
    return float(value)


def _level(decision: Decision, me: Agent, asked: str | None) -> int:
    """Return the priority of an agent's request: up to its role's cap, and Info while it inflates its priorities."""
    role = decision.policy.roles[me.role]
    wanted = decision.policy.leases.level_default if asked is None else VOCABULARY.get(asked)
    if wanted is None:
        raise refusal(
            "E_VALIDATION_003",
            f"$.priority is {asked!r}: it must be one of {', '.join(PRIORITY_NAMES)}",
            field="$.priority",
            found=asked,
            expected="one of " + ", ".join(PRIORITY_NAMES),
        )
    if me.gaming:
        return Priority.INFO
    if wanted <= role.cap or role.lowers or asked is None:
        return min(wanted, role.cap)
    raise refusal(
        "E_ADMISSION_004",
        f"{me.agent} is {me.role} and may ask with a priority up to {role.max_priority}",
        field="$.priority",
        found=PRIORITY_NAMES[wanted],
        expected=f"at most {role.max_priority}",
    )


def _asked_before(decision: Decision, me: Agent, lease: str | None, claims: tuple[Claim, ...]) -> LeaseRecord | None:
    if lease is None:
        return None
    if not _LEASE_ID.fullmatch(lease):
        raise refusal(
            "E_VALIDATION_004",
            f"{lease[:128]!r} is not a valid lease id",
            field="$.lease",
            found=lease[:128],
            expected="up to 128 letters, digits, dots, dashes, underscores",
        )
    book = decision.state.leases
    held, queued = book.leases.get(lease), book.queue.get(lease)
    if held is not None and held.holder == me.agent and held.claims == claims:
        return held_of(held, duplicate=True)
    if queued is not None and queued.agent == me.agent and queued.claims == claims:
        return queued_of(decision.state, queued, duplicate=True)
    if held is None and queued is None:
        return None
    raise refusal(
        "E_ADMISSION_007", f"{lease} is already the id of another lease: use a new id", field="$.lease", found=lease
    )


def _check_wait(decision: Decision, request: LeaseRequest, obstacles: Obstacles, wait_s: float) -> None:
    """Refuse a request that is not free and may not wait."""
    book, limits = decision.state.leases, decision.policy.leases
    if not wait_s:
        by = sorted({*obstacles.holders, *obstacles.ahead})
        wanted = ", ".join(claim.resource for claim in request.claims[:3])
        who = (
            f"held by {', '.join(sorted(obstacles.holders))}" if obstacles.holders else f"reserved for {', '.join(by)}"
        )
        raise refusal(
            "E_LEASE_002", f"{wanted} is {who}", holders=sorted(obstacles.holders), ahead=sorted(obstacles.ahead)
        )
    for claim in request.claims:
        if len(book.waiting_for(claim.resource)) >= limits.waiters_max:
            raise refusal("E_ADMISSION_008", f"{limits.waiters_max} requests already wait for {claim.resource}")


def _outcome(decision: Decision, request: LeaseRequest) -> LeaseRecord:
    """Return the reply to a request; its grant can close a deadlock, and its lease be taken away to break it."""
    book = decision.state.leases
    if request.lease in book.queue:
        return queued_of(decision.state, book.queue[request.lease])
    lease = book.leases.get(request.lease)
    if lease is not None and lease.claims == request.claims:
        return held_of(lease)
    cycle = next(event.cycle for event in reversed(decision.events) if isinstance(event, ev.DeadlockFound))
    detail = f"it would have caused a deadlock: {cycle_text(cycle)}"
    if lease is not None:
        release(decision, lease, tuple(claim.resource for claim in lease.claims), "deadlock", detail)
    raise refusal("E_LEASE_004", detail, cycle=list(cycle[: decision.policy.limits.batch_max]))


def _wait(decision: Decision, request: LeaseRequest, obstacles: Obstacles) -> None:
    book = decision.state.leases
    decision.emit(
        ev.LeaseQueued(
            decision.now,
            request.lease,
            request.agent,
            *_split(request.claims),
            request.level,
            request.ttl_s,
            request.wait_until,
            tuple(sorted(obstacles.holders)),
            book.place(request),
        )
    )
    _report_contention(decision, request)


def _report_contention(decision: Decision, request: LeaseRequest) -> None:
    """Record each resource for which this request brings the number of waiters to the policy's limit."""
    book, depth = decision.state.leases, decision.policy.escalation.contention_depth
    if depth is None:
        return
    for resource in book.contended_resources(request, depth):
        now = book.contention(resource)
        if now.depth >= depth > book.contention(resource, request.lease).depth:
            decision.emit(ev.LeaseContended(decision.now, resource, now.depth, now.waiters, now.holders))


def decide_renew(decision: Decision, command: RenewLease) -> LeaseRecord:
    """Extend a lease of the caller."""
    me = decision.me()
    lease = _my_lease(decision, me, command.lease)
    ttl_s = _seconds(command.ttl_s, lease.ttl_s, decision.policy.leases.ttl_max_s, "$.ttl_s", least=1e-3)
    decision.emit(ev.LeaseRenewed(decision.now, lease.lease, me.agent, ttl_s, decision.now + microseconds(ttl_s)))
    return held_of(lease)


def decide_release(decision: Decision, command: ReleaseLease) -> Released:
    """Release what the caller holds, or remove its request from the queue."""
    me, book = decision.me(), decision.state.leases
    if (command.lease is None) == (not command.resources):
        raise refusal("E_VALIDATION_004", "name either a lease or resources", field="$.lease")
    if command.lease is not None:
        queued = book.queue.get(command.lease)
        if queued is not None and queued.agent == me.agent:
            end_request(decision, queued, "cancelled")
            return Released((), (queued.lease,))
        lease = _my_lease(decision, me, command.lease)
        resources = tuple(claim.resource for claim in lease.claims)
        release(decision, lease, resources, "released", "")
        return Released(resources)
    mine = [book.leases[name] for name in book.by_agent.get(me.agent, ()) if name in book.leases]
    held = {claim.resource for lease in mine for claim in lease.claims}
    for resource in command.resources:
        if resource not in held:
            raise refusal("E_LEASE_001", f"{me.agent} does not hold {resource[:120]!r}", found=resource[:120])
    wanted = dict.fromkeys(command.resources)
    for lease in mine:
        freed = tuple(claim.resource for claim in lease.claims if claim.resource in wanted)
        if freed:
            release(decision, lease, freed, "released", "")
    return Released(tuple(wanted))


def decide_force(decision: Decision, command: ForceRelease) -> Released:
    """Take away a lease or a queued request, for a director."""
    decision.must_direct("take a lease away")
    book, reason = decision.state.leases, decision.text(command.reason, "$.reason")
    if not reason.strip():
        raise refusal("E_VALIDATION_001", "taking a lease away needs a reason", field="$.reason")
    lease, queued = book.leases.get(command.lease), book.queue.get(command.lease)
    if queued is not None:
        end_request(decision, queued, "forced", reason)
        return Released((), (queued.lease,))
    if lease is None:
        raise refusal(
            "E_LEASE_001", f"{command.lease[:128]} is not a held lease or queued request", found=command.lease[:128]
        )
    resources = tuple(claim.resource for claim in lease.claims)
    release(decision, lease, resources, "forced", reason)
    return Released(resources)


def _my_lease(decision: Decision, me: Agent, name: str) -> Lease:
    book = decision.state.leases
    lease = book.leases.get(name)
    if lease is not None and lease.holder == me.agent:
        return lease
    if (gone := book.lapsed.get(name)) is not None and gone.holder == me.agent:
        raise refusal("E_LEASE_003", f"{name} has lapsed: it was not renewed in time", found=name)
    raise refusal("E_LEASE_001", f"{me.agent} does not hold {name[:128]}", found=name[:128])


def fire_lease(decision: Decision, name: str) -> None:
    """Warn a holder whose lease is about to lapse, or end the lease."""
    lease = decision.state.leases.leases.get(name)
    if lease is None:
        return
    ahead = 0 if lease.warned else decision.policy.leases.warning_us(lease.ttl_s)
    if decision.now < lease.expires_at - ahead:
        decision.state.timers.leases.schedule(name, lease.expires_at - ahead)
    elif lease.warned:
        lapse(decision, lease)
    else:
        warn(decision, lease)


def fire_lease_wait(decision: Decision, name: str) -> None:
    """End a lease request whose waiting time is over."""
    request = decision.state.leases.queue.get(name)
    if request is None:
        return
    if decision.now < request.wait_until:
        decision.state.timers.lease_waits.schedule(name, request.wait_until)
    else:
        end_request(decision, request, "timeout", "its waiting time is over")


def _split(claims: tuple[Claim, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    exclusive = tuple(claim.resource for claim in claims if not claim.shared)
    return exclusive, tuple(claim.resource for claim in claims if claim.shared)


def held_of(lease: Lease, *, duplicate: bool = False) -> LeaseRecord:
    """Return a lease as a reply."""
    return LeaseRecord(
        lease.lease,
        "held",
        lease.holder,
        *_split(lease.claims),
        PRIORITY_NAMES[lease.level],
        expires_at=as_datetime(lease.expires_at),
        duplicate=duplicate,
    )


def queued_of(state: ProjectState, request: LeaseRequest, *, duplicate: bool = False) -> LeaseRecord:
    """Return a queued request as a reply."""
    book = state.leases
    return LeaseRecord(
        request.lease,
        "waiting",
        request.agent,
        *_split(request.claims),
        PRIORITY_NAMES[book.effective(request)],
        place=book.place(request),
        wait_until=as_datetime(request.wait_until),
        holders=tuple(sorted(book.wait_of(request).on)),
        duplicate=duplicate,
    )

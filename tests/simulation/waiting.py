"""What must hold of waiting after every step, worked out anew from the waits and the leases alone."""

from itertools import combinations, product

from tests.simulation.promises import must
from tocsin.core import events as ev
from tocsin.core.leases.globs import intersects, parse_pattern
from tocsin.core.leases.model import Claim, LeaseRequest
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import ProjectState

__all__ = ["check_coordination", "check_deadlock", "check_times"]


def check_coordination(live: ProjectState) -> None:
    """Check that nobody waits in vain, and that everybody has inherited exactly what the waits amount to."""
    # A rebuilt exchange works out the places when it decides next.
    live.leases.settle_places(live.policy.leases.overtakes_max)
    _check_holders(live)
    _check_line(live)
    _check_no_deadlock(live)
    both = live.waits.upon.keys() & live.waits.by_waiter.keys()
    must(live.waits.linked == len(both), f"{sorted(both)} wait and are waited for, counted as {live.waits.linked}")
    _check_inheritance(live)
    _check_messages(live)


def _clash(one: Claim, other: Claim) -> bool:
    both = one.shared and other.shared
    return not both and intersects(parse_pattern(one.resource), parse_pattern(other.resource))


def _check_holders(live: ProjectState) -> None:
    for one, other in combinations(live.leases.leases.values(), 2):
        if one.holder != other.holder:
            clash = any(_clash(a, b) for a, b in product(one.claims, other.claims))
            must(not clash, f"{one.holder} and {other.holder} both hold {one.claims} and {other.claims}")


def _check_line(live: ProjectState) -> None:
    """Check who waits for whom in the lines, and that nobody waits for nothing."""
    book, most = live.leases, live.policy.leases.overtakes_max
    line = list(book.queue.values())

    def order(request: LeaseRequest) -> tuple[int, int]:
        return (-max(request.level, live.inherited.get(request.agent, 0)), request.seq)

    def taken(request: LeaseRequest, claim: Claim) -> bool:
        others = (lease for lease in book.leases.values() if lease.holder != request.agent)
        return any(_clash(claim, held) for lease in others for held in lease.claims)

    waits = {wait.ref: wait for wait in live.waits.waits.values() if wait.kind == "lease"}
    must(waits.keys() == book.queue.keys(), "the waits for leases are not the requests in line")
    for request in line:
        holders = {
            lease.holder
            for lease in book.leases.values()
            if lease.holder != request.agent and any(_clash(a, b) for a, b in product(request.claims, lease.claims))
        }
        ahead = {
            other.agent
            for other in line
            if other.agent != request.agent
            and order(other) < order(request)
            and any(
                _clash(a, b) and (other.overtaken >= most or taken(other, b))
                for a, b in product(request.claims, other.claims)
            )
        }
        wait = waits[request.lease]
        must(wait.level == request.level, f"{request.lease} waits at {wait.level} and stands at {request.level}")
        must(set(wait.on) == holders, f"{request.lease} waits for {set(wait.on)}, and {holders} hold what it wants")
        must(wait.behind == ahead, f"{request.lease} stands behind {set(wait.behind)}, it should be {ahead}")
        must(bool(holders or ahead), f"{request.lease} waits for nobody and is not granted")


def check_times(live: ProjectState, now: int) -> None:
    """Check, after a tick that left nothing due, that nothing is held or waits beyond its time."""
    late = now - live.policy.timers.granularity_us
    for lease in live.leases.leases.values():
        must(lease.expires_at > late, f"{lease.lease} is held beyond its time")
    for request in live.leases.queue.values():
        must(request.wait_until > late, f"{request.lease} waits beyond its time")


def _check_no_deadlock(live: ProjectState) -> None:
    waits = list(live.waits.waits.values())
    stuck = {wait.waiter for wait in waits}
    moved = True
    while moved:
        moved = False
        for agent in sorted(stuck):
            mine = [wait for wait in waits if wait.waiter == agent]
            if all(_can_end(set(wait.on), wait.behind, wait.any_of, stuck) for wait in mine):
                stuck.discard(agent)
                moved = True
    must(not stuck, f"a deadlock survived the decision: {sorted(stuck)}")


def _can_end(on: set[str], behind: frozenset[str], any_of: bool, stuck: set[str]) -> bool:
    if any_of:
        return not on or bool(on - stuck)
    return not (on | behind) & stuck


def check_deadlock(event: ev.DeadlockFound, before: ProjectState) -> None:
    """Check that all who are in a deadlock wait for each other, and that the right one gave way."""
    before.leases.settle_places(before.policy.leases.overtakes_max)
    members = set(event.cycle)
    waits = [wait for wait in before.waits.waits.values() if wait.waiter in members]
    for agent in members:
        reached, news = set[str](), {agent}
        while news:
            targets = {other for wait in waits if wait.waiter in news for other in {*wait.on, *wait.behind}}
            news = (targets & members) - reached
            reached |= news
        must(reached == members, f"{agent} waits for {sorted(reached)}, of the deadlock {event.cycle}")
    refused = {f"{wait.kind}:{wait.ref} {wait.waiter}": wait for wait in waits}
    named = [refused[f"{label} {agent}"] for agent, label in zip(event.cycle, event.waits, strict=True)]
    for agent, level in zip(event.cycle, event.levels, strict=True):
        must(level == _level_outside(agent, members, before), f"{agent} counts at {level} in {event.cycle}")
    victim = min(zip(event.levels, named, strict=True), key=lambda pair: (pair[0], -pair[1].seq))[1]
    must((event.victim, event.refused) == (victim.waiter, victim.label), f"{event.victim} gave way for {victim.waiter}")


def _level_outside(agent: str, members: set[str], state: ProjectState) -> int:
    """Work out the priority of one in a deadlock, without what it is lent by those who are in it too."""
    waits = list(state.waits.waits.values())
    levels = [wait.level for wait in waits if wait.waiter == agent]
    lenders, news = {agent}, {agent}
    while news:
        lending = [wait for wait in waits if wait.on.keys() & news and wait.waiter not in members]
        levels += [wait.level for wait in lending]
        news = {wait.waiter for wait in lending} - lenders
        lenders |= news
    return max(levels)


def _check_inheritance(live: ProjectState) -> None:
    levels: dict[str, int] = {}
    changed = True
    while changed:
        changed = False
        for wait in live.waits.waits.values():
            lent = max(wait.level, levels.get(wait.waiter, -1))
            for agent in wait.on:
                if lent > levels.get(agent, -1):
                    levels[agent] = lent
                    changed = True
    must(live.inherited == levels, f"inherited is {live.inherited}, the waits amount to {levels}")


def _check_messages(live: ProjectState) -> None:
    for message in live.messages.values():
        if not message.lent:
            must(message.level == message.own_level, f"message {message.seq} is raised and nobody lends it anything")
        lenders = [message.sender] * (message.lent & 1) + [message.recipient] * (message.lent >> 1)
        lent = [min(live.inherited[agent], Priority.CRITICAL) for agent in lenders]
        level = max([message.own_level, *lent])
        must(message.level == level, f"message {message.seq} counts at {message.level}, not at {level}")

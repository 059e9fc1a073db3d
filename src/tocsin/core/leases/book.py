"""Who holds what, who stands in line for it, and what stands in whose way.

Theory of operation. A request is granted when nobody else holds anything that it conflicts with and nobody before it in
line reserves any of it. The line is by effective priority, then age: a request counts at its own level, or at what its
agent has inherited. Of a request in line, only what is held by somebody reserves its place: whoever comes later and
conflicts with that waits behind it, so sharers cannot starve one who wants the thing alone. What is free, of a request
that waits for something else too, may be taken meanwhile: a request in line holds nothing. That way it can be passed
by, but no more often than the policy's `overtakes_max`; from then on its place reserves all that it wants.

`held` counts, for each thing that a request wants, how many others hold it; the wait of the request in the graph counts
the same by holder. Both follow each grant and release. Places (`behind`) are worked out anew for the requests that a
change can concern, which are noted as `unsettled`. All of it follows from the leases and requests and is no state of
its own.
"""

from collections.abc import Iterable

from tocsin.core.leases.glob_index import GlobIndex
from tocsin.core.leases.globs import Pattern, Segment, intersects, parse_pattern
from tocsin.core.leases.model import Claim, Contention, LapsedLease, Lease, LeaseRequest, Obstacles
from tocsin.core.waiting.graph import Wait, WaitGraph, wait_key

__all__ = ["LeaseBook", "claims_of", "conflict"]


def claims_of(exclusive: Iterable[str], shared: Iterable[str]) -> tuple[Claim, ...]:
    """Put claims together."""
    return (*[Claim(resource, False) for resource in exclusive], *[Claim(resource, True) for resource in shared])


def conflict(one: Claim, other: Claim) -> bool:
    """Tell whether two agents cannot have both claims at once."""
    return not (one.shared and other.shared) and intersects(parse_pattern(one.resource), parse_pattern(other.resource))


class LeaseBook:
    """Everything held and everything asked for."""

    def __init__(self, waits: WaitGraph, inherited: dict[str, int]) -> None:
        self._waits = waits
        self._inherited = inherited
        self.leases: dict[str, Lease] = {}
        self.queue: dict[str, LeaseRequest] = {}
        #: Leases and requests of each agent.
        self.by_agent: dict[str, dict[str, None]] = {}
        #: Leases that lapsed not long ago, oldest first.
        self.lapsed: dict[str, LapsedLease] = {}
        #: Requests whose place has to be worked out anew.
        self.unsettled: dict[str, None] = {}
        #: Requests that nothing stands in the way of.
        self.ready: dict[str, None] = {}
        self._held_index = GlobIndex()
        self._queue_index = GlobIndex()
        #: For each thing that a request wants, how many others hold it.
        self._held: dict[str, list[int]] = {}

    def hold(self, lease: Lease) -> None:
        """Enter a lease."""
        self.leases[lease.lease] = lease
        self.by_agent.setdefault(lease.holder, {})[lease.lease] = None
        for number, claim in enumerate(lease.claims):
            self._held_index.add(parse_pattern(claim.resource), (lease.lease, number))
        self._count(lease.holder, lease.claims, 1)

    def release(self, lease: Lease, resources: Iterable[str]) -> None:
        """Strike out some of what a lease holds; the lease itself once nothing is left."""
        gone = {*resources}
        for number, claim in enumerate(lease.claims):
            self._held_index.discard(parse_pattern(claim.resource), (lease.lease, number))
        released = tuple(claim for claim in lease.claims if claim.resource in gone)
        lease.claims = tuple(claim for claim in lease.claims if claim.resource not in gone)
        for number, claim in enumerate(lease.claims):
            self._held_index.add(parse_pattern(claim.resource), (lease.lease, number))
        if not lease.claims:
            del self.leases[lease.lease]
            self._forget(lease.holder, lease.lease)
        self._count(lease.holder, released, -1)

    def _forget(self, agent: str, lease: str) -> None:
        mine = self.by_agent[agent]
        del mine[lease]
        if not mine:
            del self.by_agent[agent]

    def _count(self, holder: str, claims: tuple[Claim, ...], step: int) -> None:
        """Let the requests in line know what is held more, or less."""
        turned: dict[str, None] = {}
        for claim in claims:
            for name, number in self._queue_index.conflicting(parse_pattern(claim.resource)):
                request = self.queue[name]
                wanted = request.claims[number]
                if request.agent == holder or (wanted.shared and claim.shared):
                    continue
                wait = self.wait_of(request)
                if step > 0:
                    self._waits.block(wait, holder, 1)
                else:
                    self._waits.unblock(wait, holder, 1)
                held = self._held[name]
                held[number] += step
                if held[number] == max(0, step):
                    turned[wanted.resource] = None
                self.unsettled[name] = None
        for resource in turned:
            self._unsettle(resource)

    def _unsettle(self, resource: str) -> None:
        for name, _ in self._queue_index.conflicting(parse_pattern(resource)):
            self.unsettled[name] = None

    def enter(self, request: LeaseRequest) -> None:
        """Put a request in line."""
        obstacles = self.obstacles(request, None)
        self.queue[request.lease] = request
        self.by_agent.setdefault(request.agent, {})[request.lease] = None
        self._held[request.lease] = obstacles.held
        for number, claim in enumerate(request.claims):
            self._queue_index.add(parse_pattern(claim.resource), (request.lease, number))
        self._waits.add(
            Wait(
                request.agent,
                "lease",
                request.lease,
                request.asked_at,
                request.level,
                request.seq,
                False,
                obstacles.holders,
            )
        )
        for claim in request.claims:
            self._unsettle(claim.resource)

    def leave(self, request: LeaseRequest) -> None:
        """Take a request out of the line."""
        for claim in request.claims:
            self._unsettle(claim.resource)
        for number, claim in enumerate(request.claims):
            self._queue_index.discard(parse_pattern(claim.resource), (request.lease, number))
        self._waits.drop(self.wait_of(request))
        del self._held[request.lease]
        del self.queue[request.lease]
        self._forget(request.agent, request.lease)
        self.unsettled.pop(request.lease, None)
        self.ready.pop(request.lease, None)

    def overtake(self, lease: str) -> None:
        """Count that a request was passed by."""
        request = self.queue[lease]
        request.overtaken += 1
        for claim in request.claims:
            self._unsettle(claim.resource)

    def raise_to(self, lease: str, level: int) -> None:
        """Let a request count at another priority."""
        request = self.queue[lease]
        request.level = level
        for claim in request.claims:
            self._unsettle(claim.resource)

    def reorder(self, agent: str) -> None:
        """Work the places anew after an agent has inherited more or less."""
        for name in self.by_agent.get(agent, ()):
            if name in self.queue:
                for claim in self.queue[name].claims:
                    self._unsettle(claim.resource)

    def unsettle_all(self) -> None:
        """Work out all places anew."""
        self.unsettled.update(dict.fromkeys(self.queue))

    def wait_of(self, request: LeaseRequest) -> Wait:
        """Return the wait of a request in the graph."""
        return self._waits.waits[wait_key("lease", request.lease, request.agent)]

    def order(self, request: LeaseRequest) -> tuple[int, int]:
        """Return what the line is sorted by, smallest first."""
        return (-self.effective(request), request.seq)

    def effective(self, request: LeaseRequest) -> int:
        """Return the priority that a request counts at."""
        return max(request.level, self._inherited.get(request.agent, 0))

    def obstacles(self, request: LeaseRequest, overtakes_max: int | None) -> Obstacles:
        """Say what stands in the way of a request; without `overtakes_max`, only who holds it."""
        holders: dict[str, int] = {}
        held: list[int] = []
        for claim in request.claims:
            count = 0
            for name, number in self._held_index.conflicting(parse_pattern(claim.resource)):
                lease = self.leases[name]
                if lease.holder != request.agent and not (claim.shared and lease.claims[number].shared):
                    holders[lease.holder] = holders.get(lease.holder, 0) + 1
                    count += 1
            held.append(count)
        if overtakes_max is None:
            return Obstacles(holders, held, frozenset(), ())
        ahead, passed = self._ahead(request, overtakes_max)
        return Obstacles(holders, held, ahead, passed)

    def _ahead(self, request: LeaseRequest, overtakes_max: int) -> tuple[frozenset[str], tuple[str, ...]]:
        """Find who is before a request in line: those who reserve something of it, and those who only could have it."""
        mine = self.order(request)
        reserving: dict[str, None] = {}
        passed: dict[str, int] = {}
        for claim in request.claims:
            for name, number in self._queue_index.conflicting(parse_pattern(claim.resource)):
                other = self.queue[name]
                if other.agent == request.agent or (claim.shared and other.claims[number].shared):
                    continue
                if self.order(other) < mine:
                    if self._held[name][number] or other.overtaken >= overtakes_max:
                        reserving[other.agent] = None
                    else:
                        passed[name] = other.seq
        return frozenset(reserving), tuple(sorted(passed, key=lambda name: passed[name]))

    def place(self, request: LeaseRequest) -> int:
        """Return a request's place in line, from 1: how many before it conflict with it, and one."""
        mine = self.order(request)
        before = {
            name
            for claim in request.claims
            for name, number in self._queue_index.conflicting(parse_pattern(claim.resource))
            if not (claim.shared and self.queue[name].claims[number].shared)
            and self.queue[name].agent != request.agent
            and self.order(self.queue[name]) < mine
        }
        return len(before) + 1

    def waiting_for(self, resource: str) -> list[LeaseRequest]:
        """Return the requests that want something in common with a resource, first in line first."""
        found = {name for name, _ in self._queue_index.conflicting(parse_pattern(resource))}
        return sorted((self.queue[name] for name in found), key=self.order)

    def holding(self, resource: str) -> list[Lease]:
        """Return the leases that have something in common with a resource, oldest first."""
        found = {name for name, _ in self._held_index.conflicting(parse_pattern(resource))}
        return sorted((self.leases[name] for name in found), key=lambda lease: lease.seq)

    def contended_resources(self, request: LeaseRequest, depth: int) -> list[str]:
        """Return the held resources that a request waits for, of holders for whom so many wait at least."""
        found: dict[str, None] = {}
        for claim in request.claims:
            for name, number in self._held_index.conflicting(parse_pattern(claim.resource)):
                lease = self.leases[name]
                if lease.holder == request.agent or len(self._waits.upon.get(lease.holder, ())) < depth:
                    continue
                held = lease.claims[number]
                if not (claim.shared and held.shared):
                    found[held.resource] = None
        return list(found)

    def contention(self, resource: str, but: str = "") -> Contention:
        """Say who waits for a resource that is held under this name, one request left out where it is named."""
        pattern = parse_pattern(resource)
        held: list[tuple[str, bool]] = []
        for name, number in self._held_index.conflicting(pattern):
            claim = self.leases[name].claims[number]
            if claim.resource == resource:
                held.append((self.leases[name].holder, claim.shared))
        waiting: list[LeaseRequest] = []
        alone: set[str] = set()
        for name, number in self._queue_index.conflicting(pattern) if held else ():
            request = self.queue[name]
            shared = request.claims[number].shared
            if name != but and any(agent != request.agent and not (shared and also) for agent, also in held):
                waiting.append(request)
                if not shared:
                    alone.add(request.agent)
        waiters = tuple(dict.fromkeys([request.agent for request in sorted(waiting, key=self.order)]))
        holders = tuple(dict.fromkeys([agent for agent, _ in held]))
        return Contention(len(alone) + (len(waiters) > len(alone)), waiters, holders)

    def covering(self, path: str) -> list[tuple[Lease, int]]:
        """Return the leases that hold an exact path, oldest first, each with the number of the claim that does."""
        exact = Pattern(path, tuple(map(Segment, path.split("/"))))
        found = [(self.leases[name], number) for name, number in self._held_index.conflicting(exact)]
        return sorted(found, key=lambda entry: (entry[0].seq, entry[1]))

    def settle_places(self, overtakes_max: int) -> None:
        """Work out the places of the unsettled; those that nothing stands in the way of become ready."""
        if not self.unsettled:
            return
        behind = self._places(overtakes_max)
        for name in self.unsettled:
            ahead = frozenset(behind[name])
            wait = self.wait_of(self.queue[name])
            self._waits.set_behind(wait, ahead)
            if wait.on or ahead:
                self.ready.pop(name, None)
            else:
                self.ready[name] = None
        self.unsettled.clear()

    def _places(self, overtakes_max: int) -> dict[str, set[str]]:
        """Find who stands before each of the unsettled, going through each line once."""
        behind: dict[str, set[str]] = {name: set() for name in self.unsettled}
        resources = dict.fromkeys([claim.resource for name in self.unsettled for claim in self.queue[name].claims])
        orders: dict[str, tuple[int, int]] = {}
        for resource in resources:
            entries = list(self._queue_index.conflicting(parse_pattern(resource)))
            for name, _ in entries:
                if name not in orders:
                    orders[name] = self.order(self.queue[name])
            entries.sort(key=lambda entry: orders[entry[0]])
            everyone: set[str] = set()
            alone: set[str] = set()
            for name, number in entries:
                request = self.queue[name]
                claim = request.claims[number]
                if claim.resource == resource and name in behind:
                    mine = alone if claim.shared else everyone
                    behind[name] |= mine - {request.agent}
                if self._held[name][number] or request.overtaken >= overtakes_max:
                    everyone.add(request.agent)
                    if not claim.shared:
                        alone.add(request.agent)
        return behind

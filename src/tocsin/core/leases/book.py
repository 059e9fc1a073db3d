"""The lease book: held leases, the queue of lease requests, and the conflicts between them.

Theory of operation. A request is granted when nobody else holds anything that it conflicts with and nobody before it in
the queue reserves any of it. The queue is ordered by effective priority, then age: a request counts at its own level,
or at the level that its agent has inherited. A queued request reserves only those of its resources that somebody holds:
a later request that conflicts with those waits behind it, so sharers cannot starve a request for exclusive use. Its
free resources may be granted to others meanwhile, because a queued request holds nothing. It can be overtaken in this
way at most `overtakes_max` times; from then on it reserves all its resources.

`held` counts, for each resource of a request, how many others hold it; the wait of the request in the graph counts the
same by holder. Both are updated by each grant and release. Places (`behind`) are computed again for the requests that a
change can affect: those noted as `unsettled`, and those for a resource noted as `touched`. Resources are noted because
many requests for the same resources may change in one decision. All of it is derived from the leases and requests.
"""

from collections.abc import Iterable

from tocsin.core.leases.globs import exact_pattern
from tocsin.core.leases.model import Claim, Contention, LapsedLease, Lease, LeaseRequest, Obstacles
from tocsin.core.leases.used_patterns import Key, UsedPatterns
from tocsin.core.waiting.graph import Wait, WaitGraph, wait_key

__all__ = ["LeaseBook", "claims_of"]


def claims_of(exclusive: Iterable[str], shared: Iterable[str]) -> tuple[Claim, ...]:
    """Return claims for exclusive and shared resources."""
    return (*[Claim(resource, False) for resource in exclusive], *[Claim(resource, True) for resource in shared])


class LeaseBook:
    """All leases and lease requests of a project."""

    def __init__(self, waits: WaitGraph, inherited: dict[str, int]) -> None:
        self._waits = waits
        self._inherited = inherited
        self.leases: dict[str, Lease] = {}
        self.queue: dict[str, LeaseRequest] = {}
        #: Leases and requests of each agent.
        self.by_agent: dict[str, dict[str, None]] = {}
        #: Recently lapsed leases, oldest first.
        self.lapsed: dict[str, LapsedLease] = {}
        #: Requests whose place must be computed again.
        self.unsettled: dict[str, None] = {}
        #: Resources whose requests' places must be computed again.
        self.touched: dict[str, None] = {}
        #: Requests that can be granted.
        self.ready: dict[str, None] = {}
        #: The resources of both.
        self.patterns = UsedPatterns()
        #: Wildcards of the open patterns that each agent holds or waits for, and of those of all agents.
        self.wildcards_by_agent: dict[str, int] = {}
        self.wildcards = 0
        #: For each resource of a request, the number of other agents' claims that hold it.
        self._held: dict[str, list[int]] = {}

    def _holding(self, resource: str) -> list[Key]:
        """Return the claims of leases that overlap with a resource."""
        return [key for used in self.patterns.conflicting(resource) for key in used.held]

    def _queued(self, resource: str) -> list[Key]:
        """Return the claims of queued requests that overlap with a resource."""
        return [key for used in self.patterns.conflicting(resource) for key in used.queued]

    def hold(self, lease: Lease) -> None:
        """Add a lease."""
        self.leases[lease.lease] = lease
        self.by_agent.setdefault(lease.holder, {})[lease.lease] = None
        for number, claim in enumerate(lease.claims):
            self.patterns.hold(claim.resource, (lease.lease, number))
        self._count_wildcards(lease.holder, lease.claims, 1)
        self._count(lease.holder, lease.claims, 1)

    def release(self, lease: Lease, resources: Iterable[str]) -> None:
        """Remove some resources of a lease; the lease itself once none is left."""
        gone = {*resources}
        released = tuple(claim for claim in lease.claims if claim.resource in gone)
        self._count_wildcards(lease.holder, released, -1)
        for number, claim in enumerate(lease.claims):
            self.patterns.release(claim.resource, (lease.lease, number))
        lease.claims = tuple(claim for claim in lease.claims if claim.resource not in gone)
        for number, claim in enumerate(lease.claims):
            self.patterns.hold(claim.resource, (lease.lease, number))
        if not lease.claims:
            del self.leases[lease.lease]
            self._forget(lease.holder, lease.lease)
        self._count(lease.holder, released, -1)

    def _count_wildcards(self, agent: str, claims: tuple[Claim, ...], step: int) -> None:
        """Update the numbers of wildcards of open patterns; the claims must be in use."""
        change = step * self.patterns.count_wildcards([claim.resource for claim in claims])
        if not change:
            return
        self.wildcards += change
        now = self.wildcards_by_agent.get(agent, 0) + change
        if now:
            self.wildcards_by_agent[agent] = now
        else:
            del self.wildcards_by_agent[agent]

    def _forget(self, agent: str, lease: str) -> None:
        mine = self.by_agent[agent]
        del mine[lease]
        if not mine:
            del self.by_agent[agent]

    def _count(self, holder: str, claims: tuple[Claim, ...], step: int) -> None:
        """Update the queued requests after something was granted or released."""
        turned: dict[str, None] = {}
        for claim in claims:
            for name, number in self._queued(claim.resource):
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
        self.touched.update(turned)

    def _touch(self, request: LeaseRequest) -> None:
        """Mark the requests for the same resources for a new computation of their places."""
        for claim in request.claims:
            self.touched[claim.resource] = None

    def enter(self, request: LeaseRequest) -> None:
        """Add a request to the queue."""
        obstacles = self.obstacles(request, None)
        self.queue[request.lease] = request
        self.by_agent.setdefault(request.agent, {})[request.lease] = None
        self._held[request.lease] = obstacles.held
        for number, claim in enumerate(request.claims):
            self.patterns.queue(claim.resource, (request.lease, number))
        self._count_wildcards(request.agent, request.claims, 1)
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
        self._touch(request)

    def leave(self, request: LeaseRequest) -> None:
        """Remove a request from the queue."""
        self._touch(request)
        self._count_wildcards(request.agent, request.claims, -1)
        for number, claim in enumerate(request.claims):
            self.patterns.unqueue(claim.resource, (request.lease, number))
        self._waits.drop(self.wait_of(request))
        del self._held[request.lease]
        del self.queue[request.lease]
        self._forget(request.agent, request.lease)
        self.unsettled.pop(request.lease, None)
        self.ready.pop(request.lease, None)
        if not self.queue:
            self.touched.clear()

    def overtake(self, lease: str) -> None:
        """Count that a request was overtaken."""
        request = self.queue[lease]
        request.overtaken += 1
        self._touch(request)

    def raise_to(self, lease: str, level: int) -> None:
        """Change the priority of a request."""
        request = self.queue[lease]
        request.level = level
        self._touch(request)

    def reorder(self, agent: str) -> None:
        """Mark the requests affected by a change of an agent's inherited priority."""
        for name in self.by_agent.get(agent, ()):
            if name in self.queue:
                self._touch(self.queue[name])

    def unsettle_all(self) -> None:
        """Mark all requests for a new computation of their places."""
        self.unsettled.update(dict.fromkeys(self.queue))

    def wait_of(self, request: LeaseRequest) -> Wait:
        """Return the wait of a request in the graph."""
        return self._waits.waits[wait_key("lease", request.lease, request.agent)]

    def order(self, request: LeaseRequest) -> tuple[int, int]:
        """Return the sort key of the queue, smallest first."""
        return (-self.effective(request), request.seq)

    def effective(self, request: LeaseRequest) -> int:
        """Return the priority that a request counts at."""
        return max(request.level, self._inherited.get(request.agent, 0))

    def obstacles(self, request: LeaseRequest, overtakes_max: int | None) -> Obstacles:
        """Return what prevents the grant of a request; without `overtakes_max`, only the holders."""
        holders: dict[str, int] = {}
        held: list[int] = []
        for claim in request.claims:
            count = 0
            for name, number in self._holding(claim.resource):
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
        """Return those before a request in the queue: agents that reserve part of it, and requests that do not."""
        mine = self.order(request)
        reserving: dict[str, None] = {}
        passed: dict[str, int] = {}
        for claim in request.claims:
            for name, number in self._queued(claim.resource):
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
        """Return a request's place in the queue: one more than the requests before it that conflict with it."""
        mine = self.order(request)
        before = {
            name
            for claim in request.claims
            for name, number in self._queued(claim.resource)
            if not (claim.shared and self.queue[name].claims[number].shared)
            and self.queue[name].agent != request.agent
            and self.order(self.queue[name]) < mine
        }
        return len(before) + 1

    def waiting_for(self, resource: str) -> list[LeaseRequest]:
        """Return the queued requests that overlap with a resource, in queue order."""
        found = {name for name, _ in self._queued(resource)}
        return sorted((self.queue[name] for name in found), key=self.order)

    def holding(self, resource: str) -> list[Lease]:
        """Return the leases that overlap with a resource, oldest first."""
        found = {name for name, _ in self._holding(resource)}
        return sorted((self.leases[name] for name in found), key=lambda lease: lease.seq)

    def blocking(self, request: LeaseRequest, holder: str) -> dict[str, tuple[str, ...]]:
        """Return the leases of an agent that block a request, each with the resources that do."""
        found: dict[str, set[int]] = {}
        for claim in request.claims:
            for name, number in self._holding(claim.resource):
                lease = self.leases[name]
                if lease.holder == holder and not (claim.shared and lease.claims[number].shared):
                    found.setdefault(name, set()).add(number)
        return {
            name: tuple([self.leases[name].claims[number].resource for number in sorted(found[name])])
            for name in self.by_agent.get(holder, ())
            if name in found
        }

    def contended_resources(self, request: LeaseRequest, depth: int) -> list[str]:
        """Return the resources that block a request and whose holders at least `depth` waits are for."""
        found: dict[str, None] = {}
        for claim in request.claims:
            for name, number in self._holding(claim.resource):
                lease = self.leases[name]
                if lease.holder == request.agent or len(self._waits.upon.get(lease.holder, ())) < depth:
                    continue
                held = lease.claims[number]
                if not (claim.shared and held.shared):
                    found[held.resource] = None
        return list(found)

    def contention(self, resource: str, but: str = "") -> Contention:
        """Return who waits for a resource held under this name; `but` leaves one request out."""
        held = [
            (self.leases[name].holder, self.leases[name].claims[number].shared)
            for name, number in self.patterns.held_as(resource)
        ]
        waiting: list[LeaseRequest] = []
        alone: set[str] = set()
        for name, number in self._queued(resource) if held else ():
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
        """Return the leases that cover an exact path, oldest first, each with the number of the claim that does."""
        keys = [key for used in self.patterns.covering(exact_pattern(path)) for key in used.held]
        found = [(self.leases[name], number) for name, number in keys]
        return sorted(found, key=lambda entry: (entry[0].seq, entry[1]))

    def settle_places(self, overtakes_max: int) -> None:
        """Compute the places of the unsettled requests; those without obstacles become ready."""
        for resource in self.touched:
            self.unsettled.update([(name, None) for name, _ in self._queued(resource)])
        self.touched.clear()
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
        """Return the agents before each unsettled request, in one pass over each resource's requests."""
        behind: dict[str, set[str]] = {name: set() for name in self.unsettled}
        resources = dict.fromkeys([claim.resource for name in self.unsettled for claim in self.queue[name].claims])
        orders: dict[str, tuple[int, int]] = {}
        for resource in resources:
            entries = self._queued(resource)
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

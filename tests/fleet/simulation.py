"""A fleet in virtual time: the real placement, views and leases, with a model of the database and of the hubs.

`Members` and `place` decide who should serve a project, `Watch` when a lease is over, both as in a hub. The model has
the database (the table of hubs, locks, epochs and leases), the time that opening and draining take, and what happens to
hubs: they join, leave, are killed, hang and return.
"""

import random
from collections import Counter, deque
from collections.abc import Set
from functools import cache

import pytest

from tests.soak import tally
from tocsin.fleet import members as members_module
from tocsin.fleet.members import Member, Members
from tocsin.fleet.placement import place
from tocsin.hub.config import HubsConfig, load_config
from tocsin.journal.postgres.ownership import Sighting, Watch
from tocsin.journal.terms import OwnershipTerms

__all__ = ["STEP_S", "SimulatedFleet", "SimulatedHub"]

#: Virtual time between two steps, seconds.
STEP_S = 0.25
#: Steps that the callers of a project take to leave it.
DRAIN_STEPS = 2


class Database:
    """The table of hubs, and for each project its lock, its epoch and its lease."""

    def __init__(self) -> None:
        self.now = 0.0
        self._hubs: dict[str, tuple[float, float, float]] = {}
        #: Hub that holds the lock of a project.
        self.holders: dict[str, SimulatedHub] = {}
        #: Hub that took a project last, and its epoch.
        self.owners: dict[str, tuple[SimulatedHub, int]] = {}

    def beat(self, hub: "SimulatedHub", lease_s: float) -> None:
        """Note that a hub works."""
        self._hubs[hub.address] = (hub.weight, lease_s, self.now)

    def leave(self, hub: "SimulatedHub") -> None:
        """Remove a hub from the table."""
        self._hubs.pop(hub.address, None)

    def look(self) -> list[Member]:
        """Return the hubs that work."""
        return [
            Member(address, address, weight)
            for address, (weight, lease_s, beat_at) in self._hubs.items()
            if beat_at > self.now - lease_s
        ]

    def is_gone(self, hub: "SimulatedHub") -> bool:
        """Tell whether a hub is in the table and has stopped working."""
        row = self._hubs.get(hub.address)
        return row is not None and row[2] <= self.now - row[1]

    def sighting(self, project: str, lease_s: float) -> Sighting | None:
        """Return the owner of a project as a hub that waits sees it."""
        if project not in self.owners:
            return None
        hub, epoch = self.owners[project]
        return Sighting(epoch, hub.address, hub.address, hub.renewals, lease_s)

    def take(self, project: str, hub: "SimulatedHub") -> int:
        """Give a project whose lock is free to a hub; return its epoch."""
        epoch = self.owners[project][1] + 1 if project in self.owners else 1
        self.holders[project], self.owners[project] = hub, (hub, epoch)
        return epoch


class SimulatedHub:
    """One hub."""

    def __init__(self, fleet: "SimulatedFleet", address: str, weight: float, phase_s: float) -> None:
        self.fleet = fleet
        self.address = address
        self.weight = weight
        self.members = Members(address)
        self.hung = self.leaving = False
        #: Epochs of the projects that it believes to own.
        self.owned: dict[str, int] = {}
        self.renewals = 0
        self._renewed_at = self._beat_at = fleet.database.now - phase_s
        self._draining: dict[str, int] = {}
        #: Projects to open, in the order in which `Projects` opens them: first come, first served.
        self._queue: deque[str] = deque()
        self._opening: dict[str, Watch] = {}

    def answers(self, project: str) -> bool:
        """Tell whether it would answer a call for a project now."""
        return self._may_answer and project in self.owned and project not in self._draining

    def answered(self) -> Set[str]:
        """Return the projects for which it would answer a call now."""
        return self.owned.keys() - self._draining.keys() if self._may_answer else frozenset()

    @property
    def _may_answer(self) -> bool:
        terms, database = self.fleet.terms, self.fleet.database
        return not self.hung and self._renewed_at + terms.lease_s - terms.renew_s > database.now

    def leave(self) -> None:
        """Begin to stop in order."""
        self.leaving = True
        self.members.leave()
        self.fleet.database.leave(self)
        self._reshare()

    def step(self) -> None:
        """Do what is to be done at this time."""
        database, terms, config = self.fleet.database, self.fleet.terms, self.fleet.config
        if database.now >= self._renewed_at + terms.renew_s:
            self._renew()
        if database.now >= self._beat_at + config.beat_s:
            self._beat_at = database.now
            self.see()
        for project, left in list(self._draining.items()):
            if left:
                self._draining[project] = left - 1
            else:
                del self._draining[project]
                self._release(project)
        while self._queue and len(self._opening) < self.fleet.opening_max:
            project = self._queue.popleft()
            if self.members.is_own(project) and project not in self.owned:
                self._opening[project] = Watch()
        for project, watch in list(self._opening.items()):
            if not self.members.is_own(project) or self.acquire(project, watch):
                del self._opening[project]

    def see(self) -> None:
        """Show that it works, and look at the others."""
        if not self.leaving:
            self.fleet.database.beat(self, self.fleet.config.lease_s)
        if self.members.see(self.fleet.database.look()):
            self._reshare()

    def _reshare(self) -> None:
        for project in self.owned:
            if not self.members.is_own(project):
                self._draining.setdefault(project, DRAIN_STEPS)
        if not self.leaving:
            waiting = {*self._queue, *self._opening}
            self._queue += [
                one
                for one in self.fleet.projects
                if self.members.is_own(one) and one not in self.owned and one not in waiting
            ]

    def _renew(self) -> None:
        """Renew all leases; give up what another hub has taken."""
        self._renewed_at = self.fleet.database.now
        self.renewals += 1
        for project, epoch in list(self.owned.items()):
            if self.fleet.database.owners[project] != (self, epoch):
                del self.owned[project]
                self._draining.pop(project, None)
                if self.members.is_own(project):
                    self._queue.append(project)

    def _release(self, project: str) -> None:
        """Close a project."""
        del self.owned[project]
        if self.fleet.database.holders.get(project) is self:
            del self.fleet.database.holders[project]
        if self.members.is_own(project):
            self._queue.append(project)

    def acquire(self, project: str, watch: Watch) -> bool:
        """Take the lock of a project if it is free, or its owner has hung for too long."""
        database, terms = self.fleet.database, self.fleet.terms
        holder = database.holders.get(project)
        seen = database.sighting(project, terms.lease_s)
        if holder is not None and seen is not None:
            if not (watch.is_over(seen, database.now) or database.is_gone(holder)):
                return False
            del database.holders[project]  # its session is ended
        self.owned[project] = database.take(project, self)
        self.fleet.check_alone(project)
        return True


class SimulatedFleet:
    """All hubs of a database; every step checks what must always hold."""

    def __init__(self, seed: int, projects: int) -> None:
        self.random = random.Random(seed)
        self.projects = [f"project-{number}" for number in range(projects)]
        self.database = Database()
        settings = load_config()
        self.config: HubsConfig = settings.hubs
        self.terms: OwnershipTerms = settings.ownership
        self.opening_max = settings.projects.opening_max
        self.hubs: list[SimulatedHub] = []
        self._made = 0
        #: For each project without a hub: the hub that should serve it, and since when it has waited for that one.
        self._unserved: dict[str, tuple[str, float]] = {}
        self._places: dict[str, str] = {}
        self._places_of: dict[str, float] = {}
        #: The hub that answers for each project, after the last step.
        self.owners: dict[str, str] = {}

    @property
    def working(self) -> list[SimulatedHub]:
        """Return the hubs that neither hang nor leave."""
        return [hub for hub in self.hubs if not hub.hung and not hub.leaving]

    @property
    def places(self) -> dict[str, str]:
        """Return the hub that should serve each project."""
        weights = {hub.address: hub.weight for hub in self.working}
        if weights != self._places_of:
            hubs = tuple(sorted(weights.items()))
            self._places_of, self._places = weights, {project: _placed(project, hubs) for project in self.projects}
        return self._places

    def bounds_s(self) -> dict[str, float]:
        """Return for each hub the longest time that a project may wait for it.

        In that time the hub notices that the former owner is gone, callers leave, and the hub opens its whole share,
        which depends on its weight.
        """
        change_s = self.config.lease_s + 2 * self.config.beat_s + (DRAIN_STEPS + 4) * STEP_S
        shares = Counter(self.places.values())
        return {hub: change_s + share / self.opening_max * STEP_S for hub, share in shares.items()}

    def join(self, weight: float = 1.0) -> SimulatedHub:
        """Start a hub; the others are notified."""
        self._made += 1
        phase_s = self.random.uniform(0, self.config.beat_s)
        hub = SimulatedHub(self, f"http://hub-{self._made}", weight, phase_s)
        self.hubs.append(hub)
        hub.see()
        self._notify()
        return hub

    def leave(self, hub: SimulatedHub) -> None:
        """Stop a hub in order; the others are notified."""
        hub.leave()
        self._notify()

    def kill(self, hub: SimulatedHub) -> None:
        """End a hub without warning: the database releases its locks."""
        self.hubs.remove(hub)
        for project in [one for one, holder in self.database.holders.items() if holder is hub]:
            del self.database.holders[project]

    def hang(self, hub: SimulatedHub) -> None:
        """Stop a hub from doing anything; its sessions stay."""
        hub.hung = True

    def resume(self, hub: SimulatedHub) -> None:
        """Let a hub go on."""
        hub.hung = False
        for project in hub.owned:
            self.check_alone(project)

    def _notify(self) -> None:
        for hub in self.working:
            hub.see()

    def check_alone(self, project: str) -> None:
        """Check that one hub at most answers for a project."""
        answering = [hub.address for hub in self.hubs if project in hub.owned and hub.answers(project)]
        assert len(answering) <= 1, f"{project} is served by {answering}"

    def step(self) -> None:
        """Let a step of time pass."""
        tally("simulated_steps")
        self.database.now += STEP_S
        for hub in list(self.hubs):
            if not hub.hung:
                hub.step()
            if hub.leaving and not hub.owned:
                self.hubs.remove(hub)
        self.owners = self._owners()
        self._check_served()

    def _check_served(self) -> None:
        """Check that no project has been without a hub for too long.

        The time begins anew when another hub should serve the project: it goes to the end of that hub's queue. Changes
        of the fleet that leave the project where it is make no difference.
        """
        if len(self.owners) == len(self.projects):
            self._unserved.clear()
            return
        now, bounds_s = self.database.now, self.bounds_s()
        for project, place_now in self.places.items():
            if project in self.owners:
                self._unserved.pop(project, None)
                continue
            place_then, since = self._unserved.get(project, ("", now))
            if place_then != place_now:
                since = now
                self._unserved[project] = place_now, since
            assert now - since <= bounds_s[place_now], f"{project} is without a hub for {now - since:g} s"

    def _owners(self) -> dict[str, str]:
        """Return the hub that answers for each project."""
        found: dict[str, str] = {}
        for hub in self.hubs:
            answered = hub.answered()
            assert found.keys().isdisjoint(answered), f"{hub.address} and another hub serve the same project"
            found.update(dict.fromkeys(answered, hub.address))
        return found

    def settle(self) -> dict[str, str]:
        """Let time pass until every project is served where it should be; return the owners."""
        until = self.database.now + 2 * max(self.bounds_s().values())
        wanted = self.places
        while self.database.now < until:
            self.step()
            if self.owners == wanted:
                return wanted
        raise AssertionError("the projects did not come to rest")

    def most_over_mean(self, owners: dict[str, str]) -> float:
        """Return the load of the most loaded hub, over its share."""
        load, weights = Counter(owners.values()), {hub.address: hub.weight for hub in self.working}
        total = sum(weights.values())
        return max(load[address] / (len(owners) * weight / total) for address, weight in weights.items() if weight)


@cache
def _placed(project: str, hubs: tuple[tuple[str, float], ...]) -> str:
    return place(project, dict(hubs))


@pytest.fixture
def remembered_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute each placement once: it is a function of its arguments, and all hubs of a fleet ask the same."""
    monkeypatch.setattr(members_module, "place", lambda project, hubs: _placed(project, tuple(sorted(hubs.items()))))

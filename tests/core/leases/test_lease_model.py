"""Leases held against an oracle that knows nothing of indexes, counts or events: plain lists, looked through each time.

The oracle restates the rules in the plainest way: who may have what, in which order the line is served, what is lent to
whom, and when time is over. Which circle is broken first is left to the exchange: the oracle sees for itself that it is
one, says who has to give way, and follows what was released.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.core.driver import SECOND, Team
from tests.soak import scaled
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import Problem
from tocsin.core.events import Event
from tocsin.core.protocol.priority import priority_name

AGENTS = ("a", "b", "c", "d")
#: Every file of a small world, and what each resource covers of it.
FILES = ("x", "y", "src/a", "src/b", "src/sub/a", "docs/a")
RESOURCES = ("x", "y", "src/**", "src/*", "src/a", "src/[bc]", "**/a", "docs/*")
OVERTAKES = 1


def covers(resource: str, file: str) -> bool:
    """Say what a resource covers, with none of the code under test."""
    if "**" not in resource:
        return resource.count("/") == file.count("/") and fnmatchcase(file, resource)
    if resource.startswith("**/"):
        return fnmatchcase(file.rsplit("/", 1)[-1], resource[3:])
    return file.startswith(resource[:-2])


COVERED = {resource: frozenset(file for file in FILES if covers(resource, file)) for resource in RESOURCES}


@dataclass
class Entry:
    """A lease or a request."""

    name: str
    agent: str
    #: What it wants, and whether it would share it.
    claims: dict[str, bool]
    level: int
    number: int
    until: int
    overtaken: int = 0


@dataclass
class Oracle:
    """Who holds what and who waits."""

    held: list[Entry] = field(default_factory=list)
    line: list[Entry] = field(default_factory=list)

    def clash(self, one: dict[str, bool], other: dict[str, bool]) -> bool:
        pairs = product(one.items(), other.items())
        return any(not (s and t) and COVERED[r] & COVERED[q] for (r, s), (q, t) in pairs)

    def holders(self, entry: Entry) -> set[str]:
        return {
            lease.agent for lease in self.held if lease.agent != entry.agent and self.clash(entry.claims, lease.claims)
        }

    def lent(self) -> dict[str, int]:
        """Work out what everyone inherits: raise until nothing changes."""
        levels: dict[str, int] = {}
        for _ in range(len(AGENTS) + 1):
            for entry in self.line:
                for holder in self.holders(entry):
                    level = max(entry.level, levels.get(entry.agent, -1))
                    levels[holder] = max(level, levels.get(holder, -1))
        return levels

    def victim(self, names: list[str]) -> Entry:
        """Say who gives way in a circle: the lowest, then the youngest; what the circle lends to itself counts not."""
        circle = [entry for entry in self.line if entry.name in names]
        agents = {entry.agent for entry in circle}

        def level(agent: str) -> int:
            lenders = {agent}
            lending: list[Entry] = []
            for _ in AGENTS:
                lending = [e for e in self.line if e.agent not in agents and self.holders(e) & lenders]
                lenders |= {entry.agent for entry in lending}
            return max(entry.level for entry in self.line if entry.agent == agent or entry in lending)

        return min(circle, key=lambda entry: (level(entry.agent), -entry.number))

    def order(self, entry: Entry) -> tuple[int, int]:
        return (-max(entry.level, self.lent().get(entry.agent, 0)), entry.number)

    def ahead(self, entry: Entry) -> list[Entry]:
        before = [other for other in self.line if other.agent != entry.agent and self.order(other) < self.order(entry)]
        return [other for other in before if self.clash(entry.claims, other.claims)]

    def reserves(self, other: Entry, entry: Entry) -> bool:
        if other.overtaken >= OVERTAKES:
            return True
        taken = {r: s for r, s in other.claims.items() if self.holders(Entry("", other.agent, {r: s}, 0, 0, 0))}
        return self.clash(taken, entry.claims)

    def free(self, entry: Entry) -> bool:
        return not self.holders(entry) and not any(self.reserves(other, entry) for other in self.ahead(entry))

    def grant(self, entry: Entry, now: int, ttl: int) -> None:
        for other in self.ahead(entry):
            other.overtaken += 1
        self.line = [other for other in self.line if other is not entry]
        self.held.append(Entry(entry.name, entry.agent, dict(entry.claims), entry.level, entry.number, now + ttl))


TTL = 50
#: Whether to wait is mostly yes: lines are what is worth seeing.
WAITS = st.sampled_from((True, True, True, True, False))
CLAIMS = st.dictionaries(st.sampled_from(RESOURCES), st.booleans(), min_size=1, max_size=2)

ASKS = st.tuples(st.sampled_from(AGENTS), CLAIMS, st.integers(0, 3), WAITS)


class LeaseMachine(RuleBasedStateMachine):
    """A team and the oracle, asked the same."""

    @initialize()
    def begin(self) -> None:
        self.team = Team(
            f"leases: {{ttl_default_s: {TTL}, warn_before_s: 5, wait_default_s: 40, overtakes_max: {OVERTAKES}}}"
        )
        for name in AGENTS:
            self.team.register(name)
        self.team.register("boss", "Director", "director")
        self.oracle = Oracle()
        self.number = 0

    def follow(self, since: int) -> None:
        """Let the oracle break the deadlocks that were found, if they are ones, and serve the line in its own order."""
        for event in self.team.events[since:]:
            self.follow_deadlock(event)
            if isinstance(event, ev.LeaseGranted):
                first = min((entry for entry in self.oracle.line if self.oracle.free(entry)), key=self.oracle.order)
                assert first.name == event.lease
                self.oracle.grant(first, event.at, TTL * SECOND)
        assert not any(self.oracle.free(entry) for entry in self.oracle.line), "somebody waits for nothing"

    def follow_deadlock(self, event: Event) -> None:
        """Let the oracle break a deadlock that was found, if it is one, and take what its victim released."""
        if isinstance(event, ev.DeadlockFound):
            self.check_circle(event)
            self.oracle.line = [entry for entry in self.oracle.line if f"lease:{entry.name}" != event.refused]
        elif isinstance(event, ev.LeaseReleased) and event.reason == "deadlock":
            (lease,) = [entry for entry in self.oracle.held if entry.name == event.lease]
            self.drop(lease, event.resources)

    def drop(self, lease: Entry, resources: tuple[str, ...]) -> None:
        lease.claims = {name: shared for name, shared in lease.claims.items() if name not in resources}
        self.oracle.held = [entry for entry in self.oracle.held if entry.claims]

    def check_circle(self, event: ev.DeadlockFound) -> None:
        """See for oneself that each in the circle waits for the next."""
        circle = [*event.cycle, event.cycle[0]]
        for waiter, other, label in zip(circle, circle[1:], event.waits, strict=False):
            (entry,) = [entry for entry in self.oracle.line if f"lease:{entry.name}" == label]
            assert entry.agent == waiter
            blockers = self.oracle.holders(entry) | {
                ahead.agent for ahead in self.oracle.ahead(entry) if self.oracle.reserves(ahead, entry)
            }
            assert other in blockers
        victim = self.oracle.victim([label.removeprefix("lease:") for label in event.waits])
        assert (event.victim, event.refused) == (victim.agent, f"lease:{victim.name}")

    @rule(asks=st.lists(ASKS, min_size=1, max_size=4))
    def acquire(self, asks: list[tuple[str, dict[str, bool], int, bool]]) -> None:
        for ask in asks:
            self.ask(*ask)
            self.the_same_holds()

    def ask(self, agent: str, claims: dict[str, bool], level: int, wait: bool) -> None:
        self.number += 1
        since = len(self.team.events)
        name = f"lease-{self.number}"
        exclusive = tuple(r for r, shared in claims.items() if not shared)
        shared = tuple(r for r, shared in claims.items() if shared)
        command = cmd.AcquireLease(exclusive, shared, None, None if wait else 0, priority_name(level), name)
        reply = self.team.handle(command, self.team.caller(agent)).reply
        entry = Entry(name, agent, claims, level, self.number, self.team.now + 40 * SECOND)
        free = self.oracle.free(entry)
        if free:
            self.oracle.grant(entry, self.team.now, TTL * SECOND)
            self.follow(since + 1)
            if isinstance(reply, Problem):
                assert reply.code == "E_LEASE_004"
                assert all(lease.name != name for lease in self.oracle.held)
            else:
                assert isinstance(reply, cmd.LeaseRecord)
                assert reply.state == "held"
            return
        if not wait:
            assert isinstance(reply, Problem)
            assert reply.code == "E_LEASE_002"
            assert set(reply.facts["holders"]) == self.oracle.holders(entry)
            return
        self.oracle.line.append(entry)
        self.follow(since)
        if isinstance(reply, Problem):
            assert reply.code == "E_LEASE_004"
        elif isinstance(reply, cmd.LeaseRecord) and reply.state == "waiting":
            assert set(reply.holders) == self.oracle.holders(entry)
            assert reply.place == len(self.oracle.ahead(entry)) + 1

    @precondition(lambda self: self.oracle.held)
    @rule(data=st.data(), count=st.integers(1, 3))
    def release(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            if not self.oracle.held:
                return
            self.release_one(data)
            self.the_same_holds()

    def release_one(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.oracle.held))
        since = len(self.team.events)
        if data.draw(st.booleans()):
            resources = (data.draw(st.sampled_from(sorted(lease.claims))),)
            self.team.ask(cmd.ReleaseLease(resources=resources), lease.agent, cmd.Released)
            for other in [entry for entry in self.oracle.held if entry.agent == lease.agent]:
                self.drop(other, resources)
        else:
            self.team.ask(cmd.ReleaseLease(lease.name), lease.agent, cmd.Released)
            self.drop(lease, tuple(lease.claims))
        self.follow(since)

    @precondition(lambda self: self.oracle.held)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.oracle.held))
        self.team.hold(cmd.RenewLease(lease.name), lease.agent)
        lease.until = self.team.now + TTL * SECOND

    @precondition(lambda self: self.oracle.line)
    @rule(data=st.data())
    def leave_the_line(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.oracle.line))
        since = len(self.team.events)
        self.team.ask(cmd.ReleaseLease(entry.name), entry.agent, cmd.Released)
        self.oracle.line.remove(entry)
        self.follow(since)

    @precondition(lambda self: self.oracle.held)
    @rule(data=st.data())
    def take_away(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.oracle.held))
        since = len(self.team.events)
        self.team.ask(cmd.ForceRelease(lease.name, "the model says so"), "boss", cmd.Released)
        self.drop(lease, tuple(lease.claims))
        self.follow(since)

    @rule(agent=st.sampled_from(AGENTS), resource=st.sampled_from(RESOURCES))
    def release_by_name(self, agent: str, resource: str) -> None:
        mine = [lease for lease in self.oracle.held if lease.agent == agent and resource in lease.claims]
        if not mine:
            assert self.team.refused(cmd.ReleaseLease(resources=(resource,)), agent).code == "E_LEASE_001"

    @rule(seconds=st.sampled_from((1, 7, 20, 45)))
    def let_time_pass(self, seconds: int) -> None:
        """Go from one moment at which something ends to the next; what ends at one moment ends together."""
        end = self.team.now + seconds * SECOND
        while self.team.now < end:
            ends = [entry.until for entry in (*self.oracle.held, *self.oracle.line)]
            # A timer is late by up to its granularity, and never early.
            moment = min([end, *(at + SECOND // 10 for at in ends)])
            since = len(self.team.events)
            self.team.advance((moment - self.team.now) / SECOND)
            over = {
                entry.name for entry in (*self.oracle.held, *self.oracle.line) if entry.until + SECOND // 10 <= moment
            }
            told = {
                event.lease
                for event in self.team.events[since:]
                if isinstance(event, ev.LeaseReclaimed)
                or (isinstance(event, ev.LeaseWaitEnded) and event.reason != "deadlock")
            }
            self.oracle.held = [entry for entry in self.oracle.held if entry.name not in told]
            self.oracle.line = [entry for entry in self.oracle.line if entry.name not in told]
            assert over <= told
            self.follow_time(since)

    def follow_time(self, since: int) -> None:
        """Follow what one moment led to: what ended did so before anything was granted."""
        for event in self.team.events[since:]:
            self.follow_deadlock(event)
            if isinstance(event, ev.LeaseGranted):
                (entry,) = [entry for entry in self.oracle.line if entry.name == event.lease]
                self.oracle.grant(entry, event.at, TTL * SECOND)
        assert not any(self.oracle.free(entry) for entry in self.oracle.line), "somebody waits for nothing"

    @invariant()
    def the_same_holds(self) -> None:
        state = self.team.exchange.state
        book = state.leases
        held = {
            (lease.lease, lease.holder, frozenset((claim.resource, claim.shared) for claim in lease.claims))
            for lease in book.leases.values()
        }
        assert held == {(entry.name, entry.agent, frozenset(entry.claims.items())) for entry in self.oracle.held}
        assert {(r.lease, r.overtaken) for r in book.queue.values()} == {
            (e.name, e.overtaken) for e in self.oracle.line
        }
        assert state.inherited == self.oracle.lent()
        order = [request.lease for request in sorted(book.queue.values(), key=book.order)]
        assert order == [entry.name for entry in sorted(self.oracle.line, key=self.oracle.order)]

    def teardown(self) -> None:
        if hasattr(self, "team"):
            self.team.check_replay()


LeaseMachine.TestCase.settings = settings(
    settings.get_profile(settings.get_current_profile_name()), max_examples=scaled(30, 1500), stateful_step_count=30
)
TestLeases = LeaseMachine.TestCase


def test_a_deadlock_that_the_end_of_a_lease_closes_is_followed() -> None:
    """The grant of what has lapsed closes a circle: its new holder waits behind the agent that it now holds up."""
    machine = LeaseMachine()
    machine.begin()
    machine.ask("b", {"x": False}, 0, True)
    machine.let_time_pass(45)
    for agent, claims in (
        ("c", {"y": False}),
        ("b", {"x": False, "y": False}),
        ("a", {"x": False}),
        ("a", {"x": False}),
    ):
        machine.ask(agent, claims, 0, True)
    machine.let_time_pass(7)
    machine.the_same_holds()
    assert ev.DeadlockFound in map(type, machine.team.events)
    assert [lease.name for lease in machine.oracle.held] == ["lease-2"]
    assert [request.name for request in machine.oracle.line] == ["lease-3"]

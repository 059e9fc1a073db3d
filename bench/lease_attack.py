"""The worst that leases can be made to cost: everything at the policy's limits, with patterns made to be slow.

Each attack is a shape of open patterns and of names. Its team first takes all open patterns that the policy allows, one
agent holding and the others waiting for it, each with as many names as the last of them may be compared with; then
other agents ask for as many names as a request may have, waiting and not waiting. At the end the queue is drained by
releases, and the history is replayed. Every decision and every replayed event is timed, in processor time.
"""

import gc
import string
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bench.core import Ids
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.errors import Problem
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.leases.limits import size_of
from tocsin.core.policy import Policy, document_of
from tocsin.policies import default_policy

__all__ = ["ATTACKS", "Attack", "attack"]

_START = 1_762_940_000 * 1_000_000
_DIGITS = string.ascii_lowercase


def _code(number: int) -> str:
    """Return a number in three letters."""
    return "".join(_DIGITS[number // 26**place % 26] for place in range(3))


@dataclass(frozen=True)
class Attack:
    """A shape of patterns: open ones and names by their number, the names in a given length."""

    name: str
    pattern: Callable[[int], str]
    resource: Callable[[int, int], str]


#: Names of one long segment, and runs that fit everywhere but for the last character.
LONG = Attack(
    "long",
    lambda number: f"*{'a' * 36}?{_code(number)}*a",
    lambda number, length: "a" * (length - 5) + _code(number) + "aa",
)
#: Classes and question marks between stars.
CLASSES = Attack(
    "classes",
    lambda number: f"*[a-y]?{'a' * 24}{_code(number)}[b-z]*",
    lambda number, length: "a" * (length - 5) + _code(number) + "aa",
)
#: As many segments as a name may have, and runs of segments that fit everywhere but for the last one.
DEEP = Attack(
    "deep",
    lambda number: f"**/{'a/' * 15}?b{_code(number)}/**/a",
    lambda number, length: "/".join(["a"] * (length // 16 - 2) + [_code(number), "a"]),
)
#: Globs of several stars in each segment.
STARS = Attack(
    "stars",
    lambda number: f"**/a*a?*{_code(number)}*a/**",
    lambda number, length: "/".join(
        [f"a{_code(number)[:2]}{_code(place)}a" for place in range(length // 16 - 1)] + ["ab"]
    ),
)
#: All overlap with all.
BROAD = Attack(
    "broad",
    lambda number: f"**/*a*{_code(number)[0]}*/**",
    lambda number, length: "/".join(["a" * (length // 2 - 14), string.ascii_lowercase[:13], _code(number), "a" * 8]),
)
ATTACKS = (LONG, CLASSES, DEEP, STARS, BROAD)


@dataclass
class _Team:
    """An exchange under attack."""

    policy: Policy
    exchange: Exchange = field(default_factory=lambda: Exchange(Ids()))
    now: int = _START
    events: list[Event] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)

    def ask(self, what: str, command: cmd.Command, caller: Caller) -> object:
        """Decide a command, and keep the longest time of its kind, in processor time."""
        self.now += 1000
        began = time.thread_time()
        outcome = self.exchange.handle(command, caller, self.now)
        self.note(what, time.thread_time() - began)
        self.events += outcome.events
        return outcome.reply

    def note(self, what: str, seconds: float) -> None:
        self.spent[what] = max(self.spent.get(what, 0.0), seconds)


def attack(shape: Attack, policy: Policy | None = None) -> dict[str, float]:
    """Run an attack, and return the longest time of each kind of decision, seconds."""
    team = _Team(policy or default_policy())
    limits = team.policy.leases
    gc.collect()
    gc.freeze()
    team.ask("setup", cmd.AdoptPolicy(document_of(team.policy), "bench"), SYSTEM)
    crowd = limits.open_max // limits.open_per_agent_max
    callers = [Caller(f"agent-{number:03}", "primary") for number in range(2 * crowd)]
    for caller in callers:
        team.ask("setup", cmd.RegisterAgent("Implementation", ("1.1.0",)), caller)
    numbers = iter(range(10**6))
    length = limits.characters_max // limits.resources_max
    leases: list[tuple[str, Caller]] = []

    def names(count: int) -> Iterator[str]:
        for _ in range(count):
            yield shape.resource(next(numbers), length)[:length]

    # As many names per request as let the last request with open patterns reach just as many as it may.
    requests = limits.open_max // limits.open_per_lease_max
    reach = limits.reach_max // limits.open_per_lease_max // length // requests
    for number in range(requests):
        mine = callers[number * crowd // requests]
        patterns = [shape.pattern(number * limits.open_per_lease_max + n) for n in range(limits.open_per_lease_max)]
        few = (limits.characters_max - sum(map(size_of, patterns))) // length
        few = min(few, reach, limits.resources_max - limits.open_per_lease_max)
        command = cmd.AcquireLease((*patterns, *names(few)), wait_s=600)
        reply = team.ask("acquire", command, mine)
        if isinstance(reply, Problem):
            raise RuntimeError(f"{shape.name}: the request is within the limits: {reply.detail}")
        if isinstance(reply, cmd.LeaseRecord):
            leases.append((reply.lease, mine))
    book = team.exchange.state.leases
    if book.open_count != limits.open_max:
        raise RuntimeError(f"{shape.name}: {book.open_count} open patterns, not {limits.open_max}")
    for caller in callers[crowd:]:
        reply = team.ask("join", cmd.AcquireLease(tuple(names(limits.resources_max)), wait_s=600), caller)
        if isinstance(reply, cmd.LeaseRecord):
            leases.append((reply.lease, caller))
        refused = team.ask("refuse", cmd.AcquireLease(tuple(names(limits.resources_max)), wait_s=0), caller)
        del refused
    for lease, caller in leases[:4]:
        team.ask("renew", cmd.RenewLease(lease), caller)
    began = time.thread_time()
    book.covering(shape.resource(0, limits.resource_length_max))
    team.note("cover", time.thread_time() - began)
    for lease, caller in leases:
        team.ask("release", cmd.ReleaseLease(lease), caller)
    copy = Exchange(Ids())
    for event in team.events:
        began = time.thread_time()
        copy.apply(event)
        team.note("replay", time.thread_time() - began)
    del team.spent["setup"]
    return team.spent

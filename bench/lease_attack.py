"""The worst that leases can be made to cost: everything at the policy's limits, with patterns made to be slow.

Each attack is a shape of open patterns and of names. First an agent holds as many names as one request with open
patterns may be compared with. Then others take all the wildcards of open patterns that the policy allows, the last of
them with as many names as fit, holding or waiting. Then other agents ask for as many names as a request may have,
waiting and not waiting. At the end the queue is drained by releases, and the history is replayed. Every decision and
every replayed event is timed, in processor time.
"""

import gc
import string
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.core import Ids
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.errors import Problem
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.leases.globs import parse_pattern
from tocsin.core.leases.limits import size_of
from tocsin.core.policy import Policy, document_of
from tocsin.policies import default_policy
from tocsin.wire.leases import PATH_LENGTH_MAX

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
    #: Length of a name, characters; null for as long as the names of a full request may be.
    length: int | None = None


def _segments(number: int, length: int) -> str:
    """Return a name of segments that are as short as they are counted for."""
    return "/".join([f"a{_code(number)[:2]}{_code(place)}a" for place in range(length // 16 - 1)] + ["ab"])


def _letters(number: int, length: int) -> str:
    """Return a name of one segment that has few letters."""
    return "a" * (length - 5) + _code(number) + "aa"


#: What teams use: all overlap, and there are as many pairs as there can be.
ORDINARY = Attack(
    "ordinary",
    lambda number: f"**/{'a' * (number % 32)}*{'.py' if number < 32 else 'y'}",
    lambda number, length: "a" * 32 + _code(number) + ".py",
    38,
)
#: Names in any folder, one wildcard each, against the shortest names.
NAMED = Attack(
    "named", lambda number: f"**/{_code(number)}", lambda number, length: _code(number % 64) + _code(number), 16
)
#: Folders in any folder.
FOLDERS = Attack("folders", lambda number: f"**/a*{_code(number)}/**", _segments)
#: Names of one long segment, and runs that fit everywhere but for the last character.
LONG = Attack("long", lambda number: f"*{'a' * 36}?{_code(number)}*a", _letters)
#: The same with a class, where names have many characters, all of them wide.
WIDE = Attack(
    "wide",
    lambda number: f"*[a-y]{_code(number)}*",
    lambda number, length: "".join([chr(0x4E00 + (place * 7 + number) % 20_000) for place in range(length - 1)]) + "a",
)
#: Classes and question marks between stars.
CLASSES = Attack("classes", lambda number: f"*[a-y]?{'a' * 24}{_code(number)}[b-z]*", _letters)
#: As many segments as a name may have, and runs of segments that fit everywhere but for the last one.
DEEP = Attack(
    "deep",
    lambda number: f"**/{'a/' * 15}?b{_code(number)}/**/a",
    lambda number, length: "/".join(["a"] * (length // 16 - 2) + [_code(number), "a"]),
)
#: Globs of several stars in each segment.
STARS = Attack("stars", lambda number: f"**/a*a?*{_code(number)}*a/**", _segments)
#: The same, with names of as many segments as a name may have.
STARS_DEEP = Attack("stars_deep", lambda number: f"**/*a?*a{_code(number)}*/**", _segments, 512)
#: As many wildcards as a pattern may have.
FULL = Attack("full", lambda number: f"*{'a' * 24}?{_code(number)}*?*?*?a", _letters)
#: All overlap with all.
BROAD = Attack(
    "broad",
    lambda number: f"**/*a*{_code(number)[0]}*/**",
    lambda number, length: "/".join(["a" * (length // 2 - 14), string.ascii_lowercase[:13], _code(number), "a" * 8]),
)
ATTACKS = (ORDINARY, NAMED, FOLDERS, LONG, WIDE, CLASSES, DEEP, STARS, STARS_DEEP, FULL, BROAD)


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
    callers = [Caller(f"agent-{number:03}", "primary") for number in range(64)]
    for caller in callers:
        team.ask("setup", cmd.RegisterAgent("Implementation", ("1.1.0",)), caller)
    owner, *others = callers
    numbers = iter(range(10**6))
    length = shape.length or limits.characters_max // limits.resources_max
    leases: list[tuple[str, Caller]] = []

    def acquire(what: str, resources: tuple[str, ...], caller: Caller) -> None:
        reply = team.ask(what, cmd.AcquireLease(resources, wait_s=600), caller)
        if isinstance(reply, Problem):
            raise RuntimeError(f"{shape.name}: the request is within the limits: {reply.detail}")
        if isinstance(reply, cmd.LeaseRecord):
            leases.append((reply.lease, caller))

    def names(characters: int, most: int) -> tuple[str, ...]:
        """Return names of so many characters together."""
        found: list[str] = []
        while characters > 0 and len(found) < most:
            found.append(shape.resource(next(numbers), length))
            characters -= size_of(found[-1])
        return tuple(found if characters >= 0 else found[:-1])

    wildcards = parse_pattern(shape.pattern(0)).wildcards
    per_lease = limits.wildcards_per_lease_max // wildcards
    left = limits.reach_max // (per_lease * wildcards)
    while taken := names(min(left, limits.characters_max), limits.resources_max):
        acquire("names", taken, owner)
        left -= sum(map(size_of, taken))
    crowd = _spread(limits.wildcards_in_all_max // wildcards, per_lease, limits.wildcards_per_agent_max // wildcards)
    for agent, first, beyond in crowd:
        patterns = tuple([shape.pattern(number) for number in range(first, beyond)])
        room = limits.characters_max - sum(map(size_of, patterns))
        last = (agent, first, beyond) == crowd[-1]
        acquire(
            "acquire", (*patterns, *names(room, limits.resources_max - len(patterns) if last else 0)), others[agent]
        )
    book = team.exchange.state.leases
    if book.wildcards <= limits.wildcards_in_all_max - wildcards:
        raise RuntimeError(f"{shape.name}: {book.wildcards} wildcards, not {limits.wildcards_in_all_max}")
    for caller in others[-2:]:
        acquire("join", names(limits.characters_max, limits.resources_max), caller)
        most = names(limits.characters_max, limits.resources_max)
        team.ask("refuse", cmd.AcquireLease(most, wait_s=0), caller)
    for lease, caller in leases[-6:-2]:
        team.ask("renew", cmd.RenewLease(lease), caller)
    began = time.thread_time()
    book.covering(shape.resource(0, PATH_LENGTH_MAX))
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


def _spread(count: int, per_lease: int, per_agent: int) -> list[tuple[int, int, int]]:
    """Return the leases that have so many open patterns: the agent of each, and the range of its patterns."""
    found: list[tuple[int, int, int]] = []
    for agent, start in enumerate(range(0, count, per_agent)):
        end = min(start + per_agent, count)
        found += [(agent, first, min(first + per_lease, end)) for first in range(start, end, per_lease)]
    return found

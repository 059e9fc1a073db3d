"""Tables of refusals: how to be refused, and every field of the problem that must come back."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core.commands import Caller, Command
from tocsin.core.errors import CATALOGUE, Problem

__all__ = ["LONG", "Refusal", "check", "ids_of", "refused_as"]

#: A name that is longer than a problem may repeat.
LONG = "x" * 300


class Refusal(NamedTuple):
    """One way to be refused."""

    name: str
    ask: Callable[[Team], Problem]
    code: str
    #: Values that the sentence must name.
    says: tuple[str, ...]
    field: str | None = None
    found: str | None = None
    expected: str | None = None
    #: By default what the catalogue says of its code.
    retryable: bool | None = None
    retry_after_s: float | None = None
    facts: Mapping[str, object] = {}
    #: YAML that changes the default policy.
    policy: str | None = None


def ids_of(rows: list[Refusal]) -> list[str]:
    """Return plain ids of the tests of some rows."""
    return [re.sub("[^a-z0-9]+", "-", row.name.lower()) for row in rows]


def check(new_team: NewTeam, row: Refusal) -> None:
    """Ask, and compare every field of the problem; of its sentence, the values in it."""
    team = new_team(row.policy)
    for agent, kind, role in (
        ("manager_001", "Manager", "primary"),
        ("impl_001", "Implementation", "primary"),
        ("impl_002", "Implementation", "primary"),
        ("boss", "Director", "director"),
        ("twin", "Implementation", "clone"),
    ):
        team.register(agent, kind, role)
    problem = row.ask(team)
    retryable = CATALOGUE[row.code].retryable if row.retryable is None else row.retryable
    facts = dict(row.facts)
    wanted = Problem(row.code, "", row.field, row.found, row.expected, retryable, row.retry_after_s, facts)
    assert msgspec.structs.replace(problem, detail="") == wanted, problem
    for value in row.says:
        assert value in problem.detail, problem.detail
    if problem.found and problem.found in LONG:
        assert problem.found + "x" not in problem.detail, "the sentence repeats no more of a long name than `found`"


def refused_as(team: Team, command: Command, caller: Caller) -> Problem:
    """Ask as any caller, and expect to be refused."""
    reply = team.handle(command, caller).reply
    assert isinstance(reply, Problem), reply
    return reply

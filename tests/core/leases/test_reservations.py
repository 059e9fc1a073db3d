"""Requests that wait for nobody who holds, but for those before them in the queue."""

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd


def test_a_refusal_names_all_for_whom_it_is_reserved(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two", "three", "four"):
        team.register(agent)
    team.hold(cmd.AcquireLease((), ("a",)), "one")
    for agent in ("two", "three"):
        team.wait_for_lease(cmd.AcquireLease(("a",)), agent)
    problem = team.refused(cmd.AcquireLease((), ("a",), wait_s=0), "four")
    assert problem.detail == "a is reserved for three, two"
    assert problem.facts == {"holders": [], "ahead": ["three", "two"]}

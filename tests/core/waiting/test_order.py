"""What is decided about waits does not depend on the order in which a rebuilt state holds them."""

from copy import copy
from itertools import permutations

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.waiting.graph import Wait, WaitGraph


def wait(seq: int, waiter: str, *on: str) -> Wait:
    return Wait(waiter, "request", f"r{seq}", seq, 1, seq, False, dict.fromkeys(on, 1))


def test_a_deadlock_is_the_same_in_any_order_of_the_waits() -> None:
    """Ada waits for bob twice, and for cat, who waits for bob; bob waits for ada."""
    waits = [wait(1, "ada", "bob"), wait(2, "ada", "bob", "cat"), wait(3, "cat", "bob"), wait(4, "bob", "ada")]
    found = set()
    for order in permutations(waits):
        graph = WaitGraph()
        for each in order:
            graph.add(copy(each))
        graph.suspects.clear()
        graph.suspects["bob"] = None  # The last one, as after a rebuild.
        found.add(tuple(each.label for each in graph.find_deadlock()))
    assert found == {("request:r4", "request:r1")}


def test_agents_inherit_in_the_order_of_their_names(new_team: NewTeam) -> None:
    team = new_team()
    for name in ("zoe", "amy", "bea"):
        team.register(name, "AdHoc")
    for name in ("zoe", "amy"):
        team.ask(cmd.AcquireLease(shared=("gpu",)), name, cmd.LeaseRecord)
    team.ask(cmd.AcquireLease(exclusive=("gpu",), priority="Blocking"), "bea", cmd.LeaseRecord)
    assert [event.agent for event in team.happened(ev.PriorityInherited)] == ["amy", "zoe"]

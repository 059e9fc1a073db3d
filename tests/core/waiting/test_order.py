"""What is decided about waits does not depend on the order in which a rebuilt state holds them."""

import os
from copy import copy
from itertools import permutations
from typing import Any

import pytest

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


def test_the_deadlock_among_several_suspects_is_found() -> None:
    """Eve waits for fay, who moves on; dan waits for ada, who is in a deadlock with bob, but nobody waits for dan."""
    graph = WaitGraph()
    for each in [wait(1, "fay", "gil"), wait(2, "ada", "bob"), wait(3, "dan", "ada"), wait(4, "eve", "fay")]:
        graph.add(each)
    graph.add(wait(5, "bob", "ada"))
    assert list(graph.suspects) == ["dan", "eve", "bob"]
    assert [each.label for each in graph.find_deadlock()] == ["request:r5", "request:r2"]
    assert list(graph.suspects) == ["dan", "eve", "bob"]  # They stay until the deadlock is resolved.


def test_several_suspects_without_a_deadlock_are_cleared() -> None:
    graph = WaitGraph()
    for each in [wait(1, "fay", "gil"), wait(2, "eve", "fay"), wait(3, "dan", "eve")]:
        graph.add(each)
    assert list(graph.suspects) == ["eve", "dan"]
    assert graph.find_deadlock() == []
    assert not graph.suspects


def test_agents_inherit_in_the_order_of_their_names(new_team: NewTeam) -> None:
    team = new_team()
    for name in ("zoe", "amy", "bea"):
        team.register(name, "AdHoc")
    for name in ("zoe", "amy"):
        team.ask(cmd.AcquireLease(shared=("gpu",)), name, cmd.LeaseRecord)
    team.ask(cmd.AcquireLease(exclusive=("gpu",), priority="Blocking"), "bea", cmd.LeaseRecord)
    assert [event.agent for event in team.happened(ev.PriorityInherited)] == ["amy", "zoe"]


class Counted(dict[str, dict[str, Wait]]):
    """Counts the agents whose waits are looked up."""

    looked_up = 0

    def get(self, *about: Any) -> Any:
        self.looked_up += 1
        return super().get(*about)


@pytest.mark.skipif(os.environ.get("TOCSIN_FORM") == "compiled", reason="compiled code does not call an overridden get")
def test_the_search_ends_with_the_shorter_way() -> None:
    """A thousand agents are ahead of ada, but only bob waits for her; in the end the last of them waits for bob."""
    graph = WaitGraph()
    for seq in range(1000):
        graph.add(wait(seq, f"a{seq:03d}", f"a{seq + 1:03d}"))
    graph.add(wait(1001, "bob", "ada"))
    graph.suspects.clear()
    graph.by_waiter = counted = Counted(graph.by_waiter)
    graph.add(wait(1002, "ada", "a000"))
    assert list(graph.suspects) == ["ada"]
    counted.looked_up = 0
    assert graph.find_deadlock() == []
    assert counted.looked_up < 10
    graph.add(wait(1003, "a1000", "bob"))
    assert len(graph.find_deadlock()) == 1003

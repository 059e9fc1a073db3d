"""One graph over every kind of waiting: deadlocks are broken when they close, and priority is lent exactly."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.conftest import NewTeam
from tests.core.driver import CountedIds, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.decision import Decision
from tocsin.core.protocol.priority import Priority
from tocsin.core.waiting import waits
from tocsin.core.waiting.graph import Wait, WaitGraph
from tocsin.core.waiting.inheritance import inherited_levels
from tocsin.core.waiting.resolution import settle

INFO, COORDINATE, BLOCKING, CRITICAL, OVERRIDE = Priority


@pytest.fixture(autouse=True)
def errands() -> Iterator[None]:
    """Let there be a kind of waiting that nobody else owns."""

    def refuse(decision: Decision, wait: Wait, detail: str) -> None:
        waits.end_wait(decision, wait.kind, wait.ref, wait.waiter, "deadlock")

    waits.BREAKERS["errand"] = refuse
    yield
    del waits.BREAKERS["errand"]


@contextmanager
def deciding(team: Team) -> Iterator[Decision]:
    """Decide something as an owner of waits does, and let everything follow."""
    decision = Decision(team.exchange.state, team.exchange.apply, SYSTEM, team.now, CountedIds())
    yield decision
    settle(decision)
    team.events += decision.events


def wait(team: Team, waiter: str, *on: str, ref: str = "", level: int = COORDINATE, any_of: bool = False) -> None:
    with deciding(team) as decision:
        waits.begin_wait(decision, waiter, "errand", ref or f"{waiter}>{on[0]}", on=on, level=level, any_of=any_of)


def stop(team: Team, waiter: str, ref: str) -> None:
    with deciding(team) as decision:
        assert waits.end_wait(decision, "errand", ref, waiter)


@pytest.fixture
def crew(new_team: NewTeam) -> Team:
    team = new_team()
    team.register("boss", "Director", "director")
    for name in ("a", "b", "c", "d"):
        team.register(name)
    return team


def test_a_waiter_lends_and_takes_back(crew: Team) -> None:
    wait(crew, "a", "b", level=BLOCKING)
    assert crew.exchange.state.inherited == {"b": BLOCKING}
    (event,) = crew.happened(ev.PriorityInherited)
    assert (event.agent, event.old_level, event.new_level) == ("b", None, BLOCKING)
    assert (event.waiter, event.through) == ("a", "errand:a>b")
    stop(crew, "a", "a>b")
    assert crew.exchange.state.inherited == {}
    (restored,) = crew.happened(ev.PriorityRestored)
    assert (restored.agent, restored.old_level, restored.new_level) == ("b", BLOCKING, None)


def test_priority_goes_through_chains_and_falls_back_to_the_next(crew: Team) -> None:
    wait(crew, "b", "c", level=INFO)
    wait(crew, "c", "d", level=COORDINATE)
    wait(crew, "a", "b", level=CRITICAL)
    assert crew.exchange.state.inherited == {"b": CRITICAL, "c": CRITICAL, "d": CRITICAL}
    stop(crew, "a", "a>b")
    assert crew.exchange.state.inherited == {"c": INFO, "d": COORDINATE}


def test_a_circle_is_broken_in_the_decision_that_closes_it(crew: Team) -> None:
    wait(crew, "a", "b", level=BLOCKING)
    wait(crew, "b", "c", level=COORDINATE)
    wait(crew, "c", "a", level=CRITICAL)
    (found,) = crew.happened(ev.DeadlockFound)
    assert found.cycle == ("c", "a", "b")
    assert found.waits == ("errand:c>a", "errand:a>b", "errand:b>c")
    assert found.levels == (CRITICAL, BLOCKING, COORDINATE)
    assert (found.victim, found.refused) == ("b", "errand:b>c")
    assert [wait.waiter for wait in crew.exchange.state.waits.waits.values()] == ["a", "c"]
    assert crew.exchange.state.inherited == {"a": CRITICAL, "b": CRITICAL}


def test_the_youngest_wait_gives_way_among_equals(crew: Team) -> None:
    wait(crew, "a", "b")
    wait(crew, "b", "a")
    (found,) = crew.happened(ev.DeadlockFound)
    assert found.victim == "b"


def test_what_comes_from_outside_the_circle_counts(crew: Team) -> None:
    wait(crew, "d", "b", level=CRITICAL)
    wait(crew, "a", "b", level=COORDINATE)
    wait(crew, "b", "a", level=COORDINATE)
    (found,) = crew.happened(ev.DeadlockFound)
    assert (found.victim, found.levels) == ("a", (CRITICAL, COORDINATE))


def test_the_victim_is_told_why_and_the_director_the_whole_circle(crew: Team) -> None:
    wait(crew, "a", "b")
    wait(crew, "b", "a")
    told = {message.recipient: message for message in crew.exchange.state.messages.values()}
    assert sorted(told) == ["b", "boss"]
    for message in told.values():
        payload = msgspec.json.decode(message.payload)
        assert payload["errorCode"] == "E_LEASE_004"
        assert payload["context"]["victim"] == "b"
        assert [entry["agent"] for entry in payload["context"]["cycle"]] == ["b", "a"]


def test_a_deadlock_is_reported_to_those_who_direct_at_that_moment(crew: Team) -> None:
    def reported(first: str, second: str) -> list[str]:
        known = set(crew.exchange.state.messages)
        wait(crew, first, second)
        wait(crew, second, first)
        stop(crew, first, f"{first}>{second}")
        news = [message for seq, message in crew.exchange.state.messages.items() if seq not in known]
        return [message.recipient for message in news if message.recipient not in (first, second)]

    assert reported("a", "b") == ["boss"]
    crew.register("chief", "Director", "director")
    assert reported("a", "b") == ["boss", "chief"]
    crew.register("chief", "Director", "primary")
    assert reported("a", "b") == ["boss"]
    crew.register("owner", "Human", "human")
    crew.ask(cmd.RetireAgent("boss"), "boss", cmd.Done)
    assert reported("a", "b") == ["owner"], "without a director, the humans are notified"


def test_an_alternative_is_no_deadlock_until_all_are_stuck(crew: Team) -> None:
    wait(crew, "a", "b", "c", any_of=True)
    wait(crew, "b", "a")
    assert not crew.happened(ev.DeadlockFound)
    wait(crew, "c", "b")
    (found,) = crew.happened(ev.DeadlockFound)
    assert set(found.cycle) == {"a", "b", "c"}
    assert found.victim == "c"


def test_who_waits_behind_a_circle_is_not_in_it_whatever_else_is_open(crew: Team) -> None:
    """An alternative anywhere in the project made all who are stuck count, and the lowest of them gave way in vain."""
    wait(crew, "boss", "c", "d", any_of=True, ref="elsewhere")
    with deciding(crew) as decision:
        for waiter, on, level in (("a", "b", CRITICAL), ("s", "a", INFO), ("b", "a", BLOCKING)):
            waits.begin_wait(decision, waiter, "errand", f"{waiter}>{on}", on=(on,), level=level)
    (found,) = crew.happened(ev.DeadlockFound)
    assert (set(found.cycle), found.victim) == ({"a", "b"}, "b")


def test_who_waits_behind_a_deadlock_with_alternatives_is_not_in_it(crew: Team) -> None:
    wait(crew, "a", "b", "c", any_of=True, level=CRITICAL)
    with deciding(crew) as decision:
        for waiter, on, level in (("s", "a", INFO), ("d", "s", INFO), ("b", "a", BLOCKING), ("c", "a", CRITICAL)):
            waits.begin_wait(decision, waiter, "errand", f"{waiter}>{on}", on=(on,), level=level)
    (found,) = crew.happened(ev.DeadlockFound)
    assert (set(found.cycle), found.victim) == ({"a", "b", "c"}, "b")


def test_a_circle_with_an_alternative_does_not_feed_itself(crew: Team) -> None:
    wait(crew, "a", "b", "c", any_of=True, ref="any", level=INFO)
    wait(crew, "b", "a", level=INFO)
    wait(crew, "d", "a", level=CRITICAL)
    assert crew.exchange.state.inherited == {"a": CRITICAL, "b": CRITICAL, "c": CRITICAL}
    stop(crew, "d", "d>a")
    assert crew.exchange.state.inherited == {"a": INFO, "b": INFO, "c": INFO}


def test_a_shifted_wait_lends_elsewhere_and_can_close_a_circle(crew: Team) -> None:
    wait(crew, "a", "b", ref="x", level=BLOCKING)
    wait(crew, "c", "a", level=BLOCKING)
    with deciding(crew) as decision:
        waits.shift_wait(decision, "errand", "x", "a", ["d"])
    assert crew.exchange.state.inherited == {"a": BLOCKING, "d": BLOCKING}
    with deciding(crew) as decision:
        waits.shift_wait(decision, "errand", "x", "a", ["c", "d"])
    assert crew.happened(ev.DeadlockFound)[0].victim == "c"


def test_a_retired_agent_waits_no_more(crew: Team) -> None:
    wait(crew, "a", "b", level=BLOCKING)
    crew.ask(cmd.RetireAgent("a"), "a", cmd.Done)
    assert crew.happened(ev.WaitEnded)[0].reason == "retired"
    assert crew.exchange.state.inherited == {}


def test_messages_of_the_one_waited_for_rise_and_fall_back(crew: Team) -> None:
    before = crew.send("b", "c", priority="Info").signal_id
    other = crew.send("d", "c", priority="Coordinate").signal_id
    wait(crew, "a", "b", level=CRITICAL)
    during = crew.send("b", "c", priority="Info").signal_id
    assert [crew.message(name).level for name in (before, other, during)] == [CRITICAL, COORDINATE, CRITICAL]
    stop(crew, "a", "a>b")
    assert [crew.message(name).level for name in (before, other, during)] == [INFO, COORDINATE, INFO]
    session = crew.attach("c", "piggyback")
    assert crew.drain(session) == [other, before, during]


def test_answers_that_the_one_waited_for_needs_rise_too(crew: Team) -> None:
    crew.send("b", "c", "CUSTOM_ASK", correlation_id="req_1")
    answer = crew.send("c", "b", "CUSTOM_TELL", correlation_id="req_1", priority="Info").signal_id
    small_talk = crew.send("c", "b", "CUSTOM_TELL", priority="Info").signal_id
    wait(crew, "a", "b", level=BLOCKING)
    assert crew.message(answer).level == BLOCKING
    assert crew.message(small_talk).level == INFO
    later = crew.send("c", "b", "CUSTOM_TELL", correlation_id="req_1", priority="Info").signal_id
    assert crew.message(later).level == BLOCKING
    stop(crew, "a", "a>b")
    assert {crew.message(name).level for name in (answer, small_talk, later)} == {INFO}


def test_messages_never_rise_to_an_override(crew: Team) -> None:
    sent = crew.send("b", "c", priority="Info").signal_id
    wait(crew, "boss", "b", level=OVERRIDE)
    assert crew.exchange.state.inherited == {"b": OVERRIDE}
    assert crew.message(sent).level == CRITICAL


def test_a_boost_while_raised_stays_when_the_loan_ends(crew: Team) -> None:
    sent = crew.send("b", "c", priority="Info").signal_id
    wait(crew, "a", "b", level=BLOCKING)
    crew.advance(61)
    assert (crew.message(sent).level, crew.message(sent).own_level) == (BLOCKING, COORDINATE)
    stop(crew, "a", "a>b")
    assert crew.message(sent).level == COORDINATE


def test_no_more_messages_rise_than_the_policy_says(new_team: NewTeam) -> None:
    team = new_team("inheritance: {messages_max: 2}")
    for name in ("a", "b", "c"):
        team.register(name)
    sent = [team.send("b", "c", priority="Info").signal_id for _ in range(4)]
    wait(team, "a", "b", level=BLOCKING)
    assert [team.message(name).level for name in sent] == [BLOCKING, BLOCKING, INFO, INFO]


NAMES = "abcdef"
WAITS = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sets(st.sampled_from(NAMES), min_size=1, max_size=3),
        st.integers(0, 4),
        st.booleans(),
    ),
    max_size=12,
)


def graph_of(waits: list[tuple[str, set[str], int, bool]]) -> WaitGraph:
    graph = WaitGraph()
    for number, (waiter, on, level, any_of) in enumerate(waits):
        if on - {waiter}:
            targets = dict.fromkeys(sorted(on - {waiter}), 1)
            graph.add(Wait(waiter, "errand", str(number), 0, level, number, any_of, targets))
    return graph


def exact(graph: WaitGraph) -> dict[str, int]:
    """Work out what everyone inherits in the plainest way: raise until nothing changes."""
    levels: dict[str, int] = {}
    changed = True
    while changed:
        changed = False
        for each in graph.waits.values():
            lent = max(each.level, levels.get(each.waiter, -1))
            for agent in each.on:
                if lent > levels.get(agent, -1):
                    levels[agent] = lent
                    changed = True
    return levels


def movable(graph: WaitGraph) -> set[str]:
    """Work out who can still move on, in the plainest way."""
    moving: set[str] = set()
    while True:
        news = {
            agent
            for agent in NAMES
            if agent not in moving
            and all(
                (any if each.any_of else all)(other in moving for other in each.on)
                for each in graph.waits.values()
                if each.waiter == agent
            )
        }
        if not news:
            return moving
        moving |= news


def reach(graph: WaitGraph, start: str, among: set[str]) -> set[str]:
    """Work out whom an agent waits for, directly and through others, among some."""
    found: set[str] = set()
    while True:
        news = {
            other
            for each in graph.waits.values()
            if each.waiter in found | {start}
            for other in each.on
            if other in among - found
        }
        if not news:
            return found
        found |= news


@given(WAITS, st.data())
def test_lending_is_exact_whatever_changes(waits: list[tuple[str, set[str], int, bool]], data: st.DataObject) -> None:
    graph = WaitGraph()
    inherited: dict[str, int] = {}

    def follow() -> None:
        for agent, level in inherited_levels(graph, inherited, graph.lent).items():
            if level < 0:
                del inherited[agent]
            else:
                inherited[agent] = level
        graph.lent.clear()
        assert inherited == exact(graph)
        assert graph.linked == len(graph.upon.keys() & graph.by_waiter.keys())

    for each in graph_of(waits).waits.values():
        graph.add(each)
        if graph.find_deadlock():
            graph.drop(each)
        follow()
    while graph.waits:
        graph.drop(graph.waits[data.draw(st.sampled_from(sorted(graph.waits)))])
        follow()


@given(WAITS)
def test_a_deadlock_is_found_when_it_closes_and_never_otherwise(waits: list[tuple[str, set[str], int, bool]]) -> None:
    graph = WaitGraph()
    for each in graph_of(waits).waits.values():
        graph.add(each)
        found = graph.find_deadlock()
        stuck = set(NAMES) - movable(graph)
        assert bool(found) == bool(stuck)
        if found:
            members = {wait.waiter for wait in found}
            assert members <= stuck
            assert all(reach(graph, agent, members) == members for agent in members), "somebody is in no circle"
            graph.drop(each)


def test_a_long_chain_is_no_circle_and_closing_it_is_one() -> None:
    graph = WaitGraph()
    for number in range(2000):
        on = {f"agent_{number + 1}": 1}
        graph.add(Wait(f"agent_{number}", "errand", str(number), 0, 1, number, False, on))
    assert graph.find_deadlock() == []
    graph.add(Wait("agent_2000", "errand", "last", 0, 1, 2000, False, {"agent_0": 1}))
    assert len(graph.find_deadlock()) == 2001


def test_the_limit_on_raised_answers_counts_answers(new_team: NewTeam) -> None:
    """It counted the messages that were looked at, so that an answer behind others of the mailbox did not rise."""
    team = new_team("inheritance: {messages_max: 2}")
    for name in ("asker", "helper", "waiter"):
        team.register(name)
    team.send("asker", "helper", "CUSTOM_NOTE", correlation_id="req_1")
    for _ in range(5):
        team.send("waiter", "asker", "CUSTOM_NOTE", priority="Coordinate")
    answer = team.send("helper", "asker", "CUSTOM_NOTE", correlation_id="req_1", priority="Info").signal_id
    team.hold(cmd.AcquireLease(("res",)), "asker")
    team.wait_for_lease(cmd.AcquireLease(("res",), priority="Critical"), "waiter")
    assert team.message(answer).level == 3

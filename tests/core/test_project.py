"""Policies as events, and the tick: what is open goes on under a new policy, and time alone moves everything."""

import pytest

from tests.core.driver import SECOND, CountedIds, Team
from tests.fixtures import load
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.errors import Problem
from tocsin.core.exchange import Exchange
from tocsin.core.policy import document_of
from tocsin.policies import default_policy, parse_policy

FASTER = document_of(parse_policy("aging: {threshold_s: 10}"))


def test_the_first_event_is_a_policy(team: Team) -> None:
    first = team.events[0]
    assert isinstance(first, ev.PolicyAdopted)
    assert (first.version, first.by) == (1, "tocsin")


@pytest.mark.parametrize("caller", ["boss", None])
def test_a_director_changes_the_policy(team: Team, caller: str | None) -> None:
    assert team.ask(cmd.AdoptPolicy(FASTER, "too slow"), caller, cmd.Adopted).version == 2
    adopted = team.happened(ev.PolicyAdopted)[-1]
    assert (adopted.version, adopted.reason, adopted.by) == (2, "too slow", caller or "tocsin")
    assert team.exchange.state.policy.aging.threshold_s == 10


@pytest.mark.parametrize("caller", ["impl_001", "twin", "manager_001"])
def test_nobody_else_does(team: Team, caller: str) -> None:
    assert team.refused(cmd.AdoptPolicy(FASTER, "mine"), caller).code == "E_AUTH_003"
    assert team.exchange.state.policy_version == 1


def test_a_wrong_policy_changes_nothing(team: Team) -> None:
    document = document_of(default_policy()) | {"aging": {"enabled": True}}
    problem = team.refused(cmd.AdoptPolicy(document, "broken"), "boss")
    assert (problem.code, problem.field) == ("E_POLICY_001", "$.aging.threshold_s")
    assert team.exchange.state.policy == default_policy()


def test_a_reason_has_a_limit(team: Team) -> None:
    assert team.refused(cmd.AdoptPolicy(FASTER, "x" * 4097), "boss").field == "$.reason"


def test_a_new_policy_rearms_what_is_open(team: Team) -> None:
    sent = team.send("impl_001", "impl_002").signal_id
    team.advance(5)
    team.adopt("aging: {threshold_s: 10}")
    assert team.exchange.state.agents["impl_002"].mailbox.depth == 1
    team.advance(5.02)
    assert team.message(sent).level == 1
    assert team.drain(team.attach("impl_002", "piggyback")) == [sent]


def test_a_new_timeout_holds_for_what_is_on_its_way(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002").signal_id
    team.drain(session)
    team.adopt("delivery: {receipt_timeout_s: {piggyback: 10}}")
    team.advance(10.02)
    assert team.message(sent).state == "queued"


def test_a_message_whose_type_was_dropped_is_a_custom_one(team: Team) -> None:
    team.adopt("contracts: {DIAGNOSTIC: {ttl_s: 100, retries_max: 1, backoff_s: [1]}}")
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002", "DIAGNOSTIC").signal_id
    team.drain(session)
    team.adopt(None)
    assert team.nack("impl_002", sent, can_retry=True).state == "dead"


def test_before_the_first_policy_only_the_bus_decides() -> None:
    exchange = Exchange(CountedIds())
    adopt = cmd.AdoptPolicy(document_of(default_policy()), "start")
    reply = exchange.handle(adopt, Caller("boss", "director"), 0).reply
    assert isinstance(reply, Problem)
    assert reply.code == "E_POLICY_002"
    assert exchange.next_due() is None
    assert exchange.handle(adopt, SYSTEM, 0).reply == cmd.Adopted(1)


def test_nothing_is_due_in_an_idle_project(team: Team) -> None:
    assert team.exchange.next_due() is None
    assert team.tick() == cmd.Ticked(0, None)


def test_a_tick_says_when_to_come_back(team: Team) -> None:
    team.attach("impl_001")
    assert team.tick().next_due == team.exchange.next_due() == team.now + 60 * SECOND + 10_000


def test_an_early_tick_changes_nothing(team: Team) -> None:
    team.send("impl_001", "impl_002")
    before = len(team.events)
    team.advance(30)
    team.tick()
    assert len(team.events) == before


def test_a_clock_that_jumps_back_does_no_harm(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    first = team.send("impl_001", "impl_002").signal_id
    team.now -= 3600 * SECOND
    second = team.send("impl_001", "impl_002").signal_id
    assert team.drain(session) == [first, second]
    team.confirm("impl_002", first, second)
    team.advance(7200)
    assert {event.how for event in team.happened(ev.MessageDelivered)} == {"receipt"}


def test_ticks_alone_bring_everything_to_an_end(team: Team) -> None:
    """With nobody there, every message ends by time, and then the project is idle."""
    payload = load("apm/task_assignment_payload")
    team.attach("impl_001")
    team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=payload, correlation_id="req_1")
    team.broadcast("boss", qos={"decayRate": 0.3})
    team.send("impl_001", "impl_002", "TaskAssigned")
    team.advance(100 * 86400)
    assert team.exchange.next_due() is None
    assert not team.exchange.state.messages
    assert not team.exchange.state.threads

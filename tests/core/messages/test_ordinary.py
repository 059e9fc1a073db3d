"""Plans: when a send is decided by one, when not, and what makes a plan void."""

from copy import deepcopy

import pytest

from tests.core.driver import SECOND, CountedIds, Team, replayed, snapshot_bytes
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.messages.ordinary import decide_send
from tocsin.core.protocol.envelope import Envelope

NOTE = "CUSTOM_NOTE"
KEY = ("ada", "bob", NOTE)


def team_of_two(policy: str | None = None) -> Team:
    team = Team(policy)
    team.register("ada", "Manager")
    team.register("bob")
    return team


def by_plan(team: Team, envelope: Envelope, sender: str = "ada") -> bool:
    """Tell whether a send would be decided by plan."""
    return decide_send(team.exchange.state, team.caller(sender), envelope, team.now) is not None


def in_full(team: Team, command: cmd.Command, agent: str) -> tuple[cmd.Reply, list[Event], bytes]:
    """Decide a command in full on a copy of the state; return reply, events and the state after it."""
    twin = Exchange(CountedIds(), deepcopy(team.exchange.state))
    outcome = twin.handle_in_full(command, team.caller(agent), team.now)
    return outcome.reply, outcome.events, snapshot_bytes(twin)


@pytest.mark.parametrize("kind", ["push", "daemon", "piggyback", None])
@pytest.mark.parametrize("role", ["primary", "director"])
def test_an_ordinary_send_is_what_the_full_decision_makes_of_it(kind: cmd.SessionKind | None, role: str) -> None:
    team = team_of_two()
    team.register("ada", "Manager", role)
    if kind is not None:
        team.attach("bob", kind)
    for priority in (None, "Info", "Blocking", "Critical", "LOW"):
        team.advance(1.5)
        envelope = team.envelope("ada", "bob", NOTE, {"n": 1}, priority=priority)
        assert by_plan(team, envelope)
        reply, events, state = in_full(team, cmd.Send(envelope), "ada")
        outcome = team.handle(cmd.Send(envelope), team.caller("ada"))
        assert (outcome.reply, outcome.events) == (reply, events)
        assert snapshot_bytes(team.exchange) == state


def test_an_offer_applied_with_its_acceptance_is_replayed_as_two_events() -> None:
    team = team_of_two()
    team.attach("bob")
    sent = team.send("ada", "bob", NOTE)
    assert [type(event) for event in team.events[-2:]] == [ev.MessageAccepted, ev.MessageOffered]
    team.events += team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)
    assert snapshot_bytes(replayed(team.events)) == snapshot_bytes(team.exchange)


@pytest.mark.parametrize(
    "parts",
    [
        {"correlation_id": "thr_1"},
        {"metadata": {"ttl": 5}},
        {"qos": {"importance": 3}},
        {"version": "1.0.0", "priority": "LOW"},
        {"receiver_type": "Manager"},
        {"priority": "DirectorOverride"},
    ],
    ids=str,
)
def test_an_unusual_send_is_decided_in_full(parts: dict[str, object]) -> None:
    team = team_of_two()
    assert by_plan(team, team.envelope("ada", "bob", NOTE))
    assert not by_plan(team, team.envelope("ada", "bob", NOTE, **parts))  # type: ignore[arg-type]


def test_a_send_that_the_moment_forbids_is_decided_in_full() -> None:
    team = team_of_two("limits: {mailbox_depth_max: 2}\nbucket: {capacity: 12, refill_per_s: 1}")
    first = team.envelope("ada", "bob", NOTE)
    team.ask(cmd.Send(first), "ada", cmd.Receipt)
    assert not by_plan(team, first), "it is a duplicate"
    assert not by_plan(team, team.envelope("bob", "ada", NOTE)), "the sender is another"
    team.send("ada", "bob", NOTE)
    assert not by_plan(team, team.envelope("ada", "bob", NOTE)), "the mailbox is full"
    assert not by_plan(team, team.envelope("ada", "bob", NOTE, priority="Blocking")), "the bucket is empty"


def test_a_sync_message_that_nobody_can_take_now_is_decided_in_full() -> None:
    team = team_of_two()
    question = team.envelope("ada", "bob", "Question")
    assert not by_plan(team, question)
    team.attach("bob")
    assert by_plan(team, question)


def test_a_busy_recipient_is_left_to_the_full_decision() -> None:
    team = team_of_two()
    team.attach("bob")
    work = team.send("ada", "bob", NOTE)
    team.ask(cmd.BeginWork(work.message_id), "bob", cmd.Attending)
    assert not by_plan(team, team.envelope("ada", "bob", NOTE))


def test_a_policy_makes_plans_void() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    assert KEY in team.exchange.state.plans
    team.adopt("bucket: {cost: {Coordinate: 7}}")
    assert not team.exchange.state.plans
    tokens = team.exchange.state.agents["ada"].tokens
    team.send("ada", "bob", NOTE)
    assert team.exchange.state.agents["ada"].tokens == tokens - 7


def test_a_registration_makes_plans_void() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    team.register("bob", capabilities=("StatusUpdate",))
    assert team.refused_send("ada", "bob", NOTE).code == "E_ROUTING_002"
    team.register("bob")
    team.register("ada", "Manager", "clone")
    assert team.send("ada", "bob", NOTE, priority="Critical").priority == "Coordinate"


def test_a_retirement_makes_plans_void() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    team.ask(cmd.RetireAgent("bob", "gone"), "bob", cmd.Done)
    assert team.refused_send("ada", "bob", NOTE).code == "E_ROUTING_001"


def test_a_token_with_another_role_does_not_use_the_plan() -> None:
    team = team_of_two()
    team.send("ada", "bob", NOTE)
    reply = team.handle(cmd.Send(team.envelope("ada", "bob", NOTE)), cmd.Caller("ada", "director")).reply
    assert getattr(reply, "code", "") == "E_AUTH_007"


def test_the_number_of_plans_has_a_limit() -> None:
    team = team_of_two("limits: {plans_max: 3}")
    for number in range(10):
        team.send("ada", "bob", f"CUSTOM_{number}")
        assert len(team.exchange.state.plans) <= 3
    team.refused_send("ada", "nobody", NOTE)
    assert ("ada", "nobody", NOTE) not in team.exchange.state.plans


def test_a_receipt_offers_what_waits_for_room() -> None:
    team = team_of_two()
    team.attach("bob", window=1)
    first, second = team.send("ada", "bob", NOTE), team.send("ada", "bob", NOTE)
    reply, expected, state = in_full(team, cmd.Confirm((first.message_id,)), "bob")
    events = team.exchange.confirm(first.message_id, team.caller("bob"), team.now)
    assert events == expected
    assert [type(event) for event in events] == [ev.MessageDelivered, ev.MessageOffered]
    assert snapshot_bytes(team.exchange) == state
    assert (second.queued, reply) == (True, cmd.Confirmed(1))


def test_a_receipt_lets_the_decay_rate_follow() -> None:
    team = team_of_two("queue_manager: {samples_min: 1, latency_low_s: 0.5, latency_high_s: 1, cooldown_s: 0.001}")
    team.attach("bob")
    sent = team.send("ada", "bob", NOTE)
    team.now += 3 * SECOND
    _, expected, _ = in_full(team, cmd.Confirm((sent.message_id,)), "bob")
    events = team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)
    assert events == expected
    assert [type(event) for event in events] == [ev.MessageDelivered, ev.DecayRateChanged]


def test_a_receipt_of_another_agent_or_twice_changes_nothing() -> None:
    team = team_of_two()
    team.attach("bob")
    sent = team.send("ada", "bob", NOTE)
    assert team.exchange.confirm(sent.message_id, team.caller("ada"), team.now) == []
    assert team.exchange.confirm("msg_none_1", team.caller("bob"), team.now) == []
    assert team.exchange.confirm(sent.message_id, cmd.Caller("bob", "director"), team.now) == []
    assert len(team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)) == 1
    assert team.exchange.confirm(sent.message_id, team.caller("bob"), team.now) == []


def test_receipts_forget_what_is_over_the_limit() -> None:
    team = team_of_two("retention: {settled_max: 1, batch: 2}")
    team.attach("bob")
    events: list[Event] = []
    for _ in range(3):
        sent = team.send("ada", "bob", NOTE)
        events += team.exchange.confirm(sent.message_id, team.caller("bob"), team.now)
    assert isinstance(events[-1], ev.MessagesForgotten)

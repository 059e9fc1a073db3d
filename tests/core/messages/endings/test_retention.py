"""What the live state remembers: for how long, and how much at most."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, Team
from tocsin.core import events as ev
from tocsin.core.messages.endings.retention import retention_due


def settle(team: Team) -> str:
    """Let one message be delivered and done with."""
    sent = team.send("a", "b").signal_id
    team.confirm("b", sent)
    return sent


def crew(new_team: NewTeam, policy: str) -> Team:
    team = new_team(policy)
    team.register("a", "Manager", "director")
    team.register("b")
    team.attach("b")
    return team


def test_ended_messages_have_a_limit(new_team: NewTeam) -> None:
    team = crew(new_team, "retention: {settled_max: 4, batch: 2}")
    sent = [settle(team) for _ in range(10)]
    remembered = [bool(team.exchange.state.copies_of(name)) for name in sent]
    assert remembered == [False] * 6 + [True] * 4
    assert all(event.settled == 2 for event in team.happened(ev.MessagesForgotten))


def test_what_waits_is_never_forgotten(new_team: NewTeam) -> None:
    team = crew(new_team, "retention: {settled_max: 1, batch: 1}")
    team.register("c")
    waiting = [team.send("a", "c", "TaskAssigned").signal_id for _ in range(5)]
    for _ in range(5):
        settle(team)
    assert all(team.message(name).state == "queued" for name in waiting)


def test_a_forgotten_copy_leaves_its_broadcast(new_team: NewTeam) -> None:
    team = crew(new_team, "retention: {settled_s: 10}")
    team.register("c")
    sent = team.broadcast("a")
    team.confirm("b", sent.broadcast_id)
    team.advance(200)
    assert list(team.exchange.state.broadcasts[sent.broadcast_id].copies) == ["c"]
    team.drain(team.attach("c", "piggyback"))
    team.confirm("c", sent.broadcast_id)
    team.advance(200)
    assert sent.broadcast_id not in team.exchange.state.broadcasts


@pytest.mark.parametrize(("waited_s", "known"), [(3500, True), (3700, False)])
def test_a_duplicate_is_recognized_while_it_is_remembered(new_team: NewTeam, waited_s: int, known: bool) -> None:
    team = crew(new_team, "")
    team.send("a", "b", message_id="msg_1_a")
    team.confirm("b", "msg_1_a")
    team.advance(waited_s)
    assert team.send("a", "b", message_id="msg_1_a").duplicate is known


def test_an_ended_message_loses_its_content_but_not_its_fingerprint(new_team: NewTeam) -> None:
    team = crew(new_team, "")
    team.send("a", "b", message_id="msg_1_a", payload={"n": 1})
    team.ack("b", "msg_1_a", "processed")
    assert team.message("msg_1_a").payload == b""
    assert team.send("a", "b", message_id="msg_1_a", payload={"n": 1}).duplicate
    assert team.refused_send("a", "b", message_id="msg_1_a", payload={"n": 2}).code == "E_ADMISSION_007"


def test_what_died_after_its_delivery_is_not_forgotten_with_the_delivered(new_team: NewTeam) -> None:
    team = crew(new_team, "")
    sent = settle(team)
    team.nack("b", sent, can_retry=False)
    team.advance(4000)
    assert team.message(sent).state == "dead"
    assert team.redrive("a", sent).redriven == (sent,)


def next_forgetting_s(team: Team, since: int) -> float:
    """Return the seconds from a moment to the sweep that forgets next; sweeps are a second apart here."""
    due = retention_due(team.exchange.state)
    assert due is not None
    return (due - since) / SECOND


@pytest.mark.parametrize(("later_s", "next_s"), [(0, 90), (60, 100)])
def test_the_first_entry_to_be_forgotten_says_when(new_team: NewTeam, later_s: int, next_s: int) -> None:
    keep = "retention: {acknowledged_s: 100, settled_s: 90, thread_idle_s: 100000}\nsweeper: {interval_s: 1}\n"
    team = crew(new_team, keep + "contracts: {CUSTOM_WORK: {ack: required, timeout_s: 1000}}")
    assert retention_due(team.exchange.state) is None
    began = team.now
    work = team.send("a", "b", "CUSTOM_WORK").signal_id
    team.ack("b", work)
    assert next_forgetting_s(team, began) == pytest.approx(100, abs=1.1)
    team.advance(later_s)
    settle(team)
    assert next_forgetting_s(team, began) == pytest.approx(next_s, abs=1.1)


def test_an_ended_message_is_forgotten_although_nothing_else_is_remembered(new_team: NewTeam) -> None:
    team = crew(new_team, "retention: {settled_s: 90}\nsweeper: {interval_s: 1}")
    began = team.now
    settle(team)
    assert next_forgetting_s(team, began) == pytest.approx(90, abs=1.1)

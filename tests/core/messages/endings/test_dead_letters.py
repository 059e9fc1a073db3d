"""Dead letters: why a message is there, who is told, the way back, and the end (APM §3.5, §4.2)."""

import json

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, Team
from tests.fixtures import load
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import Problem

ASSIGNMENT = load("apm/task_assignment_payload")


def kill(team: Team, code: str = "E_TASK_003") -> str:
    """Send an assignment that its recipient rejects for good."""
    session = team.attach("impl_001", "piggyback")
    number = len(team.events)
    message_id = team.send(
        "manager_001", "impl_001", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id=f"req_{number}"
    ).signal_id
    team.drain(session)
    team.nack("impl_001", message_id, can_retry=False, code=code)
    team.detach(session)
    return message_id


def test_a_dead_letter_says_why_and_how_often(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    message_id = team.send(
        "manager_001", "impl_001", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id="r"
    ).signal_id
    first_at = team.now
    for wait_s in (1, 2, 4):
        team.drain(session)
        team.nack("impl_001", message_id, can_retry=True)
        team.advance(wait_s + 0.02)
    team.drain(session)
    team.nack("impl_001", message_id, can_retry=True, code="E_TASK_004")
    message = team.message(message_id)
    failure = team.exchange.state.failures[message.seq]
    assert (message.state, message.dead_at, message.attempts) == ("dead", team.now, 3)
    assert (failure.count, failure.first_at, failure.last_at) == (4, first_at, team.now)
    assert (failure.reason, failure.code) == ("rejected", "E_TASK_004")


def test_the_sender_gets_an_error_report(team: Team) -> None:
    message_id = kill(team)
    session = team.attach("manager_001", "piggyback")
    (delivery,) = team.ask(cmd.Drain(session, 10), "manager_001", cmd.Drained).deliveries
    report = json.loads(delivery.envelope)
    assert (report["messageType"], report["sender"]["agentId"]) == ("ERROR_REPORT", "tocsin")
    assert report["payload"]["errorCode"] == "E_TASK_003"
    assert report["payload"]["context"]["messageId"] == message_id
    assert report["payload"]["context"]["recipient"] == "impl_001"
    assert report["correlationId"] == team.message(message_id).correlation_id


def test_the_report_of_the_bus_fits_its_schema(team: Team) -> None:
    kill(team)
    report = team.happened(ev.MessageAccepted)[-1]
    payload = json.loads(report.payload)
    assert payload["errorType"] in ("TaskFailure", "ValidationError", "SystemError", "DependencyError")
    assert payload["severity"] in ("critical", "high", "medium", "low")
    assert payload["errorMessage"]


def test_notices_never_beget_notices(team: Team) -> None:
    team.attach("manager_001")
    kill(team)
    team.advance(1000, beating=True)
    notices = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert len(notices) == 1
    assert [event.code for event in team.happened(ev.MessageDied)] == ["E_TASK_003", "E_ROUTING_003"]


@pytest.mark.parametrize("caller", ["manager_001", "boss"])
def test_a_sender_redrives_its_own_and_a_director_any(team: Team, caller: str) -> None:
    message_id = kill(team)
    team.advance(100)
    assert team.redrive(caller, message_id) == cmd.Redriven((message_id,), {})
    message = team.message(message_id)
    assert (message.state, message.attempts, message.dead_at, message.boosts) == ("queued", 0, 0, 0)
    assert (message.enqueued_at, message.expires_at) == (team.now, team.now + 3600 * SECOND)
    assert not team.exchange.state.dead
    assert team.drain(team.attach("impl_001", "piggyback")) == [message_id]


@pytest.mark.parametrize("caller", ["impl_001", "impl_002"])
def test_others_do_not_see_it(team: Team, caller: str) -> None:
    message_id = kill(team)
    refused = team.redrive(caller, message_id).refused
    assert {name: problem.code for name, problem in refused.items()} == {message_id: "E_STATE_001"}


def test_what_is_not_dead_is_not_redriven(team: Team) -> None:
    sent = team.send("manager_001", "impl_001").signal_id
    refused = team.redrive("manager_001", sent, "msg_1_none").refused
    assert {name: problem.code for name, problem in refused.items()} == {
        sent: "E_STATE_002",
        "msg_1_none": "E_STATE_001",
    }


def test_what_has_no_recipient_any_more_is_not_redriven(team: Team) -> None:
    message_id = kill(team)
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert team.redrive("boss", message_id).refused[message_id].code == "E_ROUTING_001"


def test_one_copy_of_a_broadcast_is_redriven(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    sent = team.broadcast("manager_001", receiver_type="Implementation")
    team.drain(session)
    team.nack("impl_001", sent.broadcast_id, can_retry=False)
    signal = f"{sent.broadcast_id}:impl_001"
    assert team.message(signal).state == "dead"
    assert team.redrive("manager_001", signal).redriven == (signal,)
    assert team.message(f"{sent.broadcast_id}:impl_002").state == "queued"


def test_redriving_has_a_limit(team: Team) -> None:
    assert team.refused(cmd.Redrive(("msg_1_a",) * 501), "boss").code == "E_ADMISSION_008"


def test_a_redriven_letter_may_die_again(team: Team) -> None:
    message_id = kill(team)
    team.redrive("boss", message_id)
    session = team.attach("impl_001", "piggyback")
    team.drain(session)
    team.nack("impl_001", message_id, can_retry=False)
    assert team.message(message_id).state == "dead"
    assert len(team.happened(ev.MessageDied)) == 2


def test_a_dead_letter_is_purged_after_thirty_days(team: Team) -> None:
    message_id = kill(team)
    team.advance(2_592_000 - 60)
    assert team.message(message_id).state == "dead"
    team.advance(180)
    (purged,) = team.happened(ev.DeadLetterPurged)
    assert purged.reason == "age"
    assert not team.exchange.state.copies_of(message_id)


def test_dead_letters_have_a_limit(new_team: NewTeam) -> None:
    team = new_team("limits: {dead_letters_max: 2}")
    team.register("manager_001", "Manager")
    team.register("impl_001")
    killed = [kill(team) for _ in range(4)]
    assert [event.reason for event in team.happened(ev.DeadLetterPurged)] == ["limit", "limit"]
    assert [bool(team.exchange.state.copies_of(name)) for name in killed] == [False, False, True, True]


def test_what_waits_for_who_leaves_is_dead(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    offered = team.send("manager_001", "impl_001").signal_id
    team.drain(session)
    queued = team.send("manager_001", "impl_001").signal_id
    own = team.send("impl_001", "impl_001").signal_id
    team.ask(cmd.RetireAgent("impl_001", "done here"), "boss", cmd.Done)
    assert [team.message(name).state for name in (offered, queued, own)] == ["dead"] * 3
    assert {event.reason for event in team.happened(ev.MessageDied)} == {"recipient_gone"}
    assert {event.code for event in team.happened(ev.MessageDied)} == {"E_ROUTING_001"}
    reports = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert [report.recipient for report in reports] == ["manager_001", "manager_001"]


@pytest.mark.parametrize(("caller", "allowed"), [("impl_001", True), ("boss", True), ("impl_002", False)])
def test_who_may_retire_whom(team: Team, caller: str, allowed: bool) -> None:
    reply = team.handle(cmd.RetireAgent("impl_001"), team.caller(caller)).reply
    assert reply == cmd.Done() if allowed else isinstance(reply, Problem) and reply.code == "E_AUTH_003"


def test_who_is_not_there_cannot_be_retired(team: Team) -> None:
    assert team.refused(cmd.RetireAgent("nobody"), "boss").code == "E_ROUTING_001"


def test_a_redriven_letter_has_all_its_retries_again(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    message_id = team.send(
        "manager_001", "impl_001", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id="r"
    ).signal_id
    team.drain(session)
    team.nack("impl_001", message_id, can_retry=True)
    team.advance(1.1)
    team.drain(session)
    team.nack("impl_001", message_id, can_retry=False)
    assert team.message(message_id).attempts == 1
    team.redrive("manager_001", message_id)
    assert team.message(message_id).attempts == 0

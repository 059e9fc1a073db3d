"""ACK and NACK as messages: they cost nothing, and what they confirm stands whether or not they can be delivered."""

import msgspec
import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.messages.model import State
from tocsin.core.protocol.timestamps import as_microseconds, iso


def ack_of(team: Team, message_id: str) -> dict[str, object]:
    return {"acknowledgedMessageId": message_id, "status": "received", "timestamp": iso(team.now)}


def offered_report(team: Team) -> str:
    """Let an implementer report an error to the manager, who has it and owes an ACK."""
    team.attach("manager_001")
    payload = {"errorType": "SystemError", "errorMessage": "broken", "severity": "low"}
    return team.send("impl_001", "manager_001", "ERROR_REPORT", payload=payload, correlation_id="req_1").message_id


def test_an_ack_goes_to_the_sender(team: Team) -> None:
    report = offered_report(team)
    receipt = team.send("manager_001", "impl_001", "ACK", payload=ack_of(team, report), correlation_id="req_1")
    assert team.message(report).state is State.ACKNOWLEDGED
    assert receipt.queued
    (accepted,) = [event for event in team.happened(ev.MessageAccepted) if event.message_type == "ACK"]
    assert (accepted.recipient, accepted.rule, accepted.tokens) == ("impl_001", "confirmation", None)


def test_an_ack_counts_although_the_sender_has_left(team: Team) -> None:
    report = offered_report(team)
    team.ask(cmd.RetireAgent("impl_001"), "impl_001", cmd.Done)
    envelope = team.envelope("manager_001", "impl_001", "ACK", payload=ack_of(team, report), correlation_id="req_1")
    assert team.ask(cmd.Send(envelope), "manager_001", cmd.Acknowledged).state == "acknowledged"
    assert team.ask(cmd.Send(envelope), "manager_001", cmd.Acknowledged).duplicate


def test_an_ack_counts_although_the_sender_has_no_room(new_team: NewTeam) -> None:
    team = new_team("limits: {mailbox_depth_max: 1}")
    team.register("manager_001", "Manager")
    team.register("impl_001")
    report = offered_report(team)
    team.send("manager_001", "impl_001")
    envelope = team.envelope("manager_001", "impl_001", "ACK", payload=ack_of(team, report), correlation_id="req_1")
    assert team.ask(cmd.Send(envelope), "manager_001", cmd.Acknowledged).signal_id == report


def test_the_bus_itself_can_be_acknowledged(team: Team) -> None:
    """Its own reports are ERROR_REPORTs, which a manager acknowledges (APM §2.5)."""
    team.attach("impl_001")
    rejected = team.send("manager_001", "impl_001").message_id
    team.attach("manager_001")
    team.nack("impl_001", rejected, can_retry=False)
    (notice,) = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    envelope = team.envelope(
        "manager_001", "tocsin", "ACK", payload=ack_of(team, notice.message_id), correlation_id=notice.message_id
    )
    assert team.ask(cmd.Send(envelope), "manager_001", cmd.Acknowledged).state == "acknowledged"


def test_an_ack_needs_no_tokens_and_is_no_sign_of_gaming(new_team: NewTeam) -> None:
    team = new_team("{bucket: {capacity: 20}, gaming: {messages_min: 2}}")
    team.register("manager_001", "Manager", "primary")
    team.register("impl_001", "Implementation", "director")
    reports = [offered_report(team)]
    payload = {"errorType": "SystemError", "errorMessage": "broken", "severity": "low"}
    reports += [team.send("impl_001", "manager_001", "ERROR_REPORT", payload=payload).message_id for _ in range(5)]
    for report in reports:
        correlation = "req_1" if report == reports[0] else report
        team.send(
            "manager_001", "impl_001", "ACK", payload=ack_of(team, report), correlation_id=correlation, priority="ASK"
        )
    assert {team.message(report).state for report in reports} == {State.ACKNOWLEDGED}
    assert not team.exchange.state.agents["manager_001"].usage
    assert team.send("manager_001", "impl_001", priority="ASK").priority == "Blocking"


@pytest.mark.parametrize("changed", [{"priority": "Info"}, {"priority": "Blocking"}])
def test_another_priority_is_other_content(team: Team, changed: dict[str, str]) -> None:
    team.send("impl_001", "impl_002", message_id="msg_1_a", priority="Coordinate")
    problem = team.refused_send("impl_001", "impl_002", message_id="msg_1_a", **changed)
    assert problem.code == "E_ADMISSION_007"


def test_the_moment_of_expiry_is_still_in_time(team: Team) -> None:
    """SPEC-071 §9: expired once `expires_at < NOW()`, not before."""
    session = team.attach("impl_002", "piggyback")
    receipt = team.send("impl_001", "impl_002", metadata={"ttl": 30})
    team.now = as_microseconds(receipt.expires_at)
    assert team.drain(session) == [receipt.signal_id]
    late = team.send("impl_001", "impl_002", metadata={"ttl": 5})
    team.now = as_microseconds(late.expires_at) + 1
    assert team.drain(session) == []


def test_a_sender_that_left_is_shown_as_retired(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    team.send("impl_001", "impl_002")
    team.ask(cmd.RetireAgent("impl_001"), "impl_001", cmd.Done)
    (delivery,) = team.ask(cmd.Drain(session, 1), "impl_002", cmd.Drained).deliveries
    assert msgspec.json.decode(delivery.envelope)["sender"] == {"agentId": "impl_001", "type": "Retired"}


def test_a_piggyback_session_takes_a_whole_drain(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = [team.send("boss", "impl_002").signal_id for _ in range(40)]
    assert team.drain(session, 40) == sent


def test_as_many_receipts_as_the_limit_are_taken_at_once(new_team: NewTeam) -> None:
    team = new_team("limits: {batch_max: 2}")
    team.register("impl_001")
    assert team.confirm("impl_001", "msg_1", "msg_2").unknown == ("msg_1", "msg_2")
    assert team.refused(cmd.Confirm(("msg_1", "msg_2", "msg_3")), "impl_001").code == "E_ADMISSION_008"

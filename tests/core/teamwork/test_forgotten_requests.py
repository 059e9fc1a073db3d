"""Requests whose messages are gone before anybody looks."""

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd
from tocsin.core import events as ev


def test_a_request_fails_although_its_dead_letter_was_purged_at_once(new_team: NewTeam) -> None:
    """Two messages die in one decision, and there is room for one dead letter."""
    team = new_team("limits: {dead_letters_max: 1}")
    for agent in ("one", "two"):
        team.register(agent)
    for number in range(2):
        envelope = team.envelope("one", "two", "CUSTOM_ASK", message_id=f"msg_{number}_a", correlation_id=f"t-{number}")
        team.ask(cmd.SendRequest(envelope), "one", cmd.Requested)
    team.ask(cmd.RetireAgent("two"), "two", cmd.Done)
    ended = team.happened(ev.RequestEnded)
    assert [(event.request, event.outcome) for event in ended] == [("msg_0_a", "failed"), ("msg_1_a", "failed")]
    assert {event.detail for event in ended} == {"the message of the request could not be delivered"}


def test_an_ack_in_its_thread_does_not_answer_a_request(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two"):
        team.register(agent)
    team.attach("two")
    envelope = team.envelope("one", "two", "CUSTOM_ASK", message_id="msg_1_a", correlation_id="t-1")
    team.ask(cmd.SendRequest(envelope), "one", cmd.Requested)
    ack = {"acknowledgedMessageId": "msg_1_a", "status": "received", "timestamp": "2025-11-12T10:00:00Z"}
    team.send("two", "one", "ACK", payload=ack, correlation_id="t-1")
    assert team.happened(ev.RequestEnded) == []
    team.send("two", "one", "CUSTOM_ANSWER", correlation_id="t-1", message_id="msg_2_a")
    assert [(event.outcome, event.detail) for event in team.happened(ev.RequestEnded)] == [("answered", "msg_2_a")]

"""Envelopes as their recipients see them: every field, in each protocol version."""

from typing import Any

import msgspec

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core.protocol.negotiation import render


def sent(new_team: NewTeam, version: str) -> tuple[Team, dict[str, Any]]:
    """Send a message with everything that a sender can say, and return its envelope."""
    team = new_team()
    team.register("one", "Reviewer")
    team.register("two", "Implementation", supported=(version,))
    team.send(
        "one",
        "two",
        "ReviewRequested",
        payload={"a": 1},
        message_id="msg_1_a",
        priority="Critical",
        correlation_id="t-1",
        metadata={"ttl": 90, "tags": ["x"]},
        qos={"importance": 7, "decayRate": 0.25},
    )
    return team, msgspec.json.decode(render(team.message("msg_1_a"), team.exchange.state))


ENVELOPE = {
    "messageId": "msg_1_a",
    "timestamp": "2025-11-12T10:00:00.000Z",
    "sender": {"agentId": "one", "type": "Reviewer"},
    "receiver": {"agentId": "two", "type": "Implementation"},
    "payload": {"a": 1},
    "metadata": {"tags": ["x"], "retryCount": 0, "ttl": 90.0},
    "correlationId": "t-1",
}


def test_an_envelope_of_the_new_version(new_team: NewTeam) -> None:
    _, envelope = sent(new_team, "1.1.0")
    qos = {"deliveryClass": "async", "importance": 7, "decayRate": 0.25}
    assert envelope == ENVELOPE | {
        "version": "1.1.0",
        "messageType": "ReviewRequested",
        "priority": "Critical",
        "qos": qos,
    }


def test_an_envelope_of_the_old_version(new_team: NewTeam) -> None:
    _, envelope = sent(new_team, "1.0.0")
    assert envelope == ENVELOPE | {"version": "1.0.0", "messageType": "CUSTOM_REVIEW_REQUESTED", "priority": "HIGH"}


def test_an_envelope_of_who_has_left(new_team: NewTeam) -> None:
    """Their type is `Retired`, and the newest version is used for a recipient that is no longer there."""
    team, _ = sent(new_team, "1.0.0")
    for agent in ("one", "two"):
        team.ask(cmd.RetireAgent(agent), agent, cmd.Done)
    envelope = msgspec.json.decode(render(team.message("msg_1_a"), team.exchange.state))
    assert (envelope["sender"]["type"], envelope["receiver"]["type"]) == ("Retired", "Retired")
    assert (envelope["version"], envelope["messageType"]) == ("1.1.0", "ReviewRequested")


def test_an_envelope_counts_its_retries(new_team: NewTeam) -> None:
    team, _ = sent(new_team, "1.1.0")
    session = team.attach("two", "piggyback")
    for number in range(2):
        (delivery,) = team.ask(cmd.Drain(session, 5), "two", cmd.Drained).deliveries
        envelope = msgspec.json.decode(delivery.envelope)
        assert envelope["metadata"] == {"tags": ["x"], "retryCount": number, "ttl": 90.0}
        assert (delivery.attempt, delivery.offer, delivery.session) == (number, number + 1, session)
        team.advance(11, beating=True)


def test_a_message_of_the_bus_is_from_the_system(new_team: NewTeam) -> None:
    team = new_team("sessions: {announce: true}")
    for agent in ("one", "two"):
        team.register(agent)
    team.attach("one")
    team.attach("two")
    (notice,) = [message for message in team.exchange.state.messages.values() if message.sender == "tocsin"]
    envelope = msgspec.json.decode(render(notice, team.exchange.state))
    assert envelope["sender"] == {"agentId": "tocsin", "type": "System"}
    assert "correlationId" not in envelope

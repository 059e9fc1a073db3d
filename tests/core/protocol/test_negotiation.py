"""Protocol versions: choosing one (APM §5.3), refusing others (§5.4), and what each version gets to see."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.driver import START, Team
from tests.fixtures import load
from tocsin.core import commands as cmd
from tocsin.core.errors import TocsinError
from tocsin.core.protocol.negotiation import highest_common_version, type_name_for
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.policies import default_policy


@pytest.mark.parametrize(
    ("supported", "version"),
    [
        (("1.0.0",), "1.0.0"),
        (("1.1.0",), "1.1.0"),
        (("1.0.0", "1.1.0"), "1.1.0"),
        (("1.1.0", "1.0.0"), "1.1.0"),
        (("2.0.0", "1.0.0"), "1.0.0"),
    ],
)
def test_the_highest_common_version(supported: tuple[str, ...], version: str) -> None:
    assert highest_common_version(supported) == version


@pytest.mark.parametrize("supported", [(), ("2.0.0",), ("1.0",), ("0.9.0", "1.2.0")])
def test_no_version_in_common_rejects_the_registration(team: Team, supported: tuple[str, ...]) -> None:
    problem = team.refused(cmd.RegisterAgent("Implementation", supported), "newcomer")
    assert (problem.code, problem.field) == ("E_PROTOCOL_001", "$.supportedVersions")
    assert problem.expected == "one of 1.0.0, 1.1.0"
    assert "newcomer" not in team.exchange.state.agents


@given(st.lists(st.sampled_from(["0.9.0", "1.0.0", "1.1.0", "2.0.0"]), max_size=5))
def test_a_version_is_chosen_from_both_sides(supported: list[str]) -> None:
    common = {"1.0.0", "1.1.0"} & set(supported)
    try:
        assert highest_common_version(tuple(supported)) == max(common, default=None)
    except TocsinError:
        assert not common


def test_the_registration_message(team: Team) -> None:
    example = load("apm/registration")
    payload = example["payload"] | {"syncTimestamp": "2025-11-12T10:30:00.000Z"}
    envelope = team.envelope(
        "impl_001", "manager_001", example["messageType"], payload, version="1.0.0", priority="LOW"
    )
    assert team.ask(cmd.Send(envelope), "impl_001", cmd.Registered) == cmd.Registered("impl_001", "1.1.0")
    agent = team.exchange.state.agents["impl_001"]
    assert agent.supported == ("1.0.0", "1.1.0")
    assert agent.capabilities == ("TASK_ASSIGNMENT", "STATE_SYNC", "ERROR_REPORT")


def test_a_newcomer_registers_by_message(team: Team) -> None:
    payload = load("apm/registration")["payload"] | {"entityId": "newcomer", "syncTimestamp": "2025-11-12T10:30:00Z"}
    envelope = team.envelope("newcomer", "manager_001", "STATE_SYNC", payload)
    team.ask(cmd.Send(envelope), "newcomer", cmd.Registered)
    assert "newcomer" in team.exchange.state.agents


def test_a_registration_with_strange_versions_is_refused(team: Team) -> None:
    payload = load("apm/registration")["payload"] | {"syncTimestamp": "2025-11-12T10:30:00.000Z"}
    payload["state"] = payload["state"] | {"supportedVersions": [1, 2]}
    problem = team.refused_send("impl_001", "manager_001", "STATE_SYNC", payload=payload)
    assert (problem.code, problem.field) == ("E_VALIDATION_002", "$.payload.state")


def test_a_state_sync_about_another_agent_is_a_message(team: Team) -> None:
    payload = load("apm/registration")["payload"] | {"entityId": "impl_002", "syncTimestamp": "2025-11-12T10:30:00Z"}
    assert team.send("impl_001", "manager_001", "STATE_SYNC", payload=payload).queued


@pytest.mark.parametrize("version", ["2.0.0", "0.9.0", "1.0", "", "1.0.0-draft"])
def test_an_unsupported_version_is_refused_by_the_catalogue(version: str) -> None:
    document = load("apm/envelope") | {"version": version}
    with pytest.raises(TocsinError) as caught:
        parse_envelope(json.dumps(document).encode(), 1_048_576)
    assert caught.value.code == "E_PROTOCOL_001"
    assert f"Unsupported protocol version: {version}" in caught.value.problem.detail
    assert not caught.value.retryable


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_both_versions_are_supported(version: str) -> None:
    document = load("apm/envelope") | {"version": version}
    assert parse_envelope(json.dumps(document).encode(), 1_048_576).version == version


@pytest.mark.parametrize(
    ("signal_type", "old_name"),
    [
        ("Blocker", "CUSTOM_BLOCKER"),
        ("Question", "CUSTOM_QUESTION"),
        ("ReviewRequested", "CUSTOM_REVIEW_REQUESTED"),
        ("TaskAssigned", "CUSTOM_TASK_ASSIGNED"),
        ("TaskCompleted", "CUSTOM_TASK_COMPLETED"),
        ("StatusUpdate", "CUSTOM_STATUS_UPDATE"),
        ("Acknowledgment", "CUSTOM_ACKNOWLEDGMENT"),
        ("MasterPreempted", "CUSTOM_MASTER_PREEMPTED"),
        ("PeerJoined", "CUSTOM_PEER_JOINED"),
        ("PeerLeft", "CUSTOM_PEER_LEFT"),
    ],
)
def test_a_signal_in_the_old_version_is_a_custom_type(signal_type: str, old_name: str) -> None:
    assert type_name_for(signal_type, "1.0.0", default_policy()) == old_name
    assert type_name_for(signal_type, "1.1.0", default_policy()) == signal_type


@pytest.mark.parametrize(
    "message_type", ["TASK_ASSIGNMENT", "TASK_UPDATE", "STATE_SYNC", "ERROR_REPORT", "HANDOFF_REQUEST", "ACK", "NACK"]
)
def test_an_apm_type_has_one_name(message_type: str) -> None:
    for version in ("1.0.0", "1.1.0"):
        assert type_name_for(message_type, version, default_policy()) == message_type


def received(team: Team, agent: str, *supported: str, **parts: Any) -> dict[str, Any]:
    """Send to an agent that speaks some versions, and return what it gets to see."""
    team.register(agent, "Implementation", supported=supported)
    session = team.attach(agent, "piggyback")
    team.send("boss", agent, **parts)
    reply = team.ask(cmd.Drain(session, 1), agent, cmd.Drained)
    document: dict[str, Any] = json.loads(reply.deliveries[0].envelope)
    return document


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ("Info", "LOW"),
        ("Coordinate", "NORMAL"),
        ("Blocking", "HIGH"),
        ("Critical", "HIGH"),
        ("DirectorOverride", "HIGH"),
    ],
)
def test_an_old_agent_sees_three_priorities_and_no_qos(team: Team, sent: str, seen: str) -> None:
    document = received(team, "elder", "1.0.0", message_type="StatusUpdate", priority=sent, qos={"importance": 9})
    assert (document["version"], document["priority"]) == ("1.0.0", seen)
    assert document["messageType"] == "CUSTOM_STATUS_UPDATE"
    assert "qos" not in document


def test_what_an_old_agent_sees_is_an_old_envelope(team: Team) -> None:
    document = received(team, "elder", "1.0.0", message_type="TaskAssigned", correlation_id="req_1", payload={"a": 1})
    envelope = parse_envelope(json.dumps(document).encode(), 1_048_576)
    assert (envelope.correlation_id, json.loads(bytes(envelope.payload))) == ("req_1", {"a": 1})


@pytest.mark.parametrize("priority", ["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"])
def test_a_new_agent_sees_the_whole_scale_and_the_qos(team: Team, priority: str) -> None:
    document = received(team, "younger", "1.0.0", "1.1.0", priority=priority, qos={"importance": 9, "decayRate": 0.25})
    assert (document["version"], document["priority"], document["messageType"]) == ("1.1.0", priority, "StatusUpdate")
    assert document["qos"] == {"deliveryClass": "async", "importance": 9, "decayRate": 0.25}


def test_what_is_received_is_what_was_sent(team: Team) -> None:
    document = received(
        team, "younger", "1.1.0", payload={"a": [1, "b"]}, metadata={"ttl": 90, "tags": ["x"], "origin": "planner"}
    )
    assert document["payload"] == {"a": [1, "b"]}
    assert document["metadata"] == {"ttl": 90, "tags": ["x"], "origin": "planner", "retryCount": 0}
    assert document["sender"] == {"agentId": "boss", "type": "Director"}
    assert document["receiver"] == {"agentId": "younger", "type": "Implementation"}
    assert document["timestamp"] == "2025-11-12T10:00:00.000Z"
    assert team.now == START


def test_signals_need_the_new_version(team: Team) -> None:
    problem = team.refused_send("impl_001", "impl_002", "StatusUpdate", version="1.0.0", priority="LOW")
    assert (problem.code, problem.field) == ("E_VALIDATION_003", "$.messageType")
    assert "Blocker" not in (problem.expected or "")
    assert "CUSTOM_*" in (problem.expected or "")

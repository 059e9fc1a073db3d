"""Routing: direct, broadcast and by type (APM §3), directions (§2.1), and what happens when a route fails (§3.5)."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.fixtures import load
from tocsin.core import commands as cmd
from tocsin.core import events as ev

ASSIGNMENT = load("apm/task_assignment_payload")
UPDATE = load("apm/task_update_payload_in_progress")
ERROR = load("apm/error_report_payload_high")
HANDOFF = load("apm/handoff_request_payload_load_balancing")
SYNC = load("apm/state_sync_payload_task_update")
TRACEPARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def test_a_direct_message_goes_to_that_agent_only(team: Team) -> None:
    receiver = load("apm/receiver_direct")["receiver"]
    receipt = team.send("manager_001", receiver["agentId"], receiver_type=receiver["type"])
    assert receipt.recipient == "impl_001"
    assert [agent.agent for agent in team.exchange.state.agents.values() if agent.mailbox.depth] == ["impl_001"]


def test_a_broadcast_filtered_by_type_goes_to_all_of_that_type(team: Team) -> None:
    receiver = load("apm/receiver_broadcast")["receiver"]
    receipt = team.broadcast("manager_001", receiver_type=receiver["type"])
    assert [copy.recipient for copy in receipt.receipts] == ["impl_001", "impl_002", "twin"]
    assert receipt.failed == {}
    assert receipt.code is None


@pytest.mark.parametrize(
    ("receiver_type", "recipients"),
    [
        ("Manager", ["manager_001"]),
        ("Implementation", ["impl_002", "twin"]),
        ("AdHoc", ["helper"]),
        ("*", ["manager_001", "impl_002", "boss", "twin", "helper"]),
    ],
)
def test_the_supported_types(team: Team, receiver_type: str, recipients: list[str]) -> None:
    team.register("helper", "AdHoc")
    receipt = team.broadcast("impl_001", receiver_type=receiver_type)
    assert [copy.recipient for copy in receipt.receipts] == recipients


def test_a_broadcast_can_be_followed_by_its_id(team: Team) -> None:
    receipt = team.broadcast("manager_001", receiver_type="Implementation")
    assert [copy.signal_id for copy in receipt.receipts] == [
        f"{receipt.broadcast_id}:impl_001",
        f"{receipt.broadcast_id}:impl_002",
        f"{receipt.broadcast_id}:twin",
    ]
    (accepted,) = team.happened(ev.BroadcastAccepted)
    assert (accepted.broadcast, accepted.accepted, accepted.receiver_type) == (
        receipt.broadcast_id,
        3,
        "Implementation",
    )


def test_a_response_to_a_broadcast_finds_its_copy(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    sent = team.broadcast(
        "manager_001",
        "Question",
        receiver_type="Implementation",
        correlation_id="req_1",
        qos={"deliveryClass": "async"},
    )
    team.drain(session)
    team.send("impl_001", "manager_001", "StatusUpdate", correlation_id="req_1")
    assert team.message(f"{sent.broadcast_id}:impl_001").state == "processed"
    assert team.message(f"{sent.broadcast_id}:impl_002").state == "queued"


def test_a_broadcast_to_a_type_that_nobody_has_is_refused(team: Team) -> None:
    problem = team.refused_send("manager_001", "*", receiver_type="AdHoc")
    assert (problem.code, problem.field, problem.found) == ("E_ROUTING_001", "$.receiver.type", "AdHoc")


def test_a_broadcast_that_leaves_somebody_out_says_whom_and_why(team: Team) -> None:
    team.register("impl_002", capabilities=("TASK_ASSIGNMENT",))
    receipt = team.broadcast("manager_001", receiver_type="Implementation")
    assert [copy.recipient for copy in receipt.receipts] == ["impl_001", "twin"]
    assert {agent: problem.code for agent, problem in receipt.failed.items()} == {"impl_002": "E_ROUTING_002"}
    assert receipt.code == "E_ROUTING_004"


def test_a_broadcast_that_reaches_nobody_is_refused(team: Team) -> None:
    problem = team.refused_send("manager_001", "*", "Blocker", receiver_type="Implementation")
    assert (problem.code, problem.retryable) == ("E_ROUTING_004", True)
    assert "impl_001: E_ADMISSION_006" in problem.detail
    assert not team.exchange.state.messages


def test_a_sync_broadcast_reaches_who_is_there(team: Team) -> None:
    team.attach("impl_002")
    receipt = team.broadcast("manager_001", "Blocker", receiver_type="Implementation")
    assert [copy.recipient for copy in receipt.receipts] == ["impl_002"]
    assert set(receipt.failed) == {"impl_001", "twin"}


def test_a_broadcast_has_a_limit(new_team: NewTeam) -> None:
    team = new_team("limits: {broadcast_recipients_max: 1}")
    for name in ("a", "b", "c"):
        team.register(name)
    problem = team.refused_send("a", "*")
    assert (problem.code, problem.retryable) == ("E_ADMISSION_008", False)


@pytest.mark.parametrize("message_type", ["StatusUpdate", "Blocker"])
def test_an_unknown_recipient_is_refused_before_anything_is_stored(team: Team, message_type: str) -> None:
    problem = team.refused_send("impl_001", "nobody", message_type)
    assert (problem.code, problem.field, problem.found) == ("E_ROUTING_001", "$.receiver.agentId", "nobody")
    assert (problem.entry.status, problem.entry.name) == (404, "unknown_recipient")
    assert not problem.retryable
    assert not team.exchange.state.messages
    (refused,) = team.happened(ev.SendRefused)
    assert (refused.sender, refused.recipient, refused.code) == ("impl_001", "nobody", "E_ROUTING_001")
    assert refused.message_type == message_type


@pytest.mark.parametrize(
    ("said", "kept"),
    [(TRACEPARENT, TRACEPARENT), ("x" * 10_000, ""), (7, ""), (["traceparent"], "")],
)
def test_a_refusal_remembers_the_trace_and_nothing_else_of_the_metadata(team: Team, said: object, kept: str) -> None:
    team.refused_send("impl_001", "nobody", metadata={"traceparent": said, "more": "traceparent"})
    assert team.happened(ev.SendRefused)[-1].traceparent == kept
    team.refused_send("impl_001", "nobody", metadata={"more": {"traceparent": said}})
    assert team.happened(ev.SendRefused)[-1].traceparent == ""


def test_an_invalid_receiver_is_refused(team: Team) -> None:
    problem = team.refused_send("manager_001", "impl_001", receiver_type="AdHoc")
    assert (problem.code, problem.field) == ("E_ROUTING_002", "$.receiver.type")
    assert (problem.found, problem.expected) == ("AdHoc", "Implementation")
    assert team.happened(ev.SendRefused)[0].code == "E_ROUTING_002"


def test_an_unavailable_channel_is_retried_three_times_and_then_reported(team: Team) -> None:
    team.attach("impl_001")
    team.attach("impl_002")
    sent = team.send("impl_002", "impl_001")
    team.advance(140, beating=True)
    requeued = team.happened(ev.MessageRequeued)
    assert [event.cause for event in requeued] == ["receipt_timeout"] * 3
    assert [round((event.ready_at - event.at) / 1_000_000) for event in requeued] == [1, 2, 4]
    (died,) = team.happened(ev.MessageDied)
    assert (died.reason, died.code, died.attempts) == ("receipt_timeout", "E_ROUTING_003", 3)
    assert team.message(sent.signal_id).state == "dead"
    report = team.happened(ev.MessageAccepted)[-1]
    assert (report.message_type, report.recipient, report.sender) == ("ERROR_REPORT", "impl_002", "tocsin")
    assert b"E_ROUTING_003" in report.payload


@pytest.mark.parametrize(
    ("message_type", "payload", "sender", "receiver"),
    [
        ("TASK_ASSIGNMENT", ASSIGNMENT, "manager_001", "impl_001"),
        ("STATE_SYNC", SYNC, "manager_001", "impl_001"),
        ("STATE_SYNC", SYNC, "impl_001", "manager_001"),
        ("ERROR_REPORT", ERROR, "impl_001", "manager_001"),
        ("ERROR_REPORT", ERROR, "helper", "manager_001"),
        ("ERROR_REPORT", ERROR, "impl_001", "boss"),
        ("HANDOFF_REQUEST", HANDOFF, "impl_001", "impl_002"),
        ("HANDOFF_REQUEST", HANDOFF, "manager_001", "helper"),
        ("TASK_ASSIGNMENT", ASSIGNMENT, "boss", "impl_001"),
    ],
)
def test_a_direction_that_the_catalogue_allows(
    team: Team, message_type: str, payload: dict[str, object], sender: str, receiver: str
) -> None:
    team.register("helper", "AdHoc")
    assert team.send(sender, receiver, message_type, payload=payload, correlation_id="req_1").queued


@pytest.mark.parametrize(
    ("message_type", "payload", "sender", "receiver", "code", "field"),
    [
        ("TASK_ASSIGNMENT", ASSIGNMENT, "impl_001", "impl_002", "E_AUTH_003", "$.sender.type"),
        ("TASK_ASSIGNMENT", ASSIGNMENT, "manager_001", "helper", "E_ROUTING_002", "$.receiver.type"),
        ("TASK_UPDATE", UPDATE, "manager_001", "manager_001", "E_AUTH_003", "$.sender.type"),
        ("TASK_UPDATE", UPDATE, "helper", "manager_001", "E_AUTH_003", "$.sender.type"),
        ("ERROR_REPORT", ERROR, "impl_001", "impl_002", "E_ROUTING_002", "$.receiver.type"),
    ],
)
def test_a_direction_that_the_catalogue_does_not_allow(
    team: Team, message_type: str, payload: dict[str, object], sender: str, receiver: str, code: str, field: str
) -> None:
    team.register("helper", "AdHoc")
    problem = team.refused_send(sender, receiver, message_type, payload=payload, correlation_id="req_1")
    assert (problem.code, problem.field) == (code, field)


def test_an_update_goes_from_implementation_to_manager(team: Team) -> None:
    team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id="req_1")
    assert team.send("impl_001", "manager_001", "TASK_UPDATE", payload=UPDATE, correlation_id="req_1").queued
    problem = team.refused_send("impl_001", "impl_002", "TASK_UPDATE", payload=UPDATE, correlation_id="req_1")
    assert (problem.code, problem.field) == ("E_ROUTING_002", "$.receiver.type")


def test_directions_are_policy(new_team: NewTeam) -> None:
    team = new_team("routing: {enforce_direction: false}")
    team.register("a", "AdHoc")
    team.register("b", "AdHoc")
    assert team.send("a", "b", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id="req_1").queued


@pytest.mark.parametrize("signal", ["MasterPreempted", "PeerJoined", "PeerLeft"])
def test_a_system_signal_is_for_directors(team: Team, signal: str) -> None:
    assert team.refused_send("impl_001", "impl_002", signal).code == "E_AUTH_003"
    assert team.send("boss", "impl_002", signal).queued


def test_an_agent_gets_what_it_declared_to_take(team: Team) -> None:
    team.register("impl_001", capabilities=("TASK_ASSIGNMENT", "STATE_SYNC"))
    problem = team.refused_send("impl_002", "impl_001", "StatusUpdate")
    assert (problem.code, problem.field, problem.found) == ("E_ROUTING_002", "$.messageType", "StatusUpdate")
    assert problem.expected == "one of TASK_ASSIGNMENT, STATE_SYNC"
    assert team.send("impl_002", "impl_001", "STATE_SYNC", payload=SYNC).queued


def test_acknowledgements_need_not_be_declared(team: Team) -> None:
    team.register("manager_001", "Manager", capabilities=("TASK_UPDATE",))
    session = team.attach("impl_001", "piggyback")
    sent = team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id="req_1")
    team.drain(session)
    payload = load("apm/ack_payload_received") | {"acknowledgedMessageId": sent.message_id}
    assert team.send("impl_001", "manager_001", "ACK", payload=payload, correlation_id="req_1").queued


def test_capabilities_are_policy(new_team: NewTeam) -> None:
    team = new_team("routing: {enforce_capabilities: false}")
    team.register("a", capabilities=("TASK_ASSIGNMENT",))
    team.register("b")
    assert team.send("b", "a").queued


def test_a_full_mailbox_refuses_and_says_when_to_try_again(new_team: NewTeam) -> None:
    team = new_team("limits: {mailbox_depth_max: 2}")
    team.register("a")
    team.register("b")
    for _ in range(2):
        team.send("a", "b")
    problem = team.refused_send("a", "b")
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_005", True, 5)
    session = team.attach("b", "piggyback")
    team.drain(session, 1)
    assert team.send("a", "b").queued


def test_a_full_mailbox_has_a_reserve_for_critical_and_above(new_team: NewTeam) -> None:
    """A mailbox that routine messages have filled refused even a DirectorOverride."""
    team = new_team("limits: {mailbox_depth_max: 2, mailbox_reserve: 2}")
    team.register("a")
    team.register("b")
    team.register("boss", "Director", "director")
    team.register("twin", role="clone")
    for _ in range(2):
        team.send("a", "b")
    assert team.refused_send("a", "b", "CUSTOM_NOTE", priority="Blocking").code == "E_ADMISSION_005"
    assert team.refused_send("twin", "b", "CUSTOM_NOTE", priority="Critical").code == "E_ADMISSION_005", "it is lowered"
    assert team.send("a", "b", "CUSTOM_NOTE", priority="Critical").queued
    assert team.send("boss", "b", "CUSTOM_NOTE", priority="DirectorOverride").queued
    problem = team.refused_send("boss", "b", "CUSTOM_NOTE", priority="DirectorOverride")
    assert (problem.code, "(4 messages)" in problem.detail) == ("E_ADMISSION_005", True)


def test_an_agent_may_write_to_itself(team: Team) -> None:
    assert team.send("impl_001", "impl_001").recipient == "impl_001"


def test_a_retired_agent_is_unknown(team: Team) -> None:
    team.ask(cmd.RetireAgent("impl_002"), "boss", cmd.Done)
    assert team.refused_send("impl_001", "impl_002").code == "E_ROUTING_001"

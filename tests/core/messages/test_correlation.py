"""Threads: what a correlationId must be (APM §2.1), and which answer means that a request is done (§4.2)."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.fixtures import load
from tocsin.core import events as ev

ASSIGNMENT = load("apm/task_assignment_payload")
HANDOFF = load("apm/handoff_request_payload_load_balancing")
ERROR = load("apm/error_report_payload_low")
SYNC = load("apm/state_sync_payload_task_update")


def assign(team: Team, correlation_id: str | None = "req_1") -> str:
    receipt = team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id=correlation_id)
    return receipt.message_id


def update(status: str) -> dict[str, object]:
    payload: dict[str, object] = load(f"apm/task_update_payload_{status}")
    return payload


@pytest.mark.parametrize(
    ("message_type", "payload", "sender", "receiver"),
    [
        ("TASK_ASSIGNMENT", ASSIGNMENT, "manager_001", "impl_001"),
        ("TASK_UPDATE", update("in_progress"), "impl_001", "manager_001"),
        ("HANDOFF_REQUEST", HANDOFF, "impl_001", "impl_002"),
    ],
)
def test_a_type_that_requires_a_correlation(
    team: Team, message_type: str, payload: dict[str, object], sender: str, receiver: str
) -> None:
    problem = team.refused_send(sender, receiver, message_type, payload=payload)
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_001", "$.correlationId", "nothing")


@pytest.mark.parametrize("message_type", ["ACK", "NACK"])
def test_a_confirmation_requires_a_correlation(team: Team, message_type: str) -> None:
    session = team.attach("impl_001", "piggyback")
    message_id = assign(team)
    team.drain(session)
    name = {"ACK": "acknowledgedMessageId", "NACK": "rejectedMessageId"}[message_type]
    fixture = {"ACK": "apm/ack_payload_received", "NACK": "apm/nack_payload"}[message_type]
    payload = load(fixture) | {name: message_id}
    assert team.refused_send("impl_001", "manager_001", message_type, payload=payload).code == "E_VALIDATION_001"
    problem = team.refused_send("impl_001", "manager_001", message_type, payload=payload, correlation_id="req_2")
    assert (problem.code, problem.field) == ("E_PROTOCOL_003", "$.correlationId")
    assert team.send("impl_001", "manager_001", message_type, payload=payload, correlation_id="req_1").queued


def test_a_confirmation_may_name_the_message_itself(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002")
    team.drain(session)
    payload = load("apm/ack_payload_received") | {"acknowledgedMessageId": sent.message_id}
    assert team.send("impl_002", "impl_001", "ACK", payload=payload, correlation_id=sent.message_id).queued


@pytest.mark.parametrize(
    ("message_type", "payload", "receiver"),
    [("STATE_SYNC", SYNC, "impl_002"), ("ERROR_REPORT", ERROR, "manager_001"), ("StatusUpdate", {}, "impl_002")],
)
@pytest.mark.parametrize("correlation_id", [None, "req_9"])
def test_a_type_whose_correlation_is_optional(
    team: Team, message_type: str, payload: dict[str, object], receiver: str, correlation_id: str | None
) -> None:
    assert team.send("impl_001", receiver, message_type, payload=payload, correlation_id=correlation_id).queued


def test_an_assignment_needs_a_new_correlation(team: Team) -> None:
    first = assign(team)
    problem = team.refused_send(
        "manager_001", "impl_001", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id="req_1"
    )
    assert (problem.code, problem.field, problem.found) == ("E_PROTOCOL_003", "$.correlationId", "req_1")
    assert first in problem.detail
    assert assign(team, "req_2")


def test_an_update_must_match_an_assignment(team: Team) -> None:
    team.send("impl_001", "impl_002", "HANDOFF_REQUEST", payload=HANDOFF, correlation_id="req_h")
    for correlation_id in ("req_unknown", "req_h"):
        problem = team.refused_send(
            "impl_001", "manager_001", "TASK_UPDATE", payload=update("blocked"), correlation_id=correlation_id
        )
        assert (problem.code, problem.expected) == ("E_PROTOCOL_003", "the id of the assignment")
    assign(team)
    assert team.send("impl_001", "manager_001", "TASK_UPDATE", payload=update("blocked"), correlation_id="req_1").queued


@pytest.mark.parametrize(
    ("status", "done"),
    [("in_progress", False), ("blocked", False), ("pending_review", False), ("completed", True), ("failed", True)],
)
def test_an_assignment_is_processed_when_its_update_says_so(team: Team, status: str, done: bool) -> None:
    session = team.attach("impl_001", "piggyback")
    message_id = assign(team)
    team.drain(session)
    team.ack("impl_001", message_id)
    team.send("impl_001", "manager_001", "TASK_UPDATE", payload=update(status), correlation_id="req_1")
    assert team.message(message_id).state == ("processed" if done else "acknowledged")


def test_a_response_implies_receipt_and_acknowledgement(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    message_id = assign(team)
    team.drain(session)
    team.send("impl_001", "manager_001", "TASK_UPDATE", payload=update("completed"), correlation_id="req_1")
    assert [event.how for event in team.happened(ev.MessageDelivered)] == ["response"]
    assert [event.status for event in team.happened(ev.MessageAcknowledged)] == ["response"]
    assert [event.how for event in team.happened(ev.MessageProcessed)] == ["response"]
    assert team.message(message_id).state == "processed"


def test_any_answer_of_the_recipient_processes_a_handoff(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002", "HANDOFF_REQUEST", payload=HANDOFF, correlation_id="req_1")
    team.send("manager_001", "impl_001", correlation_id="req_1")
    assert team.message(sent.signal_id).state == "queued", "somebody else's answer is none"
    team.drain(session)
    team.send("impl_002", "manager_001", correlation_id="req_1")
    assert team.message(sent.signal_id).state == "offered", "an answer to somebody else is none"
    team.send("impl_002", "impl_001", correlation_id="req_1")
    assert team.message(sent.signal_id).state == "processed"


def test_an_acknowledgement_is_no_answer(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002", "HANDOFF_REQUEST", payload=HANDOFF, correlation_id="req_1")
    team.drain(session)
    payload = load("apm/ack_payload_received") | {"acknowledgedMessageId": sent.message_id}
    team.send("impl_002", "impl_001", "ACK", payload=payload, correlation_id="req_1")
    assert team.message(sent.signal_id).state == "acknowledged"


def test_an_answer_to_what_was_never_offered_is_none(team: Team) -> None:
    sent = team.send("impl_001", "impl_002", "HANDOFF_REQUEST", payload=HANDOFF, correlation_id="req_1")
    team.send("impl_002", "impl_001", correlation_id="req_1")
    assert team.message(sent.signal_id).state == "queued"


def test_an_answer_to_what_has_ended_changes_nothing(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    sent = team.send("impl_001", "impl_002", "HANDOFF_REQUEST", payload=HANDOFF, correlation_id="req_1")
    team.drain(session)
    team.nack("impl_002", sent.signal_id, can_retry=False)
    team.send("impl_002", "impl_001", correlation_id="req_1")
    assert team.message(sent.signal_id).state == "dead"


def test_an_idle_thread_is_forgotten_after_a_week(team: Team) -> None:
    assign(team, "req_1")
    team.advance(604_800 - 60)
    assert "req_1" in team.exchange.state.threads
    team.advance(180)
    assert "req_1" not in team.exchange.state.threads


def test_a_thread_that_goes_on_is_remembered(team: Team) -> None:
    assign(team, "req_1")
    team.advance(600_000)
    team.send("impl_001", "manager_001", "TASK_UPDATE", payload=update("blocked"), correlation_id="req_1")
    team.advance(600_000)
    assert "req_1" in team.exchange.state.threads


def test_threads_have_a_limit(new_team: NewTeam) -> None:
    team = new_team("limits: {threads_max: 2}\nretention: {batch: 1}")
    team.register("manager_001", "Manager")
    team.register("impl_001")
    for number in range(5):
        assign(team, f"req_{number}")
    assert list(team.exchange.state.threads) == ["req_3", "req_4"]

"""From delivered to done: APM §4.2's transitions and §4.3's timeouts, ACK, NACK and processed, alone and twice."""

import msgspec
import pytest

from tests.core.driver import SECOND, Team
from tests.fixtures import load
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.messages.lifecycle import apm_state
from tocsin.core.protocol.timestamps import as_datetime, iso

ASSIGNMENT = load("apm/task_assignment_payload")

#: A timer is late by at most this, microseconds.
GRANULARITY = 10_000

PAYLOADS: dict[str, dict[str, object]] = {
    "TASK_ASSIGNMENT": ASSIGNMENT,
    "TASK_UPDATE": load("apm/task_update_payload_in_progress"),
    "STATE_SYNC": load("apm/state_sync_payload_task_update"),
    "ERROR_REPORT": load("apm/error_report_payload_critical"),
    "HANDOFF_REQUEST": load("apm/handoff_request_payload_load_balancing"),
}


def send(team: Team, message_type: str) -> str:
    """Send an APM message to an agent that may receive it, and return its id."""
    if message_type == "TASK_UPDATE":
        team.send("manager_001", "impl_002", "TASK_ASSIGNMENT", payload=ASSIGNMENT, correlation_id="req_1")
    receiver = "manager_001" if message_type in ("TASK_UPDATE", "ERROR_REPORT") else "impl_001"
    sender = "impl_002" if receiver == "manager_001" else "manager_001"
    payload = PAYLOADS[message_type]
    return team.send(sender, receiver, message_type, payload=payload, correlation_id="req_1").signal_id


def assign(team: Team) -> str:
    return send(team, "TASK_ASSIGNMENT")


def drained(team: Team) -> str:
    """Send an assignment to a session that takes it."""
    session = team.attach("impl_001", "piggyback")
    message_id = assign(team)
    team.drain(session)
    return message_id


def live(team: Team, message_id: str, seconds: float) -> None:
    """Let time pass while the recipient confirms each receipt, and nothing more."""
    end = team.now + round(seconds * SECOND)
    while (due := team.exchange.next_due()) is not None and due <= end:
        team.advance(max(0, due - team.now) / SECOND, beating=True)
        message = team.message(message_id)
        if message.state == "offered":
            team.confirm(message.recipient, message_id)


@pytest.mark.parametrize(
    ("message_type", "timeout_s", "backoffs_s", "cause", "code"),
    [
        ("TASK_ASSIGNMENT", 30, [1, 2, 4], "ack_timeout", "E_PROTOCOL_004"),
        ("ERROR_REPORT", 30, [1, 2, 4], "ack_timeout", "E_PROTOCOL_004"),
        ("HANDOFF_REQUEST", 60, [2, 4], "ack_timeout", "E_PROTOCOL_004"),
        ("TASK_UPDATE", 15, [1, 2], "receipt_timeout", "E_ROUTING_003"),
        ("STATE_SYNC", 10, [1, 2], "receipt_timeout", "E_ROUTING_003"),
    ],
)
def test_timeout_behaviour(
    team: Team, message_type: str, timeout_s: int, backoffs_s: list[int], cause: str, code: str
) -> None:
    receiver = "manager_001" if message_type in ("TASK_UPDATE", "ERROR_REPORT") else "impl_001"
    team.attach(receiver)
    message_id = send(team, message_type)
    seq = team.message(message_id).seq
    if cause == "ack_timeout":
        team.confirm(receiver, message_id)
        live(team, message_id, 300)
    else:
        team.advance(100, beating=True)
    offers = [event.at for event in team.happened(ev.MessageOffered) if event.message == seq]
    requeued = [event for event in team.happened(ev.MessageRequeued) if event.message == seq]
    (died,) = [event for event in team.happened(ev.MessageDied) if event.message == seq]
    assert len(offers) == 1 + len(backoffs_s)
    assert [event.cause for event in requeued] == [cause] * len(backoffs_s)
    assert [event.threshold_s for event in requeued] == [timeout_s] * len(backoffs_s)
    assert [event.attempts for event in requeued] == list(range(1, len(backoffs_s) + 1))
    assert [event.ready_at - event.at for event in requeued] == [wait_s * SECOND for wait_s in backoffs_s]
    for offered_at, timed_out_at in zip(offers, [*(event.at for event in requeued), died.at], strict=True):
        assert 0 <= timed_out_at - offered_at - timeout_s * SECOND <= GRANULARITY
    for event, offered_again_at in zip(requeued, offers[1:], strict=True):
        assert 0 <= offered_again_at - event.ready_at <= GRANULARITY
    assert (died.reason, died.code, died.attempts) == (cause, code, len(backoffs_s))


@pytest.mark.parametrize("message_type", ["ACK", "NACK"])
def test_a_confirmation_is_fire_and_forget(team: Team, message_type: str) -> None:
    message_id = drained(team)
    session = team.attach("manager_001", "piggyback")
    fixture = {"ACK": "apm/ack_payload_queued", "NACK": "apm/nack_payload"}[message_type]
    name = {"ACK": "acknowledgedMessageId", "NACK": "rejectedMessageId"}[message_type]
    payload = load(fixture) | {name: message_id}
    sent = team.send("impl_001", "manager_001", message_type, payload=payload, correlation_id="req_1")
    assert sent.signal_id in team.drain(session)
    team.confirm("manager_001", sent.signal_id)
    team.advance(300, beating=True)
    assert team.message(sent.signal_id).state == "delivered"
    assert team.message(sent.signal_id).offers == 1


def test_pending_to_in_transit(team: Team) -> None:
    message_id = assign(team)
    message = team.message(message_id)
    assert apm_state(message) == "PENDING"
    team.drain(team.attach("impl_001", "piggyback"))
    assert (apm_state(message), message.offered_at) == ("IN_TRANSIT", team.now)
    team.confirm("impl_001", message_id)
    assert apm_state(message) == "IN_TRANSIT", "its contract still awaits an ACK"


def test_in_transit_to_delivered(team: Team) -> None:
    message_id = drained(team)
    assert team.ack("impl_001", message_id) == cmd.Acknowledged(message_id, "acknowledged")
    message = team.message(message_id)
    assert (apm_state(message), message.acked_at) == ("DELIVERED", team.now)
    team.advance(1000, beating=True)
    assert message.offers == 1, "its timer was cancelled"


def test_in_transit_to_failed_by_a_permanent_nack(team: Team) -> None:
    message_id = drained(team)
    reply = team.nack("impl_001", message_id, can_retry=False, code="E_TASK_001")
    assert reply == cmd.Rejected(message_id, "dead", None)
    assert apm_state(team.message(message_id)) == "FAILED"
    assert list(team.exchange.state.dead) == [team.message(message_id).seq]
    (died,) = team.happened(ev.MessageDied)
    assert (died.reason, died.code) == ("rejected", "E_TASK_001")
    report = team.happened(ev.MessageAccepted)[-1]
    assert (report.message_type, report.recipient) == ("ERROR_REPORT", "manager_001")


def test_in_transit_to_failed_after_three_retries(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    message_id = assign(team)
    for wait_s in (1, 2, 4):
        assert team.drain(session) == [message_id]
        assert team.nack("impl_001", message_id, can_retry=True).state == "queued"
        team.advance(wait_s + 0.02, beating=True)
    assert team.drain(session) == [message_id]
    assert team.nack("impl_001", message_id, can_retry=True).state == "dead"


def test_in_transit_to_pending_by_a_nack_that_can_retry(team: Team) -> None:
    message_id = drained(team)
    reply = team.nack("impl_001", message_id, can_retry=True)
    assert (reply.state, reply.ready_at) == ("queued", as_datetime(team.now + 1 * SECOND))
    message = team.message(message_id)
    assert (apm_state(message), message.attempts, message.delivered_at) == ("PENDING", 1, 0)
    (requeued,) = team.happened(ev.MessageRequeued)
    assert (requeued.cause, requeued.attempts, requeued.attempts_max) == ("nack", 1, 3)


def test_a_retry_says_how_often_it_was_tried(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    message_id = assign(team)
    team.drain(session)
    team.nack("impl_001", message_id, can_retry=True)
    team.advance(1.1)
    reply = team.ask(cmd.Drain(session, 1), "impl_001", cmd.Drained)
    assert b'"retryCount":1' in reply.deliveries[0].envelope
    assert reply.deliveries[0].offer == 2


def test_delivered_to_processed_by_confirmation(team: Team) -> None:
    message_id = drained(team)
    team.ack("impl_001", message_id)
    team.advance(5)
    team.done("impl_001", message_id)
    message = team.message(message_id)
    assert (apm_state(message), message.processed_at) == ("PROCESSED", team.now)
    (processed,) = team.happened(ev.MessageProcessed)
    assert (processed.how, processed.latency_us) == ("processed", 5 * SECOND)


def test_a_processed_ack_does_both(team: Team) -> None:
    message_id = drained(team)
    assert team.ack("impl_001", message_id, "processed").state == "processed"
    assert [event.how for event in team.happened(ev.MessageProcessed)] == ["ack"]


@pytest.mark.parametrize(
    ("status", "state"), [("received", "acknowledged"), ("queued", "acknowledged"), ("processed", "processed")]
)
def test_an_ack_message_does_what_the_command_does(team: Team, status: str, state: str) -> None:
    message_id = drained(team)
    payload = load(f"apm/ack_payload_{status}") | {"acknowledgedMessageId": message_id}
    team.send("impl_001", "manager_001", "ACK", payload=payload, correlation_id="req_1")
    assert team.message(message_id).state == state
    (acknowledged,) = team.happened(ev.MessageAcknowledged)
    assert (acknowledged.status, acknowledged.notes) == (status, "Message queued for processing")


@pytest.mark.parametrize(("can_retry", "state"), [(True, "queued"), (False, "dead"), (None, "dead")])
def test_a_nack_message_does_what_the_command_does(team: Team, can_retry: bool | None, state: str) -> None:
    message_id = drained(team)
    payload = load("apm/nack_payload") | {"rejectedMessageId": message_id, "canRetry": can_retry}
    team.send("impl_001", "manager_001", "NACK", payload=payload, correlation_id="req_1")
    assert team.message(message_id).state == state
    (rejected,) = team.happened(ev.MessageRejected)
    assert rejected.reason == "Schema validation failed: missing required field 'taskId'"
    assert (rejected.code, rejected.suggested_fix) == ("E_VALIDATION_002", "Add 'taskId' field to payload")


@pytest.mark.parametrize("message_type", ["ACK", "NACK"])
def test_a_confirmation_of_nothing_is_refused(team: Team, message_type: str) -> None:
    fixture = {"ACK": "apm/ack_payload_received", "NACK": "apm/nack_payload"}[message_type]
    problem = team.refused_send("impl_001", "manager_001", message_type, payload=load(fixture), correlation_id="req_1")
    assert problem.code == "E_STATE_001"
    assert problem.field in ("$.payload.acknowledgedMessageId", "$.payload.rejectedMessageId")


def test_an_ack_twice_is_no_news(team: Team) -> None:
    message_id = drained(team)
    team.ack("impl_001", message_id)
    assert team.ack("impl_001", message_id) == cmd.Acknowledged(message_id, "acknowledged", duplicate=True)
    assert len(team.happened(ev.MessageAcknowledged)) == 1
    team.ack("impl_001", message_id, "processed")
    assert team.ack("impl_001", message_id, "processed").duplicate
    team.done("impl_001", message_id)
    assert len(team.happened(ev.MessageProcessed)) == 1


def test_an_ack_of_a_signal_is_welcome(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    sent = team.send("impl_002", "impl_001").signal_id
    team.drain(session)
    assert team.ack("impl_001", sent).state == "acknowledged"


def test_a_signal_can_be_processed_without_an_ack(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    sent = team.send("impl_002", "impl_001").signal_id
    team.drain(session)
    team.done("impl_001", sent)
    assert team.message(sent).state == "processed"
    assert not team.happened(ev.MessageAcknowledged)


def test_an_ack_that_comes_after_its_timeout_still_counts(team: Team) -> None:
    team.attach("impl_001")
    message_id = assign(team)
    team.confirm("impl_001", message_id)
    team.advance(30.5)
    assert team.message(message_id).state == "queued"
    assert team.ack("impl_001", message_id).state == "acknowledged"
    team.advance(100, beating=True)
    assert team.message(message_id).offers == 1


@pytest.mark.parametrize("command", ["ack", "nack", "done"])
def test_only_the_recipient_can_confirm(team: Team, command: str) -> None:
    message_id = drained(team)
    commands: dict[str, cmd.Command] = {
        "ack": cmd.Acknowledge(message_id),
        "nack": cmd.Reject(message_id, "no"),
        "done": cmd.MarkProcessed(message_id),
    }
    for somebody_else in ("impl_002", "manager_001", "boss"):
        assert team.refused(commands[command], somebody_else).code == "E_STATE_001"
    assert team.message(message_id).state == "offered"


def test_what_was_never_offered_has_no_receipt(team: Team) -> None:
    message_id = assign(team)
    assert team.confirm("impl_001", message_id) == cmd.Confirmed(0, (message_id,))
    assert team.message(message_id).state == "queued"


def test_what_has_ended_cannot_be_confirmed(team: Team) -> None:
    message_id = drained(team)
    team.nack("impl_001", message_id, can_retry=False)
    for command in (cmd.Acknowledge(message_id), cmd.MarkProcessed(message_id), cmd.Reject(message_id, "again")):
        assert team.refused(command, "impl_001").code == "E_STATE_002"


def test_what_is_acknowledged_cannot_be_rejected(team: Team) -> None:
    message_id = drained(team)
    team.ack("impl_001", message_id)
    assert team.refused(cmd.Reject(message_id, "too late"), "impl_001").code == "E_STATE_002"


def test_a_status_that_is_none_is_refused(team: Team) -> None:
    message_id = drained(team)
    problem = team.refused(cmd.Acknowledge(message_id, "seen"), "impl_001")  # type: ignore[arg-type]
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_003", "$.status", "seen")


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (cmd.Acknowledge("{id}", notes="x" * 4097), "$.notes"),
        (cmd.Reject("{id}", "x" * 4097), "$.reason"),
        (cmd.Reject("{id}", "no", code="x" * 4097), "$.code"),
        (cmd.Reject("{id}", "no", suggested_fix="x" * 4097), "$.suggestedFix"),
    ],
)
def test_free_text_has_a_limit(team: Team, command: cmd.Acknowledge | cmd.Reject, field: str) -> None:
    message_id = drained(team)
    problem = team.refused(msgspec.structs.replace(command, message_id=message_id), "impl_001")
    assert (problem.code, problem.field) == ("E_VALIDATION_004", field)
    assert (problem.found, problem.expected) == ("4097 characters", "at most 4096 characters")


def test_a_code_that_the_catalogue_does_not_have_is_not_passed_on(team: Team) -> None:
    message_id = drained(team)
    team.nack("impl_001", message_id, can_retry=False, code="MY_CODE")
    assert team.happened(ev.MessageRejected)[0].code == "MY_CODE"
    assert team.happened(ev.MessageDied)[0].code == "E_VALIDATION_004"


def test_an_ack_frees_the_window(team: Team) -> None:
    team.attach("impl_001", window=1)
    first, second = team.send("impl_002", "impl_001").signal_id, team.send("impl_002", "impl_001").signal_id
    team.ack("impl_001", first)
    assert team.message(second).state == "offered"


def test_an_acknowledged_message_waits_a_week_to_be_processed(team: Team) -> None:
    message_id = drained(team)
    team.ack("impl_001", message_id)
    team.advance(604_800 - 120)
    team.done("impl_001", message_id)
    assert team.message(message_id).state == "processed"


def test_an_ended_message_is_forgotten_after_an_hour(team: Team) -> None:
    message_id = drained(team)
    team.ack("impl_001", message_id, "processed")
    team.advance(3600 - 60)
    assert team.exchange.state.copies_of(message_id)
    team.advance(180)
    assert not team.exchange.state.copies_of(message_id)
    assert team.happened(ev.MessagesForgotten)[0].settled == 1


@pytest.mark.parametrize("message_type", ["ACK", "NACK"])
def test_a_confirmation_goes_back_to_the_sender_and_nobody_else(team: Team, message_type: str) -> None:
    """APM §2.1: Receiver to Sender."""
    message_id = drained(team)
    fixture = {"ACK": "apm/ack_payload_received", "NACK": "apm/nack_payload"}[message_type]
    name = {"ACK": "acknowledgedMessageId", "NACK": "rejectedMessageId"}[message_type]
    payload = load(fixture) | {name: message_id}
    problem = team.refused_send("impl_001", "impl_002", message_type, payload=payload, correlation_id="req_1")
    assert (problem.code, problem.field) == ("E_ROUTING_002", "$.receiver.agentId")
    assert team.message(message_id).state == "offered"


@pytest.mark.parametrize("how", ["ack", "nack", "done", "envelope", "work"])
def test_a_recipient_settles_what_it_has_seen_without_taking_it(team: Team, how: str) -> None:
    """A hook or a list of the inbox has shown the message, and nothing was offered."""
    message_id = assign(team)
    if how == "ack":
        assert team.ack("impl_001", message_id).state == "acknowledged"
    elif how == "nack":
        assert team.nack("impl_001", message_id, can_retry=False).state == "dead"
    elif how == "done":
        team.done("impl_001", message_id)
    elif how == "work":
        team.ask(cmd.BeginWork(message_id), "impl_001", cmd.Attending)
    else:
        payload = {"acknowledgedMessageId": message_id, "status": "received", "timestamp": iso(team.now)}
        team.send("impl_001", "manager_001", "ACK", payload=payload, correlation_id="req_1")
    (delivered,) = team.happened(ev.MessageDelivered)
    assert delivered.how == ("nack" if how == "nack" else "ack")
    assert not team.happened(ev.MessageOffered)
    assert team.drain(team.attach("impl_001", "piggyback")) == []


def test_an_answer_settles_a_question_that_was_acknowledged_without_taking_it(team: Team) -> None:
    asked = team.send("manager_001", "impl_001", "CUSTOM_ASK", correlation_id="talk_1").signal_id
    team.ack("impl_001", asked)
    team.send("impl_001", "manager_001", "StatusUpdate", correlation_id="talk_1")
    assert team.message(asked).state == "processed"
    assert [event.how for event in team.happened(ev.MessageDelivered)] == ["ack"]


def test_what_is_held_or_was_recalled_before_an_offer_is_unknown_to_its_recipient(team: Team) -> None:
    message_id = assign(team)
    assert team.recall("manager_001", message_id) == "recalled"
    assert team.refused(cmd.Acknowledge(message_id), "impl_001").code == "E_STATE_001"

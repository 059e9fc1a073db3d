"""Sending: delivery classes (SPEC-071 §4.2), the send response (§5), overrides (§6), idempotency (design §5.2)."""

from typing import Any

import msgspec
import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, START, CountedIds, Team
from tests.fixtures import load, load_bytes, names
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem, TocsinError
from tocsin.core.exchange import Exchange
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.timestamps import as_datetime, as_microseconds, iso

ASSIGNMENT = load("apm/task_assignment_payload")


def make_available(team: Team, agent: str) -> None:
    team.attach(agent, "push")


def make_stale(team: Team, agent: str) -> None:
    team.attach(agent, "push")
    team.advance(61)


def make_offline(team: Team, agent: str) -> None:
    team.detach(team.attach(agent, "push"))


PRESENCES = {
    "available": make_available,
    "not_available_stale": make_stale,
    "not_available_offline": make_offline,
}


@pytest.mark.parametrize("delivery_class", ["sync", "async"])
def test_available_is_published(team: Team, delivery_class: str) -> None:
    make_available(team, "impl_002")
    receipt = team.send("impl_001", "impl_002", qos={"deliveryClass": delivery_class})
    assert (receipt.delivered, receipt.queued, receipt.recipient_state) == (True, False, "available")
    assert receipt.delivery_class == delivery_class


@pytest.mark.parametrize("presence", ["not_available_offline", "not_available_stale"])
def test_sync_to_who_is_not_there_fails_fast(team: Team, presence: str) -> None:
    PRESENCES[presence](team, "impl_002")
    problem = team.refused_send("impl_001", "impl_002", qos={"deliveryClass": "sync"})
    assert (problem.code, problem.retryable) == ("E_ADMISSION_006", True)
    assert problem.facts == {"recipient_state": presence}
    assert not team.exchange.state.messages, "sync never queues"
    assert team.happened(ev.SendRefused)[-1].code == "E_ADMISSION_006"


@pytest.mark.parametrize("presence", ["not_available_offline", "not_available_stale"])
def test_async_to_who_is_not_there_is_queued_with_a_ttl(team: Team, presence: str) -> None:
    PRESENCES[presence](team, "impl_002")
    receipt = team.send("impl_001", "impl_002", qos={"deliveryClass": "async"})
    assert (receipt.delivered, receipt.queued, receipt.recipient_state) == (False, True, presence)
    assert (receipt.publish_path, receipt.resolved_to_session) == ("queued_offline", None)
    assert receipt.expires_at == as_datetime(team.now + 86400 * SECOND)


def test_sync_to_a_piggyback_recipient_is_buffered(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    receipt = team.send("impl_001", "impl_002", "Blocker")
    assert (receipt.delivery_class, receipt.delivered, receipt.queued) == ("sync", False, True)
    assert (receipt.recipient_state, receipt.publish_path) == ("available", "buffered_for_piggyback")
    assert receipt.resolved_to_session == session


def test_a_full_window_queues_and_says_so(team: Team) -> None:
    team.attach("impl_002", window=1)
    first, second = team.send("impl_001", "impl_002"), team.send("impl_001", "impl_002")
    assert (first.delivered, second.delivered, second.queued) == (True, False, True)
    assert (second.publish_path, second.resolved_to_session) == ("queued_offline", None)
    assert second.recipient_state == "available"


@pytest.mark.parametrize("window", [0, 1])
def test_sync_needs_a_live_connection_with_room(team: Team, window: int) -> None:
    """A window of 0 is that of a socket that has dropped, or of a paused one; a window of 1 is full with one offer."""
    team.attach("impl_002", window=window)
    for _ in range(window):
        team.send("impl_001", "impl_002")
    problem = team.refused_send("impl_001", "impl_002", qos={"deliveryClass": "sync"})
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_006", True, 5)
    assert problem.facts == {"recipient_state": "not_available_stale"}
    assert len(team.exchange.state.messages) == window, "sync never queues"


def test_sync_goes_to_the_session_that_has_room(team: Team) -> None:
    team.attach("impl_002", window=0)
    session = team.attach("impl_002", "piggyback")
    receipt = team.send("impl_001", "impl_002", qos={"deliveryClass": "sync"})
    assert (receipt.publish_path, receipt.resolved_to_session) == ("buffered_for_piggyback", session)
    pushed = team.attach("impl_002")
    receipt = team.send("impl_001", "impl_002", qos={"deliveryClass": "sync"})
    assert (receipt.publish_path, receipt.resolved_to_session) == ("pushed_to_ws", pushed)


def test_the_path_of_a_message_that_waits_for_a_busy_recipient_is_the_queue(team: Team) -> None:
    team.attach("impl_002")
    work = team.send("impl_001", "impl_002", priority="Coordinate")
    team.ask(cmd.BeginWork(work.signal_id), "impl_002", cmd.Attending)
    receipt = team.send("impl_001", "impl_002", priority="Coordinate")
    assert (receipt.delivered, receipt.queued, receipt.publish_path) == (False, True, "queued_offline")
    urgent = team.send("impl_001", "impl_002", "CUSTOM_NOTE", priority="Critical")
    assert (urgent.delivered, urgent.publish_path) == (True, "pushed_to_ws")


def test_the_path_of_a_held_message_is_the_queue(team: Team) -> None:
    team.attach("impl_002")
    receipt = team.send("impl_001", "impl_002", "CUSTOM_PLAN")
    assert (receipt.held, receipt.delivered, receipt.publish_path) == (True, False, "queued_offline")


@pytest.mark.parametrize("path", ["pushed_to_ws", "buffered_for_piggyback", "queued_offline"])
def test_the_send_response(new_team: NewTeam, path: str) -> None:
    team = new_team()
    team.register("manager_001", "Manager")
    team.register("impl_001")
    kinds: dict[str, cmd.SessionKind] = {"pushed_to_ws": "push", "buffered_for_piggyback": "piggyback"}
    if path in kinds:
        team.attach("impl_001", kinds[path])
    envelope = parse_envelope(load_bytes("spec071/TaskAssigned"), 1_048_576)
    receipt = team.ask(cmd.Send(envelope), "manager_001", cmd.Receipt)
    expected = load(f"spec071/send_response_{path}")
    assert response(receipt) == expected


def response(receipt: cmd.Receipt) -> dict[str, Any]:
    return {
        "signal_id": receipt.signal_id,
        "delivered": receipt.delivered,
        "queued": receipt.queued,
        "recipient_state": receipt.recipient_state.value,
        "delivery_class": receipt.delivery_class.value,
        "expires_at": iso(as_microseconds(receipt.expires_at)),
        "resolved_to_session": receipt.resolved_to_session,
        "publish_path": receipt.publish_path.value,
    }


@pytest.mark.parametrize(
    ("signal_type", "delivery_class", "ttl_s", "priority"),
    [
        ("Blocker", "sync", 4 * 3600, "Critical"),
        ("Question", "sync", 3600, "Blocking"),
        ("ReviewRequested", "async", 24 * 3600, "Blocking"),
        ("TaskAssigned", "async", 7 * 86400, "Coordinate"),
        ("TaskCompleted", "async", 24 * 3600, "Info"),
        ("StatusUpdate", "async", 24 * 3600, "Info"),
        ("Acknowledgment", "async", 3600, "Info"),
        ("MasterPreempted", "async", 120, "Info"),
        ("PeerJoined", "async", 300, "Info"),
        ("PeerLeft", "async", 300, "Info"),
    ],
)
def test_a_signal_goes_out_with_the_defaults_of_its_type(
    team: Team, signal_type: str, delivery_class: str, ttl_s: int, priority: str
) -> None:
    team.attach("impl_001")
    envelope = parse_envelope(load_bytes(f"spec071/{signal_type}"), 1_048_576)
    receipt = team.ask(cmd.Send(envelope), envelope.sender.agent_id, cmd.Receipt)
    assert (receipt.delivery_class, receipt.priority) == (delivery_class, priority)
    assert receipt.expires_at == as_datetime(team.now + ttl_s * SECOND)


def test_there_is_a_fixture_for_each_signal() -> None:
    assert len(names("spec071/[A-Z]*")) == 10


def test_a_blocker_downgraded_to_async_lives_four_hours(team: Team) -> None:
    receipt = team.send("impl_001", "impl_002", "Blocker", qos={"deliveryClass": "async"})
    assert (receipt.queued, receipt.expires_at) == (True, as_datetime(START + 14400 * SECOND))


def test_the_sender_may_say_otherwise(team: Team) -> None:
    team.attach("impl_002")
    receipt = team.send("impl_001", "impl_002", qos={"deliveryClass": "sync"}, metadata={"ttl": 1.5}, priority="ASK")
    assert (receipt.delivery_class, receipt.expires_at, receipt.priority) == (
        "sync",
        as_datetime(START + 1_500_000),
        "Blocking",
    )


@pytest.mark.parametrize("ttl", [2592000.5, 1e12])
def test_a_ttl_has_a_limit(team: Team, ttl: float) -> None:
    problem = team.refused_send("impl_001", "impl_002", metadata={"ttl": ttl})
    assert (problem.code, problem.field) == ("E_VALIDATION_004", "$.metadata.ttl")
    assert problem.expected == "at most 2592000"


def test_the_longest_ttl_is_taken(team: Team) -> None:
    receipt = team.send("impl_001", "impl_002", metadata={"ttl": 2592000})
    assert receipt.expires_at == as_datetime(START + 2592000 * SECOND)


def test_bad_metadata_is_refused_with_its_field(team: Team) -> None:
    with pytest.raises(TocsinError) as caught:
        team.envelope("impl_001", "impl_002", metadata={"tags": "x"})
    problem = caught.value.problem
    assert (problem.code, problem.field) == ("E_VALIDATION_002", "$.metadata.tags")


def test_an_apm_message_without_a_ttl_lives_an_hour(team: Team) -> None:
    receipt = team.send(
        "manager_001",
        "impl_001",
        "TASK_ASSIGNMENT",
        payload=ASSIGNMENT,
        correlation_id="r",
        version="1.0.0",
        priority="HIGH",
    )
    assert receipt.expires_at == as_datetime(START + 3600 * SECOND)


def test_the_examples_of_apm_are_accepted(team: Team) -> None:
    for name in ("apm/task_assignment", "apm/envelope"):
        document = load(name) | {"correlationId": "req_task_3_1"}
        envelope = parse_envelope(msgspec.json.encode(document), 1_048_576)
        assert team.ask(cmd.Send(envelope), envelope.sender.agent_id, cmd.Receipt).queued


def test_a_custom_type_is_carried(team: Team) -> None:
    custom = load("apm/custom")
    receipt = team.send(
        "impl_001", "impl_002", custom["messageType"], payload=custom["payload"], metadata=custom["metadata"]
    )
    message = team.message(receipt.signal_id)
    assert (message.type, receipt.delivery_class) == ("CUSTOM_ANALYSIS_REQUEST", "async")
    assert msgspec.json.decode(message.metadata) == {"tags": ["custom", "analysis"]}


@pytest.mark.parametrize("message_type", ["ANALYSIS_REQUEST", "task_update", "Custom_X", "DIAGNOSTIC_REQUEST"])
def test_a_type_that_nobody_defined_is_refused(team: Team, message_type: str) -> None:
    problem = team.refused_send("impl_001", "impl_002", message_type)
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_003", "$.messageType", message_type)
    assert "TASK_ASSIGNMENT" in (problem.expected or "")


def test_a_bad_payload_is_refused_with_its_field(team: Team) -> None:
    payload = {field: value for field, value in ASSIGNMENT.items() if field != "taskId"}
    problem = team.refused_send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=payload, correlation_id="r")
    assert (problem.code, problem.field) == ("E_VALIDATION_001", "$.payload.taskId")


def test_the_envelope_does_not_say_who_sends(team: Team) -> None:
    envelope = team.envelope("impl_001", "impl_002")
    reply = team.handle(cmd.Send(envelope), team.caller("manager_001")).reply
    assert isinstance(reply, Problem)
    assert (reply.code, reply.field) == ("E_AUTH_002", "$.sender.agentId")
    assert (reply.found, reply.expected) == ("impl_001", "manager_001")


def test_who_is_not_registered_may_not_send(team: Team) -> None:
    assert team.refused_send("stranger", "impl_002").code == "E_AUTH_007"


@pytest.mark.parametrize("caller", [Caller("boss", "director"), cmd.SYSTEM])
def test_nothing_is_taken_before_a_policy(caller: Caller) -> None:
    reply = Exchange(CountedIds()).handle(cmd.Tick(), caller, START).reply
    assert isinstance(reply, Problem)
    assert reply.code == "E_POLICY_002"


def test_the_same_message_again_is_answered_with_the_first_receipt(team: Team) -> None:
    first = team.send("impl_001", "impl_002", message_id="msg_1_a", payload={"n": 1})
    make_available(team, "impl_002")
    events = len(team.events)
    again = team.send("impl_001", "impl_002", message_id="msg_1_a", payload={"n": 1})
    assert again.duplicate
    assert not first.duplicate
    assert (again.delivered, again.recipient_state, again.publish_path, again.expires_at) == (
        first.delivered,
        first.recipient_state,
        first.publish_path,
        first.expires_at,
    )
    assert len(team.events) == events, "it changes nothing"


def test_the_first_receipt_stands_after_the_message_has_ended(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    team.send("impl_001", "impl_002", message_id="msg_1_a", payload={"n": 1})
    team.drain(session)
    team.ack("impl_002", "msg_1_a", "processed")
    assert team.send("impl_001", "impl_002", message_id="msg_1_a", payload={"n": 1}).duplicate


@pytest.mark.parametrize(
    ("receiver", "message_type", "parts"),
    [
        ("impl_002", "StatusUpdate", {"payload": {"n": 2}}),
        ("impl_002", "TaskCompleted", {"payload": {"n": 1}}),
        ("manager_001", "StatusUpdate", {"payload": {"n": 1}}),
        ("impl_002", "StatusUpdate", {"payload": {"n": 1}, "correlation_id": "req_2"}),
        ("*", "StatusUpdate", {"payload": {"n": 1}}),
    ],
)
def test_the_same_id_with_other_content_is_refused(
    team: Team, receiver: str, message_type: str, parts: dict[str, Any]
) -> None:
    team.send("impl_001", "impl_002", message_id="msg_1_a", payload={"n": 1}, correlation_id="req_1")
    problem = team.refused_send(
        "impl_001", receiver, message_type, message_id="msg_1_a", **({"correlation_id": "req_1"} | parts)
    )
    assert (problem.code, problem.field, problem.retryable) == ("E_ADMISSION_007", "$.messageId", False)


def test_the_same_id_from_another_sender_is_refused(team: Team) -> None:
    team.send("impl_001", "impl_002", message_id="msg_1_a")
    assert team.refused_send("manager_001", "impl_002", message_id="msg_1_a").code == "E_ADMISSION_007"


def test_a_broadcast_again_is_answered_with_all_receipts(team: Team) -> None:
    team.register("impl_002", capabilities=("TASK_ASSIGNMENT",))
    first = team.broadcast("manager_001", receiver_type="Implementation", message_id="msg_1_b")
    again = team.broadcast("manager_001", receiver_type="Implementation", message_id="msg_1_b")
    assert again.duplicate
    assert [copy.signal_id for copy in again.receipts] == [copy.signal_id for copy in first.receipts]
    assert {agent: problem.code for agent, problem in again.failed.items()} == {"impl_002": "E_ROUTING_002"}
    assert team.refused_send("manager_001", "*", receiver_type="*", message_id="msg_1_b").code == "E_ADMISSION_007"


def test_a_refused_id_can_be_used_again(team: Team) -> None:
    team.refused_send("impl_001", "nobody", message_id="msg_1_a")
    assert not team.send("impl_001", "impl_002", message_id="msg_1_a").duplicate


def test_a_payload_of_many_lines_is_the_same_content(team: Team) -> None:
    team.send("impl_001", "impl_002", message_id="msg_1_a", payload={"n": 1})
    stored = team.message("msg_1_a").payload
    assert stored == b'{"n":1}'
    assert b"\n" not in stored


def test_a_receipt_promises_no_durability_of_its_own(team: Team) -> None:
    receipt = team.send("impl_001", "impl_002")
    assert (receipt.durability, receipt.copies) == ("none", 0)


@pytest.mark.parametrize(
    ("message_type", "payload", "metadata"),
    [
        ("CUSTOM_NOTE", b"{}", b'{"origin": 1e999}'),
        ("CUSTOM_NOTE", b"{}", b'{"ttl": 1e999}'),
        ("CUSTOM_NOTE", b'{"n": 1e999}', b"{}"),
        ("HANDOFF_REQUEST", b'{"taskId": 1e999}', b"{}"),
    ],
)
def test_no_number_cuts_a_recipient_off(team: Team, message_type: str, payload: bytes, metadata: bytes) -> None:
    """Whatever is accepted can be handed out; the exchange never raises for what a sender wrote."""
    session = team.attach("impl_002", "piggyback")
    document = load("apm/envelope") | {"messageType": message_type, "payload": "P", "metadata": "M"}
    document["receiver"] = {"agentId": "impl_002", "type": "*"}
    data = msgspec.json.encode(document).replace(b'"P"', payload).replace(b'"M"', metadata)
    try:
        team.handle(cmd.Send(parse_envelope(data, 1_048_576)), team.caller("impl_001"))
    except TocsinError as refused_with:
        assert refused_with.code.startswith(("E_PROTOCOL_", "E_VALIDATION_"))  # noqa: PT017
    other = team.send("manager_001", "impl_002").signal_id
    assert other in team.drain(session)


def test_the_first_receipt_stands_after_a_redrive(team: Team) -> None:
    session = team.attach("impl_002", "piggyback")
    first = team.send("impl_001", "impl_002", message_id="msg_1_a")
    team.drain(session)
    team.nack("impl_002", "msg_1_a", can_retry=False)
    team.detach(session)
    team.advance(50)
    team.redrive("impl_001", "msg_1_a")
    again = team.send("impl_001", "impl_002", message_id="msg_1_a")
    # How the recipient can be reached is as of now: its session has ended.
    assert again == msgspec.structs.replace(first, duplicate=True, reach="none")

"""Refusals of sends and of what follows them: every field of each problem, and the limits at their bounds."""

from functools import partial
from typing import Any

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import START, CountedIds, Team
from tests.core.refusals import LONG, Refusal, check, ids_of
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller, Command
from tocsin.core.errors import Problem
from tocsin.core.exchange import Exchange

TASK = {
    "taskId": "t-1",
    "taskRef": "Task 1",
    "taskDescription": "build it",
    "memoryLogPath": "logs/1.md",
    "executionType": "single-step",
}
NOON = "2025-11-12T12:00:00Z"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Ask:
    """Ask one thing of a fresh team."""

    def __init__(self, command: Command, agent: str = "impl_001") -> None:
        self.command, self.agent = command, agent

    def __call__(self, team: Team) -> Problem:
        return team.refused(self.command, self.agent)


class Sent:
    """Send one message in a fresh team."""

    def __init__(self, sender: str, receiver: str, kind: str = "StatusUpdate", **parts: Any) -> None:
        self.address, self.parts = (sender, receiver, kind), parts

    def __call__(self, team: Team) -> Problem:
        return team.refused_send(*self.address, **self.parts)


def send_as_another(team: Team) -> Problem:
    return team.refused(cmd.Send(team.envelope("impl_002", "manager_001")), "impl_001")


def use_an_id_again(team: Team) -> Problem:
    team.send("impl_001", "impl_002", message_id="msg_1_a")
    return team.refused_send("impl_001", "impl_002", payload={"other": 1}, message_id="msg_1_a")


def state_sync(team: Team, state: dict[str, object]) -> Problem:
    payload = {
        "entityType": "agent",
        "entityId": "impl_001",
        "operation": "create",
        "state": state,
        "syncTimestamp": "2025-11-12T10:00:00Z",
    }
    return team.refused_send("impl_001", "manager_001", "STATE_SYNC", payload=payload)


def too_many_recipients(team: Team) -> Problem:
    team.broadcast("impl_001", receiver_type="Implementation")
    return team.refused_send("impl_001", "*")


def to_a_full_mailbox(team: Team) -> Problem:
    for _ in range(2):
        team.send("impl_001", "impl_002")
    return team.refused_send("impl_001", "impl_002")


def to_a_full_reserve(team: Team) -> Problem:
    for _ in range(3):
        team.send("impl_001", "impl_002", priority="Critical")
    return team.refused_send("manager_001", "impl_002", priority="Critical")


def to_one_without_room(team: Team) -> Problem:
    """A push session whose window is full is no live connection for a sync message."""
    team.attach("impl_002", window=1)
    team.send("impl_001", "impl_002")
    return team.refused_send("impl_001", "impl_002", "Question")


def to_a_stale_session(team: Team) -> Problem:
    team.attach("impl_002")
    team.advance(61)
    return team.refused_send("impl_001", "impl_002", "Question")


def to_one_who_does_not_take_it(team: Team) -> Problem:
    team.register("impl_002", capabilities=("StatusUpdate", "CUSTOM_NOTE"))
    return team.refused_send("impl_001", "impl_002", "CUSTOM_OTHER")


def broadcast_to_nobody(team: Team) -> Problem:
    return team.refused_send("impl_001", "*", "Question", receiver_type="Implementation")


def ttl_over_the_limit(team: Team) -> Problem:
    team.send("impl_001", "impl_002", metadata={"ttl": 2_592_000})
    return team.refused_send("impl_001", "impl_002", metadata={"ttl": 2_592_001})


def second_assignment(team: Team) -> Problem:
    team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=TASK, correlation_id="t-1", message_id="msg_1_a")
    return team.refused_send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=TASK, correlation_id="t-1")


def update_of_no_assignment(team: Team) -> Problem:
    team.send("impl_001", "manager_001", "CUSTOM_NOTE", correlation_id="t-1")
    update = {"taskId": "t-1", "status": "completed", "progress": 1}
    return team.refused_send("impl_001", "manager_001", "TASK_UPDATE", payload=update, correlation_id="t-1")


def confirmed(team: Team, kind: str, receiver: str = "manager_001", thread: str | None = "msg_1_a") -> Problem:
    """Offer a message to impl_001, which then sends an ACK or NACK of it."""
    team.attach("impl_001")
    team.send("manager_001", "impl_001", message_id="msg_1_a")
    payload: dict[str, object] = {"acknowledgedMessageId": "msg_1_a", "status": "received", "timestamp": NOON}
    if kind == "NACK":
        payload = {"rejectedMessageId": "msg_1_a", "reason": "no", "canRetry": False, "timestamp": NOON}
    return team.refused_send("impl_001", receiver, kind, payload=payload, correlation_id=thread)


def confirm_unknown(team: Team, kind: str) -> Problem:
    payload: dict[str, object] = {"acknowledgedMessageId": LONG, "status": "received", "timestamp": NOON}
    if kind == "NACK":
        payload = {"rejectedMessageId": LONG, "reason": "no", "canRetry": False, "timestamp": NOON}
    return team.refused_send("impl_001", "manager_001", kind, payload=payload, correlation_id="msg_1_a")


def tokens_used_up(team: Team) -> Problem:
    team.send("impl_001", "impl_002", priority="Blocking")
    return team.refused_send("impl_001", "impl_002", priority="Blocking")


def critical_used_up(team: Team) -> Problem:
    for _ in range(5):
        team.send("impl_001", "impl_002", priority="Critical")
    team.advance(1)
    return team.refused_send("impl_001", "impl_002", priority="Critical")


def blocking_used_up(team: Team) -> Problem:
    for _ in range(2):
        team.send("impl_001", "impl_002", priority="Blocking")
    return team.refused_send("impl_001", "impl_002", priority="Blocking")


def drain(team: Team, limit: int) -> Problem:
    session = team.attach("impl_001", "piggyback")
    for allowed in (1, 500):
        team.ask(cmd.Drain(session, allowed), "impl_001", cmd.Drained)
    return team.refused(cmd.Drain(session, limit), "impl_001")


def one_receipt_more(team: Team) -> Problem:
    ids = tuple(f"msg_{number}_a" for number in range(501))
    assert team.confirm("impl_001", *ids[1:]).unknown == ids[1:]
    return team.refused(cmd.Confirm(ids), "impl_001")


def one_dead_letter_more(team: Team) -> Problem:
    ids = tuple(f"msg_{number}_a" for number in range(501))
    assert len(team.redrive("impl_001", *ids[1:]).refused) == 500
    return team.refused(cmd.Redrive(ids), "impl_001")


def offered(team: Team) -> str:
    team.attach("impl_001")
    return team.send("manager_001", "impl_001").message_id


def unknown_status(team: Team) -> Problem:
    return team.refused(cmd.Acknowledge(offered(team), "seen"), "impl_001")  # type: ignore[arg-type]


def reject_what_was_acknowledged(team: Team) -> Problem:
    message = offered(team)
    team.ack("impl_001", message)
    return team.refused(cmd.Reject(message, "no"), "impl_001")


def dead(team: Team) -> str:
    message = offered(team)
    team.nack("impl_001", message, can_retry=False)
    return message


def confirm_the_dead(team: Team, what: str) -> Problem:
    message = dead(team)
    commands: dict[str, Command] = {
        "acknowledged": cmd.Acknowledge(message),
        "processed": cmd.MarkProcessed(message),
        "rejected": cmd.Reject(message, "no"),
    }
    return team.refused(commands[what], "impl_001")


def acknowledge_what_was_recalled(team: Team) -> Problem:
    """Return the refusal of a recipient that never had the message."""
    sent = team.send("manager_001", "impl_001")
    team.recall("manager_001", sent.message_id)
    return team.refused(cmd.Acknowledge(sent.message_id), "impl_001")


def redriven(team: Team, case: str) -> Problem:
    agent = "manager_001"
    if case == "unknown":
        signal = "msg_9_z"
    elif case == "of another":
        signal, agent = dead(team), "impl_002"
    elif case == "alive":
        signal = offered(team)
    elif case == "refused":
        signal, agent = team.send("impl_001", "impl_002", "CUSTOM_PLAN").signal_id, "impl_001"
        (approval,) = team.exchange.state.approvals
        team.ask(cmd.DecideApproval(approval, "refuse", "not now"), "boss", cmd.ApprovalDecided)
    else:
        signal = dead(team)
        team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    return team.redrive(agent, signal).refused[signal]


def shed(field: str, found: str, expected: str, **parts: object) -> Refusal:
    command = cmd.ReportShedding(**({"since": 0, "published": 1, "tallies": {}} | parts))  # type: ignore[arg-type]
    return Refusal(
        f"shedding: {field}", Ask(command, "boss"), "E_VALIDATION_004", (field, found, expected), field, found
    )


ROWS = [
    Refusal(
        "send as another",
        send_as_another,
        "E_AUTH_002",
        ("impl_002", "impl_001"),
        "$.sender.agentId",
        "impl_002",
        "impl_001",
    ),
    Refusal(
        "an unknown type",
        Sent("impl_001", "impl_002", "Gossip", version="1.0.0", priority="LOW"),
        "E_VALIDATION_003",
        ("Gossip", "1.0.0"),
        "$.messageType",
        "Gossip",
        "one of ACK, ERROR_REPORT, HANDOFF_REQUEST, NACK, STATE_SYNC, TASK_ASSIGNMENT, TASK_UPDATE, CUSTOM_*",
    ),
    Refusal(
        "an id again",
        use_an_id_again,
        "E_ADMISSION_007",
        ("msg_1_a",),
        "$.messageId",
        "msg_1_a",
        "an id that was never used",
    ),
    Refusal(
        "register with bad versions",
        lambda team: state_sync(team, {"supportedVersions": 1}),
        "E_VALIDATION_002",
        ("$.payload.state", "int"),
        "$.payload.state",
    ),
    Refusal(
        "register with no version of ours",
        lambda team: state_sync(team, {"supportedVersions": ["7.0.0", "8.0.0"]}),
        "E_PROTOCOL_001",
        ("7.0.0, 8.0.0",),
        "$.supportedVersions",
        "7.0.0, 8.0.0",
        "one of 1.0.0, 1.1.0",
    ),
    Refusal(
        "register with no version at all",
        lambda team: state_sync(team, {"supportedVersions": []}),
        "E_PROTOCOL_001",
        ("supports none",),
        "$.supportedVersions",
        "none",
        "one of 1.0.0, 1.1.0",
    ),
    Refusal(
        "to nobody",
        Sent("impl_001", "ghost"),
        "E_ROUTING_001",
        ("ghost",),
        "$.receiver.agentId",
        "ghost",
        "a registered agent",
    ),
    Refusal(
        "to an agent of another type",
        Sent("impl_001", "impl_002", receiver_type="Manager"),
        "E_ROUTING_002",
        ("impl_002", "Implementation", "Manager"),
        "$.receiver.type",
        "Manager",
        "Implementation",
    ),
    Refusal(
        "to a type that nobody has",
        Sent("manager_001", "*", receiver_type="Manager"),
        "E_ROUTING_001",
        ("Manager",),
        "$.receiver.type",
        "Manager",
        "a type that a registered agent has",
    ),
    Refusal(
        "to too many",
        too_many_recipients,
        "E_ADMISSION_008",
        ("4 ", "at most 2"),
        retryable=False,
        policy="limits: {broadcast_recipients_max: 2}",
    ),
    Refusal("a message of the bus", Sent("impl_001", "impl_002", "PeerLeft"), "E_AUTH_003", ("PeerLeft", "director")),
    Refusal(
        "a type that only managers send",
        Sent("impl_001", "impl_002", "TASK_ASSIGNMENT", payload=TASK, correlation_id="t-1"),
        "E_AUTH_003",
        ("impl_001", "Implementation", "TASK_ASSIGNMENT", "Manager"),
        "$.sender.type",
        "Implementation",
        "Manager",
    ),
    Refusal(
        "a type that only implementers receive",
        Sent("manager_001", "manager_001", "TASK_ASSIGNMENT", payload=TASK, correlation_id="t-1"),
        "E_ROUTING_002",
        ("manager_001", "Manager", "TASK_ASSIGNMENT", "Implementation"),
        "$.receiver.type",
        "Manager",
        "Implementation",
    ),
    Refusal(
        "to one who does not take it",
        to_one_who_does_not_take_it,
        "E_ROUTING_002",
        ("impl_002", "StatusUpdate, CUSTOM_NOTE", "CUSTOM_OTHER"),
        "$.messageType",
        "CUSTOM_OTHER",
        "one of StatusUpdate, CUSTOM_NOTE",
    ),
    Refusal(
        "to a full mailbox",
        to_a_full_mailbox,
        "E_ADMISSION_005",
        ("impl_002", "2 messages", "5 s"),
        retry_after_s=5,
        policy="limits: {mailbox_depth_max: 2}",
    ),
    Refusal(
        "to a mailbox whose reserve is full",
        to_a_full_reserve,
        "E_ADMISSION_005",
        ("impl_002", "3 messages", "5 s"),
        retry_after_s=5,
        policy="limits: {mailbox_depth_max: 2, mailbox_reserve: 1}",
    ),
    Refusal(
        "sync to one who is away",
        Sent("impl_001", "impl_002", "Question"),
        "E_ADMISSION_006",
        ("impl_002 is offline.",),
        retry_after_s=5,
        facts={"recipient_state": "not_available_offline"},
    ),
    Refusal(
        "sync to a stale session",
        to_a_stale_session,
        "E_ADMISSION_006",
        ("impl_002 is stale", "heartbeat."),
        retry_after_s=5,
        facts={"recipient_state": "not_available_stale"},
    ),
    Refusal(
        "sync to one without room",
        to_one_without_room,
        "E_ADMISSION_006",
        ("impl_002 has no live connection",),
        retry_after_s=5,
        facts={"recipient_state": "not_available_stale"},
    ),
    Refusal(
        "a broadcast that reaches nobody",
        broadcast_to_nobody,
        "E_ROUTING_004",
        ("2 of 2", "(impl_002: E_ADMISSION_006, twin: E_ADMISSION_006)"),
    ),
    Refusal(
        "a TTL over the limit",
        ttl_over_the_limit,
        "E_VALIDATION_004",
        ("$.metadata.ttl", "2592001", "2592000"),
        "$.metadata.ttl",
        "2592001",
        "at most 2592000",
    ),
    Refusal(
        "an assignment without a thread",
        Sent("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=TASK),
        "E_VALIDATION_001",
        ("$.correlationId", "TASK_ASSIGNMENT"),
        "$.correlationId",
        "nothing",
        "an id that no thread has yet",
    ),
    Refusal(
        "an assignment in a known thread",
        second_assignment,
        "E_PROTOCOL_003",
        ("t-1", "msg_1_a"),
        "$.correlationId",
        "t-1",
        "an id that no thread has yet",
    ),
    Refusal(
        "an update of no assignment",
        update_of_no_assignment,
        "E_PROTOCOL_003",
        ("t-1",),
        "$.correlationId",
        "t-1",
        "the id of the assignment",
    ),
    Refusal(
        "an ACK in another thread",
        lambda team: confirmed(team, "ACK", thread="t-9"),
        "E_PROTOCOL_003",
        ("t-9",),
        "$.correlationId",
        "t-9",
        "the correlationId of that message, or its messageId",
    ),
    *(
        Refusal(
            f"{kind} to another than the sender",
            partial(confirmed, kind=kind, receiver="impl_002"),
            "E_ROUTING_002",
            (kind, "msg_1_a", "manager_001"),
            "$.receiver.agentId",
            "impl_002",
            "manager_001",
        )
        for kind in ("ACK", "NACK")
    ),
    *(
        Refusal(
            f"{kind} of an unknown message",
            partial(confirm_unknown, kind=kind),
            "E_STATE_001",
            (f"{LONG[:128]} was",),
            field,
            LONG,
        )
        for kind, field in (("ACK", "$.payload.acknowledgedMessageId"), ("NACK", "$.payload.rejectedMessageId"))
    ),
    Refusal(
        "a priority over the role",
        Sent("impl_001", "impl_002", priority="DirectorOverride"),
        "E_ADMISSION_004",
        ("impl_001", "primary", "Critical"),
        "$.priority",
        "DirectorOverride",
        "at most Critical",
    ),
    Refusal(
        "tokens used up",
        tokens_used_up,
        "E_ADMISSION_001",
        ("impl_001", "10.0 tokens", "a Blocking message costs 20", "5.000 s"),
        retry_after_s=5.0,
        policy="bucket: {capacity: 30, refill_per_s: 2}",
    ),
    Refusal(
        "more than the bucket holds",
        Sent("impl_001", "*"),
        "E_ADMISSION_001",
        ("3.0 tokens", "Info message to 4 agents costs 4"),
        retryable=False,
        policy="bucket: {capacity: 3, refill_per_s: 2}",
    ),
    Refusal(
        "Critical quota used up",
        critical_used_up,
        "E_ADMISSION_002",
        ("impl_001", "Critical", "0.1 of 5 messages left", "0.1 more per second", "9.000 s"),
        retry_after_s=9.0,
        policy="gaming: {messages_min: 100}",
    ),
    Refusal(
        "Blocking quota used up",
        blocking_used_up,
        "E_ADMISSION_003",
        ("impl_001", "Blocking", "0.0 of 2 messages left", "0.5 more per second", "2.000 s"),
        retry_after_s=2.0,
        policy="quotas: {blocking: {cap: 2, refill_per_s: 0.5}}",
    ),
    *(
        Refusal(
            f"a drain of {limit}",
            partial(drain, limit=limit),
            "E_VALIDATION_004",
            (f"limit of {limit} ", "1 to 500"),
            "$.limit",
            str(limit),
            "1 to 500",
        )
        for limit in (0, 501)
    ),
    Refusal("one receipt more", one_receipt_more, "E_ADMISSION_008", ("at most 500",), retryable=False),
    Refusal("one dead letter more", one_dead_letter_more, "E_ADMISSION_008", ("at most 500",), retryable=False),
    Refusal(
        "acknowledge nothing",
        Ask(cmd.Acknowledge(LONG)),
        "E_STATE_001",
        (f"{LONG[:128]} was",),
        found=LONG[:128],
    ),
    Refusal(
        "acknowledge what was recalled",
        acknowledge_what_was_recalled,
        "E_STATE_001",
        ("msg_000001_manager_001",),
        found="msg_000001_manager_001",
    ),
    Refusal(
        "an unknown status",
        unknown_status,
        "E_VALIDATION_003",
        ("'seen'", "received, queued, processed"),
        "$.status",
        "seen",
        "one of received, queued, processed",
    ),
    Refusal(
        "reject what was acknowledged",
        reject_what_was_acknowledged,
        "E_STATE_002",
        ("msg_000001_manager_001", "acknowledged", "rejected"),
    ),
    *(
        Refusal(
            f"a dead letter cannot be {what}",
            partial(confirm_the_dead, what=what),
            "E_STATE_002",
            ("msg_000001_manager_001 is dead", f"cannot be {what}"),
        )
        for what in ("acknowledged", "processed", "rejected")
    ),
    *(
        Refusal(f"redrive: {case}", partial(redriven, case=case), code, says, retryable=False)
        for case, code, says in (
            ("unknown", "E_STATE_001", ("msg_9_z",)),
            ("of another", "E_STATE_001", ("msg_000001_manager_001",)),
            ("alive", "E_STATE_002", ("msg_000001_manager_001", "offered")),
            ("refused", "E_AUTH_003", ("msg_000001_impl_001", "director")),
            ("without recipient", "E_ROUTING_001", ("msg_000001_manager_001",)),
        )
    ),
    Refusal(
        "shedding as a primary",
        Ask(cmd.ReportShedding(0, 0, {})),
        "E_AUTH_003",
        ("impl_001", "report for a frame bus"),
    ),
    shed("$.tallies", LONG[:64], "be one of ", tallies={LONG: cmd.FrameTally(1, 0, 0)}),
    shed("$.published", "-1", "be 0 or more", published=-1),
    shed(
        "$.tallies.normal",
        "offered 2, dropped 3, shed 1",
        "be shed at most dropped, dropped at most offered",
        tallies={"normal": cmd.FrameTally(2, 3, 1)},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=ids_of(ROWS))
def test_a_refusal_names_what_is_wrong(new_team: NewTeam, row: Refusal) -> None:
    check(new_team, row)


def test_nothing_is_decided_before_the_first_policy() -> None:
    exchange = Exchange(CountedIds())
    by_a_director = Caller("boss", "director")
    asked: list[tuple[Command, Caller]] = [(cmd.Tick(), SYSTEM), (cmd.AdoptPolicy({}, "first"), by_a_director)]
    for command, caller in asked:
        outcome = exchange.handle(command, caller, START)
        assert isinstance(outcome.reply, Problem)
        assert (outcome.reply.code, outcome.events) == ("E_POLICY_002", [])
        assert "adopt one first" in outcome.reply.detail


def test_a_refused_send_is_recorded_with_what_was_asked(team: Team) -> None:
    """The event has the message's address, the reason, and the trace that it belongs to."""
    parts = {"message_id": "msg_1_a", "priority": "Blocking", "metadata": {"traceparent": TRACE}}
    problem = team.refused_send("impl_001", "impl_002", "Question", **parts)
    assert team.happened(ev.SendRefused) == [
        ev.SendRefused(
            at=team.now,
            message_id="msg_1_a",
            sender="impl_001",
            recipient="impl_002",
            message_type="Question",
            requested=2,
            code="E_ADMISSION_006",
            detail=problem.detail,
            retry_after_s=5,
            traceparent=TRACE,
        )
    ]

"""Lives of messages, event by event: what is recorded from a send to each of its ends."""

from tests.core.conftest import NewTeam
from tests.core.stories import Story, crew
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.protocol.timestamps import as_datetime

TASK = {
    "taskId": "t-1",
    "taskRef": "Task 1",
    "taskDescription": "build it",
    "memoryLogPath": "logs/1.md",
    "executionType": "single-step",
}
REPORT = {"errorType": "SystemError", "errorMessage": "broken", "severity": "high"}


def test_a_task_from_its_assignment_to_its_completion(new_team: NewTeam) -> None:
    """An update that completes it answers it; one that does not, does not."""
    team = crew(new_team)
    team.attach("impl_001")
    story = Story(team)
    team.send("manager_001", "impl_001", "TASK_ASSIGNMENT", payload=TASK, correlation_id="t-1", message_id="msg_1_a")
    assert story.next()[1:] == [("MessageOffered", "msg_1_a", "ses", 1, 1, 0, True)]
    team.advance(3)
    team.confirm("impl_001", "msg_1_a")
    team.advance(2)
    acked = team.ask(cmd.Acknowledge("msg_1_a", "queued", "later"), "impl_001", cmd.Acknowledged)
    assert acked == cmd.Acknowledged("msg_1_a", "acknowledged")
    assert team.ack("impl_001", "msg_1_a").duplicate
    assert story.next() == [
        ("MessageDelivered", "msg_1_a", "receipt"),
        ("MessageAcknowledged", "msg_1_a", "queued", 5000000, "later"),
    ]
    team.advance(10)
    for number, status in enumerate(("in_progress", "completed")):
        update = {"taskId": "t-1", "status": status, "progress": 1}
        team.send(
            "impl_001", "manager_001", "TASK_UPDATE", payload=update, correlation_id="t-1", message_id=f"msg_2_{number}"
        )
        told = [event for event in story.next() if event[0] != "MessageAccepted"]
        assert told == ([] if status == "in_progress" else [("MessageProcessed", "msg_1_a", "response", 12000000)])


def test_an_ack_of_what_was_only_offered(new_team: NewTeam) -> None:
    """It implies the receipt; an ACK with status processed implies both."""
    team = crew(new_team)
    team.attach("manager_001")
    team.send("impl_001", "manager_001", "ERROR_REPORT", payload=REPORT, message_id="msg_1_a")
    team.send("impl_001", "manager_001", "ERROR_REPORT", payload=REPORT, message_id="msg_2_a")
    story = Story(team)
    team.advance(4)
    assert team.ack("manager_001", "msg_1_a", "processed").state == "processed"
    team.done("manager_001", "msg_2_a")
    assert story.next() == [
        ("MessageDelivered", "msg_1_a", "ack"),
        ("MessageAcknowledged", "msg_1_a", "processed", 4000000, ""),
        ("MessageProcessed", "msg_1_a", "ack", 0),
        ("MessageDelivered", "msg_2_a", "ack"),
        ("MessageAcknowledged", "msg_2_a", "processed", 4000000, ""),
        ("MessageProcessed", "msg_2_a", "ack", 0),
    ]


def test_a_rejected_message_comes_again_and_dies(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.attach("manager_001")
    team.send("impl_001", "manager_001", "ERROR_REPORT", payload=REPORT, message_id="msg_1_a")
    story = Story(team)
    command = cmd.Reject("msg_1_a", "busy", "E_TASK_003", True, "wait")
    rejected = team.ask(command, "manager_001", cmd.Rejected)
    assert rejected == cmd.Rejected("msg_1_a", "queued", as_datetime(team.now + 1_000_000))
    assert story.next() == [
        ("MessageDelivered", "msg_1_a", "nack"),
        ("MessageRejected", "msg_1_a", "busy", "E_TASK_003", True, "wait"),
        ("MessageRequeued", "msg_1_a", "nack", 1, 3, 1.0, 0.0),
    ]
    team.advance(1.5)
    assert story.next() == [("MessageReady", "msg_1_a"), ("MessageOffered", "msg_1_a", "ses", 2, 2, 1010000, False)]
    rejected = team.ask(cmd.Reject("msg_1_a", "never", "E_UNKNOWN", False, "drop it"), "manager_001", cmd.Rejected)
    assert rejected == cmd.Rejected("msg_1_a", "dead")
    assert story.next() == [
        ("MessageDelivered", "msg_1_a", "nack"),
        ("MessageRejected", "msg_1_a", "never", "E_UNKNOWN", False, "drop it"),
        ("MessageDied", "msg_1_a", "rejected", "E_VALIDATION_004", 1, "manager_001 rejected", 0, 0.0),
    ]


def test_a_message_without_ack_is_retried_until_it_is_dead(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.attach("manager_001")
    team.send("impl_001", "manager_001", "ERROR_REPORT", payload=REPORT, message_id="msg_1_a")
    story = Story(team)
    for _ in range(4):
        team.confirm("manager_001", "msg_1_a")
        team.advance(36, beating=True)
    told = [event for event in story.next() if event[0] in ("MessageRequeued", "MessageDied")]
    assert told == [
        ("MessageRequeued", "msg_1_a", "ack_timeout", 1, 3, 31.01, 30.0),
        ("MessageRequeued", "msg_1_a", "ack_timeout", 2, 3, 68.01, 30.0),
        ("MessageRequeued", "msg_1_a", "ack_timeout", 3, 3, 106.01, 30.0),
        ("MessageDied", "msg_1_a", "ack_timeout", "E_PROTOCOL_004", 3, "manager_001 did", 3, 30.0),
    ]


def test_a_poll_is_not_delayed_when_its_answer_is_lost(new_team: NewTeam) -> None:
    """A piggyback session paces itself, so an offer without receipt waits again at once, up to ten times."""
    team = crew(new_team)
    session = team.attach("impl_001", "piggyback")
    team.send("impl_002", "impl_001", message_id="msg_1_a")
    story = Story(team)
    team.ask(cmd.Drain(session, 5), "impl_001", cmd.Drained)
    team.advance(11)
    assert story.next() == [
        ("MessageOffered", "msg_1_a", "ses", 1, 0, 0, False),
        ("MessageRequeued", "msg_1_a", "receipt_timeout", 1, 10, 10.01, 10.0),
    ]


def test_a_dead_letter_is_redriven_and_purged(new_team: NewTeam) -> None:
    team = crew(new_team, "retention: {dead_s: 100}")
    team.attach("impl_001")
    team.send("impl_002", "impl_001", message_id="msg_1_a", metadata={"ttl": 500})
    team.nack("impl_001", "msg_1_a", can_retry=False)
    story = Story(team)
    team.advance(50, beating=True)
    assert team.redrive("impl_002", "msg_1_a") == cmd.Redriven(("msg_1_a",), {})
    assert story.next() == [
        ("DeadLetterRedriven", "msg_1_a", "impl_002", 550.0, "available"),
        ("MessageOffered", "msg_1_a", "ses", 2, 0, 0, False),
    ]
    team.nack("impl_001", "msg_1_a", can_retry=False)
    story.next()
    team.advance(161, beating=True)
    assert story.next()[:1] == [("DeadLetterPurged", "msg_1_a", "age", 100.0)]


def test_the_oldest_dead_letter_makes_room(new_team: NewTeam) -> None:
    team = crew(new_team, "limits: {dead_letters_max: 1}")
    team.attach("impl_001")
    story = Story(team)
    for number in range(2):
        team.send("impl_002", "impl_001", message_id=f"msg_{number}_a")
        story.next()
        team.nack("impl_001", f"msg_{number}_a", can_retry=False)
    assert story.next()[-1:] == [("DeadLetterPurged", "msg_0_a", "limit", 1.0)]


def test_a_message_expires_or_goes_stale(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.send("impl_001", "impl_002", message_id="msg_1_a", metadata={"ttl": 90})
    qos = {"importance": 4, "decayRate": 0.5}
    team.send("impl_001", "impl_002", message_id="msg_2_a", qos=qos)
    story = Story(team)
    team.advance(200)
    told = [event for event in story.next() if event[0] == "MessageExpired"]
    assert told == [
        ("MessageExpired", "msg_2_a", "stale", 90.0, 0.8333333333333335, 1.0),
        ("MessageExpired", "msg_1_a", "ttl", 90.0, 5, 1.0),
    ]


def test_a_recall_and_a_late_one(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.send("impl_001", "impl_002", message_id="msg_1_a")
    story = Story(team)
    assert team.recall("impl_002", "msg_1_a") == "not_found"
    assert team.recall("impl_001", "msg_1_a") == "recalled"
    team.attach("impl_002")
    team.send("impl_001", "impl_002", message_id="msg_2_a")
    assert team.recall("impl_001", "msg_2_a") == "already_delivered"
    told = [event for event in story.next() if event[0] in ("RecallRefused", "MessageRecalled")]
    assert told == [
        ("RecallRefused", "msg_1_a", "impl_002", "not_found"),
        ("MessageRecalled", "msg_1_a", "impl_001"),
        ("RecallRefused", "msg_2_a", "impl_001", "already_delivered"),
    ]


def test_a_message_ages(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.send("impl_001", "impl_002", priority="Info", message_id="msg_1_a")
    story = Story(team)
    team.advance(200)
    assert story.next() == [
        ("MessageBoosted", "msg_1_a", 0, 1, False, "aging", 60.0, 60010000, 1, 1),
        ("MessageBoosted", "msg_1_a", 1, 2, False, "aging", 60.0, 120010000, 2, 2),
        ("MessageBoosted", "msg_1_a", 2, 2, True, "aging", 60.0, 180010000, 3, 2),
    ]


def test_a_broadcast_is_recorded_once_with_who_was_left_out(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.register("impl_002", capabilities=("CUSTOM_OTHER",))
    team.attach("manager_001")
    story = Story(team)
    receipt = team.broadcast(
        "impl_001", "CUSTOM_NOTE", payload={"a": 1}, message_id="msg_1_a", metadata={"tags": ["x"]}
    )
    assert [one.recipient for one in receipt.receipts] == ["manager_001", "boss"]
    assert (receipt.failed["impl_002"].code, receipt.code, receipt.duplicate) == (
        "E_ROUTING_002",
        "E_ROUTING_004",
        False,
    )
    assert [event for event in story.next() if event[0] != "MessageAccepted"] == [
        (
            "BroadcastAccepted",
            "msg_1_a",
            "impl_001",
            "CUSTOM_NOTE",
            "*",
            2,
            ("impl_002=E_ROUTING_002",),
            b'{"a":1}',
            b'{"tags":["x"]}',
        ),
        ("MessageOffered", "msg_1_a", "ses", 1, 1, 0, True),
    ]


def test_gaming_is_recorded_with_its_figures(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    for number in range(7):
        team.send("impl_001", "impl_002", priority="Blocking" if number < 6 else "Info")
    told = [event for event in story.next() if event[0].startswith("Gaming")]
    assert told == [("GamingDetected", "impl_001", 5, 5, 0.5, 60.0)]
    team.advance(61)
    story.next()
    team.send("impl_001", "impl_002", priority="Info")
    told = [event for event in story.next() if event[0].startswith("Gaming")]
    assert told == [("GamingCleared", "impl_001", 0, 0, 0.5, 60.0)]


def test_sessions_go_stale_and_lapse(new_team: NewTeam) -> None:
    team = crew(new_team)
    session = team.attach("impl_001")
    team.attach("impl_002", "piggyback", 5)
    story = Story(team)
    team.advance(61)
    team.ask(cmd.GrantCredit(session, 3), "impl_001", cmd.SessionReady)
    team.advance(3700)
    assert story.next() == [
        ("SessionWentStale", "ses", "impl_001", 0.0, 60.0),
        ("SessionWentStale", "ses", "impl_002", 0.0, 60.0),
        ("SessionWindowChanged", "ses", 3),
        ("SessionWentStale", "ses", "impl_001", 61.0, 60.0),
        ("SessionClosed", "ses", "impl_002", "lapsed"),
        ("SessionClosed", "ses", "impl_001", "lapsed"),
    ]


def test_what_agents_are_charged_for(new_team: NewTeam) -> None:
    """A discussion pays for the notices of its opening and its end; an approval for that of each director."""
    team = crew(new_team)
    story = Story(team)
    team.ask(cmd.OpenDiscussion("tabs?", ("impl_002", "manager_001")), "impl_001", cmd.Discussed)
    team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    assert [event for event in story.next() if event[0] == "AgentCharged"] == [
        ("AgentCharged", "impl_001", "discussion", 5, 13.0, 987.0, 5.0, 20.0),
        ("AgentCharged", "impl_001", "approval", 1, 20.0, 967.0, 5.0, 19.0),
    ]


def test_the_first_copy_of_a_broadcast_has_what_its_sender_has_left(new_team: NewTeam) -> None:
    """The price of its priority, and the Info price for each further copy."""
    team = crew(new_team)
    team.broadcast("impl_001", priority="Blocking")
    left = [
        (event.tokens, event.critical_quota, event.blocking_quota)
        for event in team.happened(ev.MessageAccepted)
        if event.sender == "impl_001"
    ]
    assert left == [(978.0, 5.0, 19.0), (None, None, None), (None, None, None)]


def test_messages_that_left_the_window_excuse_no_others(new_team: NewTeam) -> None:
    """Six Info and five Blocking messages are no gaming; once the six are a minute old, the five are."""
    team = crew(new_team)
    for _ in range(6):
        team.send("impl_001", "impl_002", priority="Info")
    team.advance(30)
    for _ in range(5):
        assert team.send("impl_001", "impl_002", priority="Blocking").priority == "Blocking"
    team.advance(30)
    story = Story(team)
    assert team.send("impl_001", "impl_002", priority="Blocking").priority == "Info"
    assert story.next()[0] == ("GamingDetected", "impl_001", 5, 5, 0.5, 60.0)

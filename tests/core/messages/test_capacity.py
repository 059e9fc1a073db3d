"""Limits in bytes: of a mailbox, of what one sender has unread with others, of the project, and of what has ended."""

import msgspec
import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team, replayed, snapshot_bytes
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import Problem
from tocsin.core.messages.volume import size_of
from tocsin.core.snapshot import Snapshot, restore

NOTE = "CUSTOM_NOTE"
TASK = {
    "taskId": "task_1_a",
    "taskRef": "t",
    "taskDescription": "d",
    "memoryLogPath": "m",
    "executionType": "single-step",
}


def crew(new_team: NewTeam, limits: str, more: str = "") -> Team:
    team = new_team(f"limits: {{{limits}}}\n{more}")
    team.register("boss", "Director", "director")
    for name in ("ada", "bob", "cem"):
        team.register(name, "Manager" if name == "ada" else "Implementation")
    return team


def note(team: Team, sender: str, recipient: str, size: int, priority: str | None = None) -> str:
    """Send a message that counts so many bytes; return its id."""
    return team.send(sender, recipient, NOTE, payload=payload(size), priority=priority).signal_id


def refused(team: Team, sender: str, recipient: str, size: int, priority: str | None = None) -> Problem:
    return team.refused_send(sender, recipient, NOTE, payload=payload(size), priority=priority)


def payload(size: int) -> dict[str, object]:
    """Return a payload that has so many bytes with the empty metadata."""
    return {"text": "x" * (size - len(b'{"text":""}') - len(b"{}"))}


def restored(team: Team) -> None:
    """Check that a recovery point counts the same bytes."""
    live = team.exchange.state.volume
    point = msgspec.msgpack.decode(snapshot_bytes(team.exchange), type=Snapshot)
    for state in (restore(point), replayed(team.events).state):
        counted = state.volume
        assert (counted.unsettled, counted.by_recipient, counted.by_sender) == (
            live.unsettled,
            live.by_recipient,
            live.by_sender,
        )
        assert (counted.dead, counted.kept_bytes, list(counted.kept)) == (live.dead, live.kept_bytes, list(live.kept))


def test_a_mailbox_is_full_of_bytes_until_some_were_received(new_team: NewTeam) -> None:
    """1868 payloads of 1 MB were accepted for one agent, which took 2.1 GB of memory."""
    team = crew(new_team, "mailbox_bytes_max: 1000")
    for _ in range(2):
        note(team, "ada", "bob", 500)
    problem = refused(team, "ada", "bob", 20)
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_005", True, 5)
    assert problem.detail == (
        "the mailbox of bob has 1000 of at most 1000 bytes, too many for 20 more: try again in 5 s"
    )
    assert note(team, "ada", "cem", 500), "another mailbox has room"
    session = team.attach("bob", "piggyback")
    cursor = team.ask(cmd.Drain(session, 1), "bob", cmd.Drained).cursor
    assert refused(team, "ada", "bob", 20).code == "E_ADMISSION_005", "an offer may return to the queue"
    team.ask(cmd.Confirm(receipt=cursor), "bob", cmd.Confirmed)
    note(team, "ada", "bob", 500)
    restored(team)


def test_one_sender_leaves_room_in_a_mailbox_for_the_others(new_team: NewTeam) -> None:
    team = crew(new_team, "mailbox_bytes_max: 1000, sender_bytes_max: 600")
    note(team, "ada", "bob", 600)
    problem = refused(team, "ada", "bob", 20)
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_008", True, 5)
    assert problem.detail.startswith("what ada has unread with others has 600 of at most 600 bytes")
    assert refused(team, "ada", "cem", 20).code == "E_ADMISSION_008", "it counts what waits anywhere"
    note(team, "cem", "bob", 400)
    team.attach("bob")
    team.ask(cmd.Confirm(tuple(m.message_id for m in team.exchange.state.messages.values())), "bob", cmd.Confirmed)
    note(team, "ada", "cem", 600)
    restored(team)


def test_the_project_has_a_limit_of_bytes(new_team: NewTeam) -> None:
    team = crew(new_team, "project_bytes_max: 1000")
    for sender, recipient in (("ada", "bob"), ("bob", "cem")):
        note(team, sender, recipient, 500)
    problem = refused(team, "cem", "ada", 20)
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_008", True, 5)
    assert problem.detail.startswith("what is unread in the project has 1000 of at most 1000 bytes")


@pytest.mark.parametrize("limit", ["mailbox_bytes_max", "sender_bytes_max", "project_bytes_max"])
def test_a_share_of_each_limit_of_bytes_is_reserved_for_critical_and_above(new_team: NewTeam, limit: str) -> None:
    team = crew(new_team, f"{limit}: 1000, critical_bytes_share: 0.5")
    note(team, "boss", "bob", 1000)
    assert refused(team, "boss", "bob", 20, "Blocking").retryable
    note(team, "boss", "bob", 300, "Critical")
    note(team, "boss", "bob", 200, "DirectorOverride")
    assert refused(team, "boss", "bob", 20, "DirectorOverride").detail.count("1500 of at most 1500 bytes") == 1
    restored(team)


def test_a_message_that_never_fits_is_not_to_be_sent_again(new_team: NewTeam) -> None:
    team = crew(new_team, "mailbox_bytes_max: 1000")
    problem = refused(team, "ada", "bob", 1001)
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_005", False, None)
    note(team, "ada", "bob", 1000)


def test_each_copy_of_a_broadcast_counts(new_team: NewTeam) -> None:
    team = crew(new_team, "sender_bytes_max: 1000")
    assert team.refused_send("boss", "*", NOTE, payload=payload(400)).code == "E_ADMISSION_008"
    sent = team.broadcast("boss", NOTE, payload=payload(300))
    assert team.exchange.state.volume.by_sender == {"boss": 900}
    assert team.exchange.state.volume.by_recipient == dict.fromkeys(("ada", "bob", "cem"), 300)
    team.recall("boss", sent.broadcast_id)
    assert team.exchange.state.volume.by_sender == {}
    restored(team)


def test_a_broadcast_keeps_no_content_beside_that_of_its_copies(new_team: NewTeam) -> None:
    team = crew(new_team, "")
    sent = team.broadcast("boss", NOTE, payload=payload(300))
    broadcast = team.exchange.state.broadcasts[sent.broadcast_id]
    assert (broadcast.payload, broadcast.metadata) == (b"", b"")
    assert {size_of(copy) for copy in team.exchange.state.copies_of(sent.broadcast_id)} == {300}


def test_a_message_counts_until_its_ack_where_one_is_required(new_team: NewTeam) -> None:
    team = crew(new_team, "")
    team.attach("bob")
    sent = team.send("ada", "bob", "TASK_ASSIGNMENT", payload=TASK, correlation_id="corr_1_a")
    found = team.exchange.state.volume
    team.ask(cmd.Confirm((sent.signal_id,)), "bob", cmd.Confirmed)
    assert found.unsettled == size_of(team.message(sent.signal_id))
    team.ack("bob", sent.signal_id)
    assert (found.unsettled, found.kept_bytes) == (0, 0)
    restored(team)


def test_a_held_message_counts_with_the_payload_that_replaces_its_own(new_team: NewTeam) -> None:
    team = crew(new_team, "")
    team.send("bob", "cem", "CUSTOM_PLAN", payload=payload(300))
    volume, (approval,) = team.exchange.state.volume, team.exchange.state.approvals
    assert volume.of("bob") == 300
    team.ask(cmd.DecideApproval(approval, "approve", payload=payload(500)), "boss", cmd.ApprovalDecided)
    assert (volume.of("bob"), volume.to("cem")) == (500, 500)
    restored(team)


def test_a_confirmation_without_room_settles_its_message(new_team: NewTeam) -> None:
    team = crew(new_team, "sender_bytes_max: 700")
    team.attach("bob")
    task = team.send("ada", "bob", "TASK_ASSIGNMENT", payload=TASK, correlation_id="corr_1_a")
    note(team, "bob", "cem", 700)
    team.tell(
        cmd.Send(
            team.envelope(
                "bob",
                "ada",
                "ACK",
                {"acknowledgedMessageId": task.signal_id, "status": "received", "timestamp": "2025-11-12T10:00:00Z"},
                correlation_id=team.message(task.signal_id).correlation_id,
            )
        ),
        "bob",
    )
    assert team.message(task.signal_id).state == "acknowledged"
    assert len(team.exchange.state.messages) == 2


def test_notices_of_the_bus_use_the_reserve_of_bytes(new_team: NewTeam) -> None:
    team = crew(new_team, "mailbox_bytes_max: 2000, critical_bytes_share: 0.5")
    dying = note(team, "ada", "bob", 20)
    note(team, "boss", "ada", 2000)
    team.attach("bob")
    team.nack("bob", dying, can_retry=False)
    reports = [message for message in team.exchange.state.messages.values() if message.sender == "tocsin"]
    assert [(report.recipient, report.type) for report in reports] == [("ada", "ERROR_REPORT")]


def test_dead_letters_have_a_limit_of_bytes(new_team: NewTeam) -> None:
    team = crew(new_team, "dead_letters_bytes_max: 1000")
    team.attach("bob")
    killed = [note(team, "ada", "bob", 400) for _ in range(3)]
    for letter in killed:
        team.nack("bob", letter, can_retry=False)
    (purged,) = team.happened(ev.DeadLetterPurged)
    assert (purged.reason, purged.limit) == ("bytes", 1000)
    assert [bool(team.exchange.state.copies_of(letter)) for letter in killed] == [False, True, True]
    assert team.exchange.state.volume.dead == 800
    restored(team)


def test_a_dead_letter_is_redriven_when_there_is_room(new_team: NewTeam) -> None:
    team = crew(new_team, "mailbox_bytes_max: 1000")
    session = team.attach("bob")
    letter = note(team, "ada", "bob", 600)
    team.nack("bob", letter, can_retry=False)
    team.detach(session)
    waiting = note(team, "cem", "bob", 500)
    redriven = team.redrive("boss", letter)
    assert (redriven.redriven, redriven.refused[letter].code) == ((), "E_ADMISSION_005")
    team.recall("cem", waiting)
    assert team.redrive("boss", letter).redriven == (letter,)
    assert team.exchange.state.volume.to("bob") == 600
    restored(team)


def test_ended_messages_lose_their_content_oldest_first(new_team: NewTeam) -> None:
    """Received messages that need no ACK kept their payloads for an hour, however many bytes they had."""
    team = crew(new_team, "", "retention: {settled_bytes_max: 1000, batch_bytes: 300}")
    team.attach("bob")
    sent = [note(team, "ada", "bob", 400) for _ in range(4)]
    for message in sent:
        team.ask(cmd.Confirm((message,)), "bob", cmd.Confirmed)
    assert team.exchange.state.volume.kept_bytes == 800
    (forgotten,) = team.happened(ev.MessagesForgotten)
    numbers = [team.message(message).seq for message in sent]
    assert (forgotten.settled, forgotten.contents) == (0, tuple(numbers[:2]))
    problem = team.refused(cmd.Reject(sent[0], "late", "", can_retry=False), "bob")
    assert (problem.code, problem.detail) == (
        "E_STATE_002",
        f"the content of {sent[0]} is no longer kept: it cannot be rejected",
    )
    again = team.send("ada", "bob", NOTE, payload=payload(400), message_id=sent[0])
    assert again.duplicate, "it is still known"
    team.nack("bob", sent[3], can_retry=False)
    assert team.message(sent[3]).state == "dead"
    restored(team)


def test_a_journal_that_is_over_the_limits_is_replayed(new_team: NewTeam) -> None:
    team = crew(new_team, "")
    for _ in range(5):
        note(team, "ada", "bob", 400)
    team.adopt("limits: {mailbox_bytes_max: 100, sender_bytes_max: 100, project_bytes_max: 100}")
    assert replayed(team.events).state.volume.to("bob") == 2000
    restored(team)
    assert refused(team, "ada", "bob", 20).code == "E_ADMISSION_005"

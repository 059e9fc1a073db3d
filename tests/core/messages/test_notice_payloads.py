"""Notices of the bus: who gets them, at which priority, in which thread, and every field of their payloads.

Reports of errors have the fields of APM §2.5. Of a field that is a sentence only its beginning is compared.
"""

from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.protocol.payloads import ErrorReport

INFO, COORDINATE, BLOCKING, CRITICAL = range(4)
SENTENCES = ("errorMessage", "suggestedAction", "text", "detail", "note", "reason")


class Notice(msgspec.Struct):
    """One notice, as its recipient gets it."""

    recipient: str
    type: str
    priority: int
    payload: dict[str, Any]
    thread: str | None = None


#: Number of events of each team that were looked at.
SEEN: WeakKeyDictionary[Team, int] = WeakKeyDictionary()


def skip(team: Team) -> None:
    """Look only at what happens from now on."""
    SEEN[team] = len(team.events)


def notices(team: Team) -> list[Notice]:
    """Return the new notices."""
    return [
        Notice(
            event.recipient,
            event.message_type,
            event.priority,
            msgspec.json.decode(event.payload),
            event.correlation_id,
        )
        for event in team.events[SEEN[team] :]
        if isinstance(event, ev.MessageAccepted) and event.sender == "tocsin"
    ]


def expect(team: Team, *wanted: Notice) -> None:
    """Compare the notices since the last time, in order; a sentence with its beginning."""
    found = notices(team)
    skip(team)
    for notice, one in zip(found, wanted, strict=True):
        for name in SENTENCES:
            begin = one.payload.get(name)
            if isinstance(begin, str):
                assert notice.payload[name].startswith(begin), notice.payload[name]
                notice.payload[name] = begin
        assert notice == one
        if notice.type == "ERROR_REPORT":
            msgspec.convert(notice.payload, ErrorReport)


def staffed(new_team: NewTeam, policy: str | None = None, *, human: bool = False) -> Team:
    """Make a team with a director, and a human where one is wanted."""
    team = new_team(policy)
    for agent, kind in (("manager_001", "Manager"), ("impl_001", "Implementation"), ("impl_002", "Implementation")):
        team.register(agent, kind)
    team.register("boss", "Director", "director")
    if human:
        team.register("ann", "Person", "human")
    skip(team)
    return team


def acquire(*exclusive: str, shared: tuple[str, ...] = (), **parts: Any) -> cmd.AcquireLease:
    return cmd.AcquireLease(exclusive, shared, **parts)


def test_a_sender_hears_of_a_dead_letter(new_team: NewTeam) -> None:
    team = staffed(new_team)
    team.attach("impl_001")
    team.send("manager_001", "impl_001", "CUSTOM_NOTE", message_id="msg_1_a", correlation_id="t-1")
    team.nack("impl_001", "msg_1_a", can_retry=False, code="E_TASK_001")
    report = {
        "errorType": "SystemError",
        "errorCode": "E_TASK_001",
        "errorMessage": "impl_001 rejected msg_1_a: no",
        "severity": "high",
        "context": {
            "messageId": "msg_1_a",
            "signalId": "msg_1_a",
            "recipient": "impl_001",
            "messageType": "CUSTOM_NOTE",
        },
        "recoverable": True,
        "suggestedAction": "check the dead letter",
    }
    expect(team, Notice("manager_001", "ERROR_REPORT", BLOCKING, report, "t-1"))


def test_a_channel_that_is_gone_is_a_dependency(new_team: NewTeam) -> None:
    team = staffed(new_team, "delivery: {channel_retries_max: 0}")
    team.attach("impl_001")
    team.send("manager_001", "impl_001", "CUSTOM_NOTE", message_id="msg_1_a")
    team.advance(31, beating=True)
    (notice,) = notices(team)
    assert (notice.payload["errorType"], notice.payload["errorCode"]) == ("DependencyError", "E_ROUTING_003")
    assert "impl_001 confirmed none of 1 offers of msg_1_a" in notice.payload["errorMessage"]


def test_a_request_that_was_not_answered(new_team: NewTeam) -> None:
    """The requester is notified in its thread; the directors, and then the humans, of the escalation."""
    team = staffed(new_team, human=True)
    envelope = team.envelope("impl_001", "impl_002", "CUSTOM_ASK", message_id="msg_1_a", correlation_id="t-1")
    team.ask(cmd.SendRequest(envelope, 10), "impl_001", cmd.Requested)
    skip(team)
    team.advance(11)
    (name,) = team.exchange.state.open_escalations
    said = "impl_002 did not answer msg_1_a of impl_001 within 10 s"
    to_the_requester = {
        "errorType": "DependencyError",
        "errorCode": "E_PROTOCOL_004",
        "errorMessage": said,
        "severity": "medium",
        "context": {"request": "msg_1_a", "responder": "impl_002"},
        "recoverable": True,
        "suggestedAction": "send the request again",
    }
    escalated = {
        "errorType": "SystemError",
        "errorCode": "E_PROTOCOL_004",
        "errorMessage": said,
        "severity": "medium",
        "context": {"about": "msg_1_a", "escalation": name},
    }
    expect(
        team,
        Notice("impl_001", "ERROR_REPORT", BLOCKING, to_the_requester, "t-1"),
        Notice("boss", "ERROR_REPORT", BLOCKING, escalated),
    )
    team.ask(cmd.EscalateToHuman(name), "boss", cmd.Escalated)
    expect(team, Notice("ann", "ERROR_REPORT", CRITICAL, escalated | {"severity": "high"}))


def test_a_new_director_hears_of_what_is_open(new_team: NewTeam) -> None:
    """The same holds for a new human and what the humans were asked; nobody hears twice."""
    team = staffed(new_team)
    envelope = team.envelope("impl_001", "impl_002", "CUSTOM_ASK", message_id="msg_1_a", correlation_id="t-1")
    team.ask(cmd.SendRequest(envelope, 10), "impl_001", cmd.Requested)
    team.advance(11)
    (name,) = team.exchange.state.open_escalations
    asked = team.ask(cmd.RequestApproval("pre_merge_review", "the branch", "please"), "impl_001", cmd.ApprovalRequested)
    skip(team)
    escalated = {
        "errorType": "SystemError",
        "errorCode": "E_PROTOCOL_004",
        "errorMessage": "impl_002 did not answer msg_1_a",
        "severity": "medium",
        "context": {"about": "msg_1_a", "escalation": name},
    }
    approval = {
        "text": "the branch\nplease",
        "approval": asked.approval,
        "handoff": "pre_merge_review",
        "asker": "impl_001",
        "subject": "the branch",
        "details": "please",
    }
    team.register("chief", "Director", "director")
    expect(
        team,
        Notice("chief", "ApprovalRequested", BLOCKING, approval),
        Notice("chief", "ERROR_REPORT", BLOCKING, escalated),
    )
    team.register("chief", "Lead", "director")
    expect(team)
    team.ask(cmd.EscalateToHuman(name), "boss", cmd.Escalated)
    team.register("ann", "Person", "human")
    expect(
        team,
        Notice("ann", "ApprovalRequested", BLOCKING, approval),
        Notice("ann", "ERROR_REPORT", CRITICAL, escalated),
    )
    team.register("third", "Director", "director")
    expect(team, Notice("third", "ApprovalRequested", BLOCKING, approval))


def test_a_request_whose_message_cannot_be_answered(new_team: NewTeam) -> None:
    team = staffed(new_team)
    for number, ending in enumerate(("recall", "retire")):
        envelope = team.envelope(
            "impl_001", "impl_002", "CUSTOM_ASK", message_id=f"msg_{number}_a", correlation_id=f"t-{number}"
        )
        team.ask(cmd.SendRequest(envelope), "impl_001", cmd.Requested)
        report = {
            "errorType": "DependencyError",
            "errorCode": "E_ROUTING_003",
            "errorMessage": "the message of the request was recalled",
            "severity": "medium",
            "context": {"request": f"msg_{number}_a", "responder": "impl_002"},
            "recoverable": True,
            "suggestedAction": "send the request again",
        }
        if ending == "recall":
            team.recall("impl_001", "msg_0_a")
            expect(team, Notice("impl_001", "ERROR_REPORT", BLOCKING, report, "t-0"))
        else:
            team.attach("impl_002")
            team.confirm("impl_002", "msg_1_a")
            team.ask(cmd.RetireAgent("impl_002"), "impl_002", cmd.Done)
            report |= {"errorCode": "E_ROUTING_001", "errorMessage": "impl_002 left the project without answering"}
            expect(team, Notice("impl_001", "ERROR_REPORT", BLOCKING, report, "t-1"))


def test_an_announcement_names_the_peer(new_team: NewTeam) -> None:
    team = staffed(new_team, "sessions: {announce: true}")
    team.attach("impl_001")
    session = team.attach("impl_002")
    peer = {"agentId": "impl_002", "type": "Implementation", "role": "primary"}
    expect(team, Notice("impl_001", "PeerJoined", INFO, peer))
    team.detach(session)
    expect(team, Notice("impl_001", "PeerLeft", INFO, peer))


def test_a_deadlock_is_reported_to_its_victim_and_the_directors(new_team: NewTeam) -> None:
    team = staffed(new_team)
    team.hold(acquire("a", lease="l-a"), "impl_001")
    team.hold(acquire("b", lease="l-b"), "impl_002")
    team.wait_for_lease(acquire("b", lease="w-b", priority="Blocking"), "impl_001")
    team.refused(acquire("a", lease="w-a"), "impl_002")
    report = {
        "errorType": "DependencyError",
        "errorCode": "E_LEASE_004",
        "errorMessage": "deadlock: impl_002 → impl_001 → impl_002; the wait of impl_002 was refused, at Coordinate",
        "severity": "high",
        "context": {
            "victim": "impl_002",
            "refused": "lease:w-a",
            "size": 2,
            "cycle": [
                {"agent": "impl_002", "waitsFor": "lease:w-a", "of": ["impl_001"], "priority": "Coordinate"},
                {"agent": "impl_001", "waitsFor": "lease:w-b", "of": ["impl_002"], "priority": "Blocking"},
            ],
        },
        "recoverable": True,
        "suggestedAction": "release what you hold",
    }
    refused = {
        "lease": "w-a",
        "exclusive": ["a"],
        "shared": [],
        "priority": "Coordinate",
        "reason": "deadlock",
        "note": "deadlock: impl_002",
        "errorCode": "E_LEASE_004",
    }
    lost = {
        "lease": "l-b",
        "exclusive": ["b"],
        "shared": [],
        "priority": "Coordinate",
        "expiresAt": "2025-11-12T10:05:00.000Z",
        "reason": "deadlock",
        "by": "tocsin",
        "note": "deadlock: impl_002",
        "lost": ["b"],
    }
    granted = {
        "lease": "w-b",
        "exclusive": ["b"],
        "shared": [],
        "priority": "Blocking",
        "expiresAt": "2025-11-12T10:05:00.000Z",
        "waitedS": 0.0,
    }
    expect(
        team,
        Notice("impl_002", "ERROR_REPORT", BLOCKING, report),
        Notice("boss", "ERROR_REPORT", BLOCKING, report),
        Notice("impl_002", "LEASE_REFUSED", COORDINATE, refused),
        Notice("impl_002", "LEASE_LOST", BLOCKING, lost),
        Notice("impl_001", "LEASE_GRANTED", BLOCKING, granted),
    )


def test_a_lease_that_was_waited_for(new_team: NewTeam) -> None:
    """Its agent hears when it is granted, about to lapse, and lost."""
    team = staffed(new_team)
    team.hold(acquire("a", lease="first"), "impl_001")
    team.wait_for_lease(acquire("a", shared=("b",), lease="second", ttl_s=100, priority="Info"), "impl_002")
    team.advance(2.5)
    team.ask(cmd.ReleaseLease("first"), "impl_001", cmd.Released)
    about = {"lease": "second", "exclusive": ["a"], "shared": ["b"], "priority": "Info"}
    ends = {"expiresAt": "2025-11-12T10:01:42.500Z"}
    expect(team, Notice("impl_002", "LEASE_GRANTED", COORDINATE, about | ends | {"waitedS": 2.5}))
    team.advance(71)
    expect(team, Notice("impl_002", "LEASE_EXPIRING", COORDINATE, about | ends))
    team.advance(30)
    lost = {"reason": "lapsed", "by": "tocsin", "note": "its duration was over", "lost": ["a", "b"]}
    expect(team, Notice("impl_002", "LEASE_LOST", BLOCKING, about | ends | lost))


def test_a_lease_that_is_taken_away(new_team: NewTeam) -> None:
    """So is a request in the queue; one that waited too long is refused as well."""
    team = staffed(new_team, "escalation: {rules: {contention: {count: 9}}}")
    team.hold(acquire("a", lease="first"), "impl_001")
    team.wait_for_lease(acquire("a", lease="second", priority="Blocking"), "impl_002")
    team.wait_for_lease(acquire("a", lease="third", wait_s=5), "manager_001")
    team.ask(cmd.ForceRelease("second", "not now"), "boss", cmd.Released)
    about = {"exclusive": ["a"], "shared": []}
    refused = {
        "lease": "second",
        "priority": "Blocking",
        "reason": "forced",
        "note": "not now",
        "errorCode": "E_LEASE_002",
    }
    expect(team, Notice("impl_002", "LEASE_REFUSED", BLOCKING, about | refused))
    team.advance(6)
    over = {"lease": "third", "priority": "Coordinate", "reason": "timeout", "note": "its waiting time is over"}
    expect(team, Notice("manager_001", "LEASE_REFUSED", COORDINATE, about | over | {"errorCode": "E_LEASE_002"}))
    team.ask(cmd.ForceRelease("first", "needed"), "boss", cmd.Released)
    lost = {
        "lease": "first",
        "priority": "Coordinate",
        "reason": "forced",
        "by": "boss",
        "note": "needed",
        "lost": ["a"],
    }
    expect(team, Notice("impl_001", "LEASE_LOST", BLOCKING, about | lost | {"expiresAt": "2025-11-12T10:05:00.000Z"}))


def test_an_approval_from_its_request_to_its_decision(new_team: NewTeam) -> None:
    team = staffed(new_team)
    name = team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested).approval
    about = {"approval": name, "handoff": "pre_merge_review", "subject": "the branch"}
    asked = {"text": "the branch", "asker": "impl_001", "details": ""}
    expect(team, Notice("boss", "ApprovalRequested", BLOCKING, about | asked))
    team.advance(3601)
    (escalation,) = [event.escalation for event in team.happened(ev.EscalationOpened) if event.subject == name]
    report = {
        "errorType": "SystemError",
        "errorCode": "E_PROTOCOL_004",
        "errorMessage": "impl_001 waits for an approval (pre_merge_review, the branch) and nobody has decided it",
        "severity": "medium",
        "context": {"about": name, "escalation": escalation},
    }
    overdue = about | {"reason": "nobody has decided it"}
    assert Notice("impl_001", "ApprovalOverdue", BLOCKING, overdue) in notices(team)
    assert Notice("boss", "ERROR_REPORT", BLOCKING, report) in notices(team)
    skip(team)
    team.ask(cmd.DecideApproval(name, "refuse", "too large"), "boss", cmd.ApprovalDecided)
    decided = {"outcome": "refused", "by": "boss", "reason": "too large"}
    expect(team, Notice("impl_001", "ApprovalDecided", BLOCKING, about | decided))


def test_a_held_message_is_shown_to_who_decides(new_team: NewTeam) -> None:
    team = staffed(new_team)
    team.send("impl_001", "impl_002", "CUSTOM_PLAN", payload={"title": "rewrite"}, message_id="msg_1_a")
    (name,) = team.exchange.state.approvals
    (notice,) = notices(team)
    shown = notice.payload.pop("details")
    assert shown.startswith("CUSTOM_PLAN to impl_002: ")
    assert "rewrite" in shown
    about = {"approval": name, "handoff": "plan_approval", "subject": "msg_1_a", "asker": "impl_001", "text": shown}
    assert notice == Notice("boss", "ApprovalRequested", BLOCKING, about)


def test_a_clones_approval_is_no_more_urgent_than_its_role(new_team: NewTeam) -> None:
    team = staffed(new_team)
    team.register("twin", role="clone")
    team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "twin", cmd.ApprovalRequested)
    assert [notice.priority for notice in notices(team)] == [COORDINATE]


def test_a_discussion_from_its_question_to_its_end(new_team: NewTeam) -> None:
    team = staffed(new_team)
    members = ("impl_001", "impl_002")
    name = team.ask(cmd.OpenDiscussion("tabs?", members), "manager_001", cmd.Discussed).discussion
    about = {"discussion": name}
    opened = about | {"question": "tabs?", "options": ["agree", "disagree"], "participants": list(members)}
    expect(team, *(Notice(agent, "DiscussionOpened", COORDINATE, opened) for agent in members))
    team.ask(cmd.Speak(name, "spaces"), "impl_001", cmd.Discussed)
    spoken = about | {"speaker": "impl_001", "text": "spaces"}
    expect(team, *(Notice(agent, "DiscussionSpoken", INFO, spoken) for agent in ("impl_002", "manager_001")))
    for agent in members:
        team.ask(cmd.Vote(name, "agree"), agent, cmd.Discussed)
    closed = about | {"outcome": "consensus", "option": "agree", "votes": {"agree": 2, "disagree": 0}}
    closed |= {"detail": "agreed on agree"}
    expect(team, *(Notice(agent, "DiscussionClosed", COORDINATE, closed) for agent in (*members, "manager_001")))


def test_a_discussion_that_ends_without_consensus(new_team: NewTeam) -> None:
    team = staffed(new_team)
    members = ("impl_001", "impl_002")
    ends = {
        "no_consensus": "all have voted",
        "cancelled": "manager_001 cancelled it",
        "timeout": "no consensus within 300 s on: tabs?",
    }
    for outcome, detail in ends.items():
        name = team.ask(cmd.OpenDiscussion("tabs?", members), "manager_001", cmd.Discussed).discussion
        skip(team)
        if outcome == "no_consensus":
            team.ask(cmd.Vote(name, "agree"), "impl_001", cmd.Discussed)
            team.ask(cmd.Vote(name, "disagree"), "impl_002", cmd.Discussed)
        elif outcome == "cancelled":
            team.ask(cmd.CancelDiscussion(name), "manager_001", cmd.Discussed)
        else:
            team.advance(301)
        closed = [notice for notice in notices(team) if notice.type == "DiscussionClosed"]
        assert [notice.recipient for notice in closed] == [*members, "manager_001"]
        payload = closed[0].payload
        assert (payload["outcome"], payload["option"]) == (outcome, None)
        assert payload["detail"].startswith(detail)
        skip(team)


def test_folded_notices_are_counted(new_team: NewTeam) -> None:
    team = staffed(new_team, "notices: {per_subject_max: 1}")
    session = team.attach("boss", "piggyback")
    for _ in range(3):
        team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    assert [
        (event.recipient, event.subject, event.notice_type, event.level, event.count)
        for event in team.happened(ev.NoticeFolded)
    ] == [
        ("boss", "approvals of impl_001", "ApprovalRequested", BLOCKING, 1),
        ("boss", "approvals of impl_001", "ApprovalRequested", BLOCKING, 2),
    ]
    skip(team)
    team.drain(session)
    folded = {"subject": "approvals of impl_001", "count": 2, "text": "2 more notices about approvals of impl_001"}
    expect(team, Notice("boss", "NoticesFolded", BLOCKING, folded))


def test_a_notice_is_an_ordinary_message_of_the_bus(new_team: NewTeam) -> None:
    """It awaits no ACK, does not decay, costs nothing, and lives as long as its contract says."""
    team = staffed(new_team, "decay: {importance_default: 7}")
    team.attach("boss")
    team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    (event,) = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert (event.requested, event.priority, event.rule) == (BLOCKING, BLOCKING, "as_requested")
    assert (event.importance, event.decay_rate, event.delivery_class) == (7, 0.0, "async")
    assert (event.ack_required, event.opens_thread, event.broadcast, event.correlation_id) == (False, False, None, None)
    assert (event.sent_at, event.expires_at, event.version) == (team.now, team.now + 86_400_000_000, "1.1.0")
    assert (event.tokens, event.critical_quota, event.blocking_quota) == (None, None, None)
    assert (event.publish_path, event.recipient_state) == ("pushed_to_ws", "available")


def test_a_full_mailbox_gets_no_notice(new_team: NewTeam) -> None:
    team = staffed(new_team, "limits: {mailbox_depth_max: 2}")
    for _ in range(3):
        team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    assert len(notices(team)) == 2


def test_announcements_of_one_peer_are_folded(new_team: NewTeam) -> None:
    team = staffed(new_team, "{sessions: {announce: true}, notices: {per_subject_max: 1}}")
    team.attach("impl_001", "piggyback")
    team.detach(team.attach("impl_002"))
    (folded,) = team.happened(ev.NoticeFolded)
    assert msgspec.structs.astuple(folded)[1:] == ("impl_001", "presence of impl_002", "PeerLeft", INFO, 1)


def test_a_notice_carries_its_subject_if_it_has_one(new_team: NewTeam) -> None:
    team = staffed(new_team)
    team.attach("impl_001")
    team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    team.send("manager_001", "impl_001", message_id="msg_1_a")
    team.nack("impl_001", "msg_1_a", can_retry=False)
    sent = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert [event.metadata for event in sent] == [b'{"subject":"approvals of impl_001"}', b"{}"]

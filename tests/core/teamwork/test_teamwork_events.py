"""Teamwork, event by event: requests, approvals, discussions, topics, escalations and health."""

from typing import Any

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.stories import Story, crew
from tocsin.core import commands as cmd
from tocsin.core.protocol.timestamps import as_datetime

#: Events that other stories are about.
ASIDE = ("AgentCharged", "MessageAccepted", "PriorityInherited", "PriorityRestored")


def told(story: Story, *but: str) -> list[tuple[Any, ...]]:
    return [event for event in story.next() if event[0] not in (*ASIDE, *but)]


def request(team: Team, timeout_s: float | None = None, **parts: Any) -> cmd.Requested:
    """Ask impl_002 as impl_001."""
    kind = parts.pop("kind", "CUSTOM_ASK")
    envelope = team.envelope(
        "impl_001", "impl_002", kind, correlation_id="t-1", message_id="msg_1_a", priority="Coordinate"
    )
    return team.ask(cmd.SendRequest(envelope, timeout_s, **parts), "impl_001", cmd.Requested)


def answer(team: Team) -> None:
    team.send("impl_002", "impl_001", "CUSTOM_ANSWER", correlation_id="t-1", message_id="msg_2_a")


def test_a_request_that_is_answered(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.attach("impl_002")
    story = Story(team)
    asked = request(team)
    assert (asked.request, asked.due_at) == ("msg_1_a", as_datetime(team.now + 300_000_000))
    assert request(team).due_at == asked.due_at
    assert told(story) == [
        ("MessageOffered", "msg_1_a", "ses", 1, 1, 0, True),
        ("RequestOpened", "msg_1_a", "impl_001", "impl_002", "msg_1_a", "t-1", 300.0, False, 300.0, True),
        ("WaitBegan", "impl_001", "request", "msg_1_a", ("impl_002",), False, 1),
    ]
    team.advance(5)
    extended = team.ask(cmd.ExtendRequest("msg_1_a", 60), "impl_001", cmd.TimeoutExtended)
    assert extended == cmd.TimeoutExtended("msg_1_a", as_datetime(team.now + 60_000_000))
    assert told(story) == [("RequestExtended", "msg_1_a", 65.0, "impl_001")]
    answer(team)
    assert told(story) == [
        ("MessageDelivered", "msg_1_a", "response"),
        ("MessageProcessed", "msg_1_a", "response", 0),
        ("RequestEnded", "msg_1_a", "impl_001", "answered", "msg_2_a"),
        ("WaitEnded", "impl_001", "request", "msg_1_a", "served"),
    ]


def test_a_request_that_is_raised_once_and_then_escalated(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    request(team, 20, boost_on_timeout=True)
    told(story)
    team.advance(21)
    assert told(story) == [
        ("RequestExtended", "msg_1_a", 40.01, ""),
        ("MessageBoosted", "msg_1_a", 1, 2, False, "escalation", 20.0, 20010000, 0, 2),
        ("WaitRaised", "impl_001", "request", "msg_1_a", 2),
    ]
    team.advance(20)
    assert told(story) == [
        ("RequestEnded", "msg_1_a", "impl_001", "timeout", "impl_002 did"),
        ("WaitEnded", "impl_001", "request", "msg_1_a", "timeout"),
        (
            "EscalationOpened",
            "esc",
            "request_timeout msg_1_a",
            "request_timeout",
            "request_timeout",
            "msg_1_a",
            "impl_002 did",
            "msg_1_a",
            20.0,
        ),
        ("EscalationMoved", "esc", "age_over", "normal", "time_based_escalation", "tocsin", "", 0),
        (
            "EscalationMoved",
            "esc",
            "notified",
            "time_based_escalation",
            "director_notified",
            "tocsin",
            "impl_002 did",
            340.02,
        ),
    ]


def test_a_request_that_need_not_be_escalated(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    request(team, 20, escalate=False)
    assert told(story)[:1] == [
        ("RequestOpened", "msg_1_a", "impl_001", "impl_002", "msg_1_a", "t-1", 20.0, False, 20.0, False)
    ]
    team.advance(21)
    assert told(story) == [
        ("RequestEnded", "msg_1_a", "impl_001", "timeout", "impl_002 did"),
        ("WaitEnded", "impl_001", "request", "msg_1_a", "timeout"),
    ]


def test_a_request_that_is_cancelled_or_loses_its_message(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    request(team)
    told(story)
    team.ask(cmd.CancelRequest("msg_1_a"), "impl_001", cmd.Done)
    assert told(story) == [
        ("RequestEnded", "msg_1_a", "impl_001", "cancelled", "cancelled by"),
        ("WaitEnded", "impl_001", "request", "msg_1_a", "cancelled"),
    ]


def test_requests_of_who_leaves_and_to_who_leaves(new_team: NewTeam) -> None:
    for leaver in ("impl_001", "impl_002"):
        team = crew(new_team)
        team.attach("impl_002")
        request(team)
        team.confirm("impl_002", "msg_1_a")
        story = Story(team)
        team.ask(cmd.RetireAgent(leaver), leaver, cmd.Done)
        ended = [event for event in told(story) if event[0] in ("RequestEnded", "WaitEnded")]
        if leaver == "impl_001":
            assert ended == [
                ("WaitEnded", "impl_001", "request", "msg_1_a", "retired"),
                ("RequestEnded", "msg_1_a", "impl_001", "retired", "impl_001 left"),
            ]
        else:
            assert ended == [
                ("RequestEnded", "msg_1_a", "impl_001", "failed", "impl_002 left"),
                ("WaitEnded", "impl_001", "request", "msg_1_a", "cancelled"),
            ]


def test_a_held_request_waits_for_a_director_and_then_for_its_responder(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    request(team, kind="CUSTOM_PLAN")
    (approval,) = team.exchange.state.approvals
    assert told(story) == [
        ("ApprovalRequested", "apr", "plan_approval", "impl_001", "msg_1_a", "CUSTOM_PLAN to", True, 300.0, 300.0),
        ("RequestOpened", "msg_1_a", "impl_001", "impl_002", "msg_1_a", "t-1", 300.0, False, 300.0, True),
        ("WaitBegan", "impl_001", "request", "msg_1_a", ("boss",), True, 1),
    ]
    team.ask(cmd.DecideApproval(approval, "approve", "good"), "boss", cmd.ApprovalDecided)
    assert told(story) == [
        ("ApprovalEnded", "apr", "impl_001", "approved", "boss", "good", "msg_1_a"),
        ("MessageReleased", "msg_1_a", "apr", "boss", 3600.0, b""),
        ("WaitShifted", "impl_001", "request", "msg_1_a", ("impl_002",)),
    ]


def test_an_approval_that_is_decided(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    asked = team.ask(cmd.RequestApproval("pre_merge_review", "the branch", "please"), "impl_001", cmd.ApprovalRequested)
    assert asked.due_at == as_datetime(team.now + 3600_000_000)
    assert told(story) == [
        ("ApprovalRequested", "apr", "pre_merge_review", "impl_001", "the branch", "please", False, 3600.0, 3600.0),
        ("WaitBegan", "impl_001", "approval", "apr", ("boss",), True, 2),
    ]
    decided = team.ask(cmd.DecideApproval(asked.approval, "approve", "fine"), "boss", cmd.ApprovalDecided)
    assert decided == cmd.ApprovalDecided(asked.approval, "approved")
    assert told(story) == [
        ("ApprovalEnded", "apr", "impl_001", "approved", "boss", "fine", "the branch"),
        ("WaitEnded", "impl_001", "approval", "apr", "served"),
    ]


def test_an_approval_that_is_withdrawn_or_given_up(new_team: NewTeam) -> None:
    team = crew(
        new_team, "escalation: {rules: {coordinate_blocks: {after_s: 1000000}, blocking_blocks: {after_s: 1000000}}}"
    )
    story = Story(team)
    asked = team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    told(story)
    team.ask(cmd.WithdrawApproval(asked.approval), "impl_001", cmd.Done)
    assert told(story) == [
        ("ApprovalEnded", "apr", "impl_001", "withdrawn", "impl_001", "", "the branch"),
        ("WaitEnded", "impl_001", "approval", "apr", "served"),
    ]
    asked = team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    told(story)
    team.advance(3601)
    assert told(story) == [
        ("ApprovalOverdue", "apr", 3600.0, 90000.01),
        (
            "EscalationOpened",
            "esc",
            "approval_timeout apr",
            "approval_timeout",
            "approval_timeout",
            "apr",
            "impl_001 waits",
            0,
            3600.0,
        ),
        ("EscalationMoved", "esc", "age_over", "normal", "time_based_escalation", "tocsin", "", 0),
        (
            "EscalationMoved",
            "esc",
            "notified",
            "time_based_escalation",
            "director_notified",
            "tocsin",
            "impl_001 waits",
            3900.01,
        ),
    ]
    team.advance(86401)
    assert [event for event in told(story) if event[0] in ("ApprovalEnded", "WaitEnded")] == [
        ("ApprovalEnded", "apr", "impl_001", "timeout", "tocsin", "not decided after it was escalated", "the branch"),
        ("WaitEnded", "impl_001", "approval", "apr", "timeout"),
    ]


def test_a_held_message_is_released_changed_or_refused(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    for number, decision in enumerate(
        (
            {"verdict": "approve"},
            {"verdict": "approve", "payload": {"b": 2}},
            {"verdict": "refuse", "reason": "not now"},
        )
    ):
        team.send("impl_001", "impl_002", "CUSTOM_PLAN", payload={"a": 1}, message_id=f"msg_{number}_a")
        opened = told(story)
        (approval,) = team.exchange.state.approvals
        team.advance(1)
        team.ask(cmd.DecideApproval(approval, **decision), "boss", cmd.ApprovalDecided)  # type: ignore[arg-type]
        ended = told(story)
        if number == 0:
            assert opened == [
                (
                    "ApprovalRequested",
                    "apr",
                    "plan_approval",
                    "impl_001",
                    "msg_0_a",
                    "CUSTOM_PLAN to",
                    True,
                    300.0,
                    300.0,
                )
            ]
            assert ended == [
                ("ApprovalEnded", "apr", "impl_001", "approved", "boss", "", "msg_0_a"),
                ("MessageReleased", "msg_0_a", "apr", "boss", 3601.0, b""),
            ]
        elif number == 1:
            assert ended == [
                ("ApprovalEnded", "apr", "impl_001", "changed", "boss", "", "msg_1_a"),
                ("MessageReleased", "msg_1_a", "apr", "boss", 3602.0, b'{"b":2}'),
            ]
        else:
            assert ended == [
                ("ApprovalEnded", "apr", "impl_001", "refused", "boss", "not now", "msg_2_a"),
                ("MessageDied", "msg_2_a", "approval_refused", "E_AUTH_003", 0, "boss refused", 0, 0.0),
            ]


def test_an_approval_without_directors_is_overdue_at_once(new_team: NewTeam) -> None:
    team = new_team()
    team.register("impl_001")
    story = Story(team)
    team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "impl_001", cmd.ApprovalRequested)
    assert told(story) == [
        ("ApprovalRequested", "apr", "pre_merge_review", "impl_001", "the branch", "", False, 3600.0, 3600.0),
        ("ApprovalOverdue", "apr", 0.0, 86400.0),
        (
            "EscalationOpened",
            "esc",
            "approval_timeout apr",
            "approval_timeout",
            "approval_timeout",
            "apr",
            "impl_001 waits",
            0,
            0.0,
        ),
        ("EscalationMoved", "esc", "age_over", "normal", "time_based_escalation", "tocsin", "", 0),
        (
            "EscalationMoved",
            "esc",
            "notified",
            "time_based_escalation",
            "director_notified",
            "tocsin",
            "impl_001 waits",
            300.0,
        ),
        ("EscalationMoved", "esc", "escalated", "director_notified", "human_escalation", "tocsin", "there is", 300.0),
        ("WaitBegan", "impl_001", "approval", "apr", (), True, 2),
    ]


def test_an_override_that_is_approved_takes_the_lease_away(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(cmd.AcquireLease(("a",), lease="one"), "impl_002")
    asked = team.ask(cmd.RequestApproval("lease_override", "one"), "impl_001", cmd.ApprovalRequested)
    story = Story(team)
    team.ask(cmd.DecideApproval(asked.approval, "approve", "urgent"), "boss", cmd.ApprovalDecided)
    assert told(story) == [
        ("ApprovalEnded", "apr", "impl_001", "approved", "boss", "urgent", "one"),
        ("WaitEnded", "impl_001", "approval", "apr", "served"),
        ("LeaseReleased", "one", "impl_002", ("a",), "forced", "boss", "impl_001 asked"),
    ]


def discuss(team: Team, **parts: Any) -> str:
    command = cmd.OpenDiscussion("tabs?", ("impl_001", "impl_002"), **parts)
    return team.ask(command, "manager_001", cmd.Discussed).discussion


def test_a_discussion_that_agrees(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    name = discuss(team, consensus="unanimous")
    assert told(story) == [
        (
            "DiscussionOpened",
            "dis",
            "manager_001",
            "tabs?",
            ("impl_001", "impl_002"),
            ("agree", "disagree"),
            2,
            "unanimous",
            300.0,
        ),
        ("WaitBegan", "manager_001", "discussion", "dis", ("impl_001", "impl_002"), True, 1),
    ]
    team.ask(cmd.Speak(name, "spaces"), "impl_001", cmd.Discussed)
    voted = team.ask(cmd.Vote(name, "agree"), "impl_001", cmd.Discussed)
    assert voted == cmd.Discussed(name, "open", {"agree": 1, "disagree": 0})
    assert told(story) == [
        ("DiscussionSpoken", "dis", "impl_001", "spaces"),
        ("VoteCast", "dis", "impl_001", "agree"),
        ("WaitShifted", "manager_001", "discussion", "dis", ("impl_002",)),
    ]
    voted = team.ask(cmd.Vote(name, "agree"), "impl_002", cmd.Discussed)
    assert voted == cmd.Discussed(name, "consensus", {"agree": 2, "disagree": 0}, "agree")
    assert told(story) == [
        ("VoteCast", "dis", "impl_002", "agree"),
        ("DiscussionClosed", "dis", "manager_001", "consensus", "agree", ("agree=2", "disagree=0"), "agreed on"),
        ("WaitEnded", "manager_001", "discussion", "dis", "served"),
    ]


def test_a_discussion_that_ends_otherwise(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    name = discuss(team, max_s=50)
    told(story)
    team.advance(51)
    assert told(story) == [
        ("DiscussionClosed", "dis", "manager_001", "timeout", "", ("agree=0", "disagree=0"), "no consensus"),
        ("WaitEnded", "manager_001", "discussion", "dis", "timeout"),
        (
            "EscalationOpened",
            "esc",
            "consensus_timeout dis",
            "consensus_timeout",
            "consensus_timeout",
            "dis",
            "no consensus",
            0,
            50.0,
        ),
        ("EscalationMoved", "esc", "age_over", "normal", "time_based_escalation", "tocsin", "", 0),
        (
            "EscalationMoved",
            "esc",
            "notified",
            "time_based_escalation",
            "director_notified",
            "tocsin",
            "no consensus",
            350.01,
        ),
    ]
    name = discuss(team)
    told(story)
    team.ask(cmd.CancelDiscussion(name), "boss", cmd.Discussed)
    assert told(story) == [
        ("DiscussionClosed", "dis", "manager_001", "cancelled", "", ("agree=0", "disagree=0"), "boss cancelled"),
        ("WaitEnded", "manager_001", "discussion", "dis", "cancelled"),
    ]
    discuss(team)
    told(story)
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert told(story) == [
        ("AgentRetired", "impl_001", "boss", ""),
        ("DiscussionLeft", "dis", "impl_001"),
        ("DiscussionClosed", "dis", "manager_001", "too_few", "", ("agree=0", "disagree=0"), "impl_001 left"),
        ("WaitEnded", "manager_001", "discussion", "dis", "too_few"),
    ]


def test_a_consensus_that_must_be_ratified(new_team: NewTeam) -> None:
    team = crew(new_team, "approvals: {handoffs: {ratification: {enabled: true}}}")
    for verdict in ("approve", "refuse"):
        story = Story(team)
        name = discuss(team)
        for agent in ("impl_001", "impl_002"):
            voted = team.ask(cmd.Vote(name, "agree"), agent, cmd.Discussed)
        assert voted == cmd.Discussed(name, "ratifying", {"agree": 2, "disagree": 0}, "agree")
        reached = told(story, "DiscussionOpened", "VoteCast", "WaitBegan")
        (approval,) = team.exchange.state.approvals
        team.ask(cmd.DecideApproval(approval, verdict, "because"), "boss", cmd.ApprovalDecided)
        if verdict == "approve":
            assert reached == [
                ("WaitShifted", "manager_001", "discussion", "dis", ("impl_002",)),
                ("ConsensusReached", "dis", "agree", "apr"),
                ("WaitEnded", "manager_001", "discussion", "dis", "served"),
                ("ApprovalRequested", "apr", "ratification", "manager_001", "dis", "tabs?: agree", False, 300.0, 300.0),
            ]
            assert told(story) == [
                ("ApprovalEnded", "apr", "manager_001", "approved", "boss", "because", "dis"),
                ("WaitEnded", "manager_001", "approval", "apr", "served"),
                (
                    "DiscussionClosed",
                    "dis",
                    "manager_001",
                    "consensus",
                    "agree",
                    ("agree=2", "disagree=0"),
                    "agreed on",
                ),
            ]
        else:
            assert told(story) == [
                ("ApprovalEnded", "apr", "manager_001", "refused", "boss", "because", "dis"),
                ("WaitEnded", "manager_001", "approval", "apr", "served"),
                (
                    "DiscussionClosed",
                    "dis",
                    "manager_001",
                    "not_ratified",
                    "",
                    ("agree=2", "disagree=0"),
                    "boss: because",
                ),
            ]


def test_topics(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    for agent in ("impl_002", "impl_001", "boss"):
        assert team.ask(cmd.Subscribe("builds"), agent, cmd.Subscriptions).topics == ("builds",)
    team.register("impl_002", capabilities=("CUSTOM_OTHER",))
    published = team.ask(
        cmd.Publish("builds", team.envelope("impl_001", "*", message_id="msg_1_a")), "impl_001", cmd.Published
    )
    assert (published.topic, [receipt.recipient for receipt in published.receipts]) == ("builds", ["boss"])
    assert (published.failed["impl_002"].code, published.code) == ("E_ROUTING_002", "E_ROUTING_004")
    assert team.ask(cmd.Unsubscribe("builds"), "impl_001", cmd.Subscriptions).topics == ()
    team.ask(cmd.RetireAgent("impl_002"), "boss", cmd.Done)
    assert told(story) == [
        ("Subscribed", "builds", "impl_002"),
        ("Subscribed", "builds", "impl_001"),
        ("Subscribed", "builds", "boss"),
        (
            "AgentRegistered",
            "impl_002",
            "Implementation",
            "primary",
            "1.1.0",
            ("1.0.0", "1.1.0"),
            ("CUSTOM_OTHER",),
            "primary",
        ),
        ("BroadcastAccepted", "msg_1_a", "impl_001", "StatusUpdate", "*", 1, ("impl_002=E_ROUTING_002",), b"{}", b"{}"),
        ("TopicPublished", "builds", "msg_1_a", "impl_001", 1, 1, "each"),
        ("Unsubscribed", "builds", "impl_001", "asked"),
        ("AgentRetired", "impl_002", "boss", ""),
        ("Unsubscribed", "builds", "impl_002", "retired"),
    ]


def test_a_publication_to_nobody_is_recorded_too(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    envelope = team.envelope("impl_001", "*", message_id="msg_1_a")
    assert team.ask(cmd.Publish("builds", envelope, "all"), "impl_001", cmd.Published) == cmd.Published("builds")
    assert told(story) == [("TopicPublished", "builds", "msg_1_a", "impl_001", 0, 0, "all")]


def test_a_message_that_waits_too_long_is_escalated_step_by_step(new_team: NewTeam) -> None:
    """LIMINAL's path: boost, then the director, then the human; a human's resolution closes it."""
    team = crew(new_team, "aging: {enabled: false}")
    team.register("ann", "Person", "human")
    team.send("impl_001", "impl_002", priority="Blocking", message_id="msg_1_a")
    story = Story(team)
    team.advance(61)
    assert told(story) == [
        (
            "EscalationOpened",
            "esc",
            "time_in_queue 7 1762941600000000",
            "blocking_waits",
            "time_in_queue",
            "msg_1_a",
            "msg_1_a of",
            "msg_1_a",
            60.0,
        ),
        ("EscalationMoved", "esc", "age_over", "normal", "time_based_escalation", "tocsin", "", 0),
        ("MessageBoosted", "msg_1_a", 2, 3, False, "escalation", 60.0, 60010000, 0, 3),
        ("EscalationMoved", "esc", "boosted", "time_based_escalation", "priority_boosted", "tocsin", "", 120.01),
    ]
    team.advance(61)
    assert told(story) == [
        ("EscalationMoved", "esc", "not_resolved", "priority_boosted", "still_waiting", "tocsin", "", 0),
        ("EscalationMoved", "esc", "notified", "still_waiting", "director_notified", "tocsin", "msg_1_a of", 420.02),
    ]
    team.advance(301)
    assert told(story) == [
        (
            "EscalationMoved",
            "esc",
            "escalated",
            "director_notified",
            "human_escalation",
            "tocsin",
            "no director",
            720.03,
        )
    ]
    (name,) = team.exchange.state.open_escalations
    resolved = team.ask(cmd.ResolveEscalation(name, "asked by phone"), "ann", cmd.Escalated)
    assert resolved == cmd.Escalated(name, "normal")
    assert told(story) == [
        ("EscalationMoved", "esc", "human_acts", "human_escalation", "human_intervention", "ann", "asked by", 0),
        ("EscalationMoved", "esc", "returned", "human_intervention", "normal", "tocsin", "", 0),
    ]


def test_an_escalation_is_over_when_its_message_is_taken(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.send("impl_001", "impl_002", priority="Blocking", message_id="msg_1_a")
    team.advance(61)
    story = Story(team)
    team.attach("impl_002")
    assert told(story, "SessionOpened") == [
        ("MessageOffered", "msg_1_a", "ses", 1, 3, 61000000, False),
        ("EscalationMoved", "esc", "over", "priority_boosted", "resolved", "tocsin", "the condition", 0),
        ("EscalationMoved", "esc", "returned", "resolved", "normal", "tocsin", "", 0),
    ]


def test_a_director_resolves_what_was_only_boosted(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.send("impl_001", "impl_002", priority="Blocking", message_id="msg_1_a")
    team.advance(61)
    (name,) = team.exchange.state.open_escalations
    story = Story(team)
    team.ask(cmd.ResolveEscalation(name, "done"), "boss", cmd.Escalated)
    assert told(story) == [
        ("EscalationMoved", "esc", "not_resolved", "priority_boosted", "still_waiting", "boss", "", 0),
        ("EscalationMoved", "esc", "notified", "still_waiting", "director_notified", "boss", "", 0),
        ("EscalationMoved", "esc", "director_acts", "director_notified", "director_intervention", "boss", "done", 0),
        ("EscalationMoved", "esc", "resolved", "director_intervention", "resolved", "boss", "", 0),
        ("EscalationMoved", "esc", "returned", "resolved", "normal", "tocsin", "", 0),
    ]


def test_a_wait_that_blocks_is_escalated(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.hold(cmd.AcquireLease(("a",), lease="one", ttl_s=1000), "impl_001")
    team.wait_for_lease(cmd.AcquireLease(("a",), lease="two", wait_s=1000), "impl_002")
    story = Story(team)
    team.advance(61)
    assert told(story) == [
        (
            "EscalationOpened",
            "esc",
            "dependency_blocked 7",
            "coordinate_blocks",
            "dependency_blocked",
            "lease:two:impl_002",
            "impl_002 has",
            0,
            60.0,
        ),
        ("EscalationMoved", "esc", "blocked", "normal", "dependency_escalation", "tocsin", "", 0),
        ("WaitRaised", "impl_002", "lease", "two", 2),
        ("EscalationMoved", "esc", "inherited", "dependency_escalation", "inheritance_applied", "tocsin", "", 120.01),
    ]
    team.advance(61)
    assert told(story) == [
        (
            "EscalationMoved",
            "esc",
            "notified",
            "inheritance_applied",
            "director_notified",
            "tocsin",
            "impl_002 has",
            420.02,
        )
    ]


def test_a_critical_error_goes_to_the_directors_at_once(new_team: NewTeam) -> None:
    team = crew(new_team)
    report = {"errorType": "SystemError", "errorMessage": "broken", "severity": "critical"}
    story = Story(team)
    team.send("impl_001", "manager_001", "ERROR_REPORT", payload=report, message_id="msg_1_a")
    assert told(story) == [
        (
            "EscalationOpened",
            "esc",
            "critical_error msg_1_a",
            "critical_error",
            "critical_error",
            "msg_1_a",
            "impl_001 reported",
            "msg_1_a",
            0.0,
        ),
        ("EscalationMoved", "esc", "degraded", "normal", "health_escalation", "tocsin", "", 0),
        (
            "EscalationMoved",
            "esc",
            "alerted",
            "health_escalation",
            "critical_alert",
            "tocsin",
            "impl_001 reported",
            300.0,
        ),
    ]


def test_escalations_over_the_limit_are_deferred(new_team: NewTeam) -> None:
    team = crew(new_team, "escalation: {open_max: 1, deferred_max: 1}")
    for number in range(3):
        team.send("impl_001", "impl_002", priority="Blocking", message_id=f"msg_{number}_a")
    story = Story(team)
    team.advance(61)
    assert [event for event in told(story) if event[0].startswith("EscalationDef")] == [
        (
            "EscalationDeferred",
            "time_in_queue 7 1762941600000000",
            "time_in_queue",
            "msg_1_a",
            "msg_1_a of",
            "msg_1_a",
            2,
            0.0,
            True,
        ),
        (
            "EscalationDeferred",
            "time_in_queue 8 1762941600000000",
            "time_in_queue",
            "msg_2_a",
            "msg_2_a of",
            "msg_2_a",
            2,
            0.0,
            False,
        ),
    ]
    (name,) = team.exchange.state.open_escalations
    team.ask(cmd.ResolveEscalation(name, "done"), "boss", cmd.Escalated)
    assert [event for event in told(story) if event[0] == "EscalationOpened"] == [
        (
            "EscalationOpened",
            "esc",
            "time_in_queue 7 1762941600000000",
            "blocking_waits",
            "time_in_queue",
            "msg_1_a",
            "msg_1_a of",
            "msg_1_a",
            60.0,
        )
    ]


def test_an_alert_is_raised_eased_and_cleared(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    for seconds, value in ((0, 0.3), (59, 0.3), (1, 0.4), (10, 0.15), (10, 0.3), (10, 0.2), (60, 0.1)):
        team.advance(seconds)
        team.ask(cmd.ReportHealth({"critical_delivery_s": value}), "boss", cmd.HealthReported)
    assert [event for event in told(story) if not event[0].startswith("Esc")] == [
        ("HealthBreached", "critical_delivery_s", 0.3, 0.25),
        ("AlertRaised", "critical_delivery_s", 0.4, 0.25, 0.0, 60.0),
        ("AlertEased", "critical_delivery_s", 0.15),
        ("AlertWorsened", "critical_delivery_s", 0.3),
        ("AlertEased", "critical_delivery_s", 0.2),
        ("AlertCleared", "critical_delivery_s", 0.1, 60.0),
    ]
    team.ask(cmd.ReportHealth({"critical_delivery_s": 0.3}), "boss", cmd.HealthReported)
    team.ask(cmd.ReportHealth({"critical_delivery_s": 0.25}), "boss", cmd.HealthReported)
    assert told(story) == [
        ("HealthBreached", "critical_delivery_s", 0.3, 0.25),
        ("HealthRecovered", "critical_delivery_s", 0.25),
    ]


def test_an_alert_is_escalated_while_it_lasts(new_team: NewTeam) -> None:
    team = crew(new_team)
    story = Story(team)
    for seconds, value in ((0, 0.3), (60, 0.4), (1, 0.1), (60, 0.1)):
        team.advance(seconds)
        reported = team.ask(cmd.ReportHealth({"critical_delivery_s": value}), "boss", cmd.HealthReported)
    assert reported == cmd.HealthReported(())
    assert [event for event in told(story) if event[0].startswith("Esc")] == [
        (
            "EscalationOpened",
            "esc",
            "health_degraded critical_delivery_s 6",
            "health_degraded",
            "health_degraded",
            "critical_delivery_s",
            "The delivery",
            0,
            60.0,
        ),
        ("EscalationMoved", "esc", "degraded", "normal", "health_escalation", "tocsin", "", 0),
        ("EscalationMoved", "esc", "alerted", "health_escalation", "critical_alert", "tocsin", "The delivery", 360.0),
        ("EscalationMoved", "esc", "over", "critical_alert", "resolved", "tocsin", "the condition", 0),
        ("EscalationMoved", "esc", "returned", "resolved", "normal", "tocsin", "", 0),
    ]

"""Discussions: speaking, voting, every rule of consensus, the 300 s of LIMINAL, ratification."""

import json
from typing import Any

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import Problem
from tocsin.core.messages.admission import levels
from tocsin.core.messages.message import Message

LATE_S = 0.05
CREW = ("ann", "ben", "cid", "dan")


@pytest.fixture
def crew(new_team: NewTeam) -> Team:
    return made(new_team)


def made(new_team: NewTeam, policy: str | None = None) -> Team:
    team = new_team(policy)
    team.register("boss", "Director", "director")
    team.register("opener")
    for name in CREW:
        team.register(name, role="clone")
    return team


def discuss(team: Team, participants: tuple[str, ...] = CREW, **parts: Any) -> str:
    command = cmd.OpenDiscussion("tabs or spaces?", participants, **parts)
    return team.ask(command, "opener", cmd.Discussed).discussion


def vote(team: Team, discussion: str, voter: str, option: str = "agree") -> cmd.Discussed:
    return team.ask(cmd.Vote(discussion, option), voter, cmd.Discussed)


def told(team: Team, agent: str, message_type: str) -> list[Message]:
    known = team.exchange.state.messages.values()
    return [message for message in known if message.recipient == agent and message.type == message_type]


def closings(team: Team) -> list[tuple[str, str]]:
    return [(event.outcome, event.option) for event in team.happened(ev.DiscussionClosed)]


@pytest.mark.parametrize(
    ("consensus", "votes", "outcome"),
    [
        ("majority", "aa", None),
        ("majority", "aaa", "consensus"),
        ("majority", "addd", "consensus"),
        ("majority", "aadd", "no_consensus"),
        ("two_thirds", "aa", None),
        ("two_thirds", "aaa", "consensus"),
        ("two_thirds", "aadd", "no_consensus"),
        ("unanimous", "aaa", None),
        ("unanimous", "aaaa", "consensus"),
        ("unanimous", "aaad", "no_consensus"),
    ],
)
def test_when_there_is_consensus(crew: Team, consensus: str, votes: str, outcome: str | None) -> None:
    discussion = discuss(crew, consensus=consensus)
    for voter, letter in zip(CREW, votes, strict=False):
        standing = vote(crew, discussion, voter, {"a": "agree", "d": "disagree"}[letter])
    assert standing.state == (outcome or "open")
    assert bool(crew.exchange.state.discussions) is (outcome is None)
    assert not crew.exchange.state.waits.waits or outcome is None


def test_enough_must_have_voted(crew: Team) -> None:
    discussion = discuss(crew, ("ann",), voters_min=1)
    assert vote(crew, discussion, "ann").state == "consensus"
    discussion = discuss(crew, voters_min=4)
    for voter in CREW[:3]:
        assert vote(crew, discussion, voter).state == "open"
    assert vote(crew, discussion, "dan", "disagree").state == "consensus"


def test_all_are_told_of_the_beginning_every_word_and_the_end(crew: Team) -> None:
    discussion = discuss(crew)
    assert all(told(crew, name, "DiscussionOpened") for name in CREW)
    crew.ask(cmd.Speak(discussion, "spaces, always"), "ann", cmd.Discussed)
    assert not told(crew, "ann", "DiscussionSpoken")
    for name in ("ben", "cid", "dan", "opener"):
        (heard,) = told(crew, name, "DiscussionSpoken")
        assert json.loads(heard.payload) == {"discussion": discussion, "speaker": "ann", "text": "spaces, always"}
    for voter in CREW[:3]:
        vote(crew, discussion, voter)
    for name in (*CREW, "opener"):
        (end,) = told(crew, name, "DiscussionClosed")
        assert json.loads(end.payload)["outcome"] == "consensus"


def test_the_opener_waits_for_any_who_have_not_voted(crew: Team) -> None:
    discussion = discuss(crew)
    (wait,) = crew.exchange.state.waits.waits.values()
    assert (wait.waiter, wait.any_of, sorted(wait.on)) == ("opener", True, sorted(CREW))
    vote(crew, discussion, "ann")
    assert sorted(wait.on) == ["ben", "cid", "dan"]


def test_a_vote_can_be_changed_until_the_end(crew: Team) -> None:
    discussion = discuss(crew)
    vote(crew, discussion, "ann")
    before = len(crew.events)
    vote(crew, discussion, "ann")
    assert len(crew.events) == before, "the same again is nothing new"
    assert vote(crew, discussion, "ann", "disagree").votes == {"agree": 0, "disagree": 1}


def test_consensus_times_out_after_300_s_and_is_escalated(crew: Team) -> None:
    discussion = discuss(crew)
    vote(crew, discussion, "ann")
    crew.advance(299.9)
    assert not closings(crew)
    crew.advance(0.2)
    assert closings(crew) == [("timeout", "")]
    (escalation,) = [e for e in crew.exchange.state.escalations.values() if e.trigger == "consensus_timeout"]
    assert (escalation.subject, escalation.state) == (discussion, "director_notified")
    assert not crew.exchange.state.waits.waits


def test_ratification_comes_between_vote_and_outcome(new_team: NewTeam) -> None:
    team = made(new_team, "approvals: {handoffs: {ratification: {enabled: true}}}")
    discussion = discuss(team)
    for voter in CREW[:3]:
        standing = vote(team, discussion, voter)
    assert (standing.state, standing.option) == ("ratifying", "agree")
    (approval,) = team.exchange.state.approvals.values()
    assert (approval.handoff, approval.subject) == ("ratification", discussion)
    assert team.refused(cmd.Vote(discussion, "agree"), "dan").code == "E_STATE_002"
    team.ask(cmd.DecideApproval(approval.approval, "approve"), "boss", cmd.ApprovalDecided)
    assert closings(team) == [("consensus", "agree")]


def test_what_is_not_ratified_is_no_consensus(new_team: NewTeam) -> None:
    team = made(new_team, "approvals: {handoffs: {ratification: {enabled: true}}}")
    discussion = discuss(team)
    for voter in CREW[:3]:
        vote(team, discussion, voter)
    (approval,) = team.exchange.state.approvals
    team.ask(cmd.DecideApproval(approval, "refuse", "not now"), "boss", cmd.ApprovalDecided)
    assert closings(team) == [("not_ratified", "")]


RATIFIED = "approvals: {handoffs: {ratification: {enabled: true}}}"


def ratifying(new_team: NewTeam, participants: tuple[str, ...] = CREW[:2]) -> tuple[Team, str, str]:
    """Bring a discussion to where a director is asked; return the team, the discussion and its approval."""
    team = made(new_team, RATIFIED)
    discussion = discuss(team, participants)
    for voter in participants:
        vote(team, discussion, voter)
    (approval,) = team.exchange.state.approvals
    assert team.exchange.state.discussions[discussion].approval == approval
    return team, discussion, approval


def nothing_is_left(team: Team) -> bool:
    state = team.exchange.state
    return not state.discussions and not state.approvals and not state.waits.waits


def test_an_opener_who_withdraws_the_approval_has_no_consensus(new_team: NewTeam) -> None:
    team, _, approval = ratifying(new_team)
    team.ask(cmd.WithdrawApproval(approval), "opener", cmd.Done)
    assert closings(team) == [("not_ratified", "")]
    assert nothing_is_left(team)


@pytest.mark.parametrize("ending", ["withdrawn", "approved", "refused"])
@pytest.mark.parametrize("handoff", ["plan_approval", "ratification"])
@pytest.mark.parametrize("asker", ["dan", "opener"])
def test_another_approval_about_a_discussion_ratifies_nothing(
    new_team: NewTeam, ending: str, handoff: cmd.Handoff, asker: str
) -> None:
    team, discussion, approval = ratifying(new_team)
    other = team.ask(cmd.RequestApproval(handoff, discussion), asker, cmd.ApprovalRequested).approval
    match ending:
        case "withdrawn":
            team.ask(cmd.WithdrawApproval(other), asker, cmd.Done)
        case "approved":
            team.ask(cmd.DecideApproval(other, "approve"), "boss", cmd.ApprovalDecided)
        case "refused":
            team.ask(cmd.DecideApproval(other, "refuse", "no"), "boss", cmd.ApprovalDecided)
    assert not closings(team)
    team.ask(cmd.DecideApproval(approval, "approve"), "boss", cmd.ApprovalDecided)
    assert closings(team) == [("consensus", "agree")]
    assert nothing_is_left(team)


def test_a_ratification_that_gives_way_in_a_deadlock_is_no_consensus(new_team: NewTeam) -> None:
    team, *_ = ratifying(new_team)
    team.hold(cmd.AcquireLease(exclusive=("x",)), "opener")
    team.handle(cmd.AcquireLease(exclusive=("x",), priority="DirectorOverride"), team.caller("boss"))
    assert [found.victim for found in team.happened(ev.DeadlockFound)] == ["opener"]
    assert closings(team) == [("not_ratified", "")]
    assert not team.exchange.state.approvals


def test_a_ratification_that_nobody_decides_is_no_consensus_in_the_end(new_team: NewTeam) -> None:
    team, *_ = ratifying(new_team)
    team.advance(300 + 86400 + LATE_S)
    assert closings(team) == [("not_ratified", "")]
    assert nothing_is_left(team)


@pytest.mark.parametrize("who", ["opener", "boss"])
def test_a_discussion_cancelled_while_it_is_ratified_ends_its_approval(new_team: NewTeam, who: str) -> None:
    team, discussion, _ = ratifying(new_team)
    team.ask(cmd.CancelDiscussion(discussion), who, cmd.Discussed)
    assert closings(team) == [("cancelled", "")]
    assert [event.outcome for event in team.happened(ev.ApprovalEnded)] == ["moot"]
    assert nothing_is_left(team)


def test_an_opener_who_leaves_while_it_is_ratified_leaves_nothing_behind(new_team: NewTeam) -> None:
    team, *_ = ratifying(new_team)
    team.ask(cmd.RetireAgent("opener"), "boss", cmd.Done)
    assert closings(team) == [("cancelled", "")]
    assert nothing_is_left(team)


def test_who_leaves_while_it_is_ratified_does_not_undo_what_was_agreed(new_team: NewTeam) -> None:
    team, _, approval = ratifying(new_team)
    team.ask(cmd.RetireAgent("ann"), "boss", cmd.Done)
    assert not closings(team)
    team.ask(cmd.DecideApproval(approval, "approve"), "boss", cmd.ApprovalDecided)
    assert closings(team) == [("consensus", "agree")]
    assert nothing_is_left(team)


def test_who_leaves_does_not_count_any_more(crew: Team) -> None:
    discussion = discuss(crew, consensus="unanimous")
    for voter in CREW[:3]:
        vote(crew, discussion, voter)
    crew.ask(cmd.RetireAgent("dan"), "boss", cmd.Done)
    assert closings(crew) == [("consensus", "agree")]


def test_too_few_are_left_or_the_opener_is_gone(crew: Team) -> None:
    discuss(crew, ("ann", "ben"))
    crew.ask(cmd.RetireAgent("ann"), "boss", cmd.Done)
    discuss(crew, ("cid", "dan"))
    crew.ask(cmd.RetireAgent("opener"), "boss", cmd.Done)
    assert [outcome for outcome, _ in closings(crew)] == ["too_few", "cancelled"]
    assert not crew.exchange.state.waits.waits


def test_opener_or_director_ends_it(crew: Team) -> None:
    first, second = discuss(crew), discuss(crew)
    assert crew.refused(cmd.CancelDiscussion(first), "ann").code == "E_STATE_001"
    crew.ask(cmd.CancelDiscussion(first), "opener", cmd.Discussed)
    crew.ask(cmd.CancelDiscussion(second), "boss", cmd.Discussed)
    assert [outcome for outcome, _ in closings(crew)] == ["cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"participants": ("ann", "nobody")}, "E_ROUTING_001"),
        ({"participants": ("ann", "ann", "ben")}, "E_VALIDATION_004"),
        ({"participants": ("ann",)}, "E_VALIDATION_004"),
        ({"participants": ()}, "E_VALIDATION_004"),
        ({"voters_min": 5}, "E_VALIDATION_004"),
        ({"options": ("yes",)}, "E_VALIDATION_004"),
        ({"options": ("yes", "yes")}, "E_VALIDATION_004"),
        ({"max_s": 301}, "E_VALIDATION_004"),
        ({"max_s": 0}, "E_VALIDATION_004"),
    ],
)
def test_what_cannot_be_opened(crew: Team, parts: dict[str, Any], code: str) -> None:
    command = cmd.OpenDiscussion("?", **({"participants": CREW} | parts))
    assert crew.refused(command, "opener").code == code


def test_who_may_speak_and_vote_on_what(crew: Team) -> None:
    discussion = discuss(crew)
    assert crew.refused(cmd.Vote(discussion, "agree"), "opener").code == "E_STATE_001"
    assert crew.refused(cmd.Speak(discussion, "hm"), "boss").code == "E_STATE_001"
    assert crew.refused(cmd.Vote(discussion, "maybe"), "ann").code == "E_VALIDATION_003"
    crew.ask(cmd.Speak(discussion, "please hurry"), "opener", cmd.Discussed)


def test_limits(new_team: NewTeam) -> None:
    team = made(new_team, "discussions: {contributions_max: 1, open_max: 1}")
    discussion = discuss(team)
    team.ask(cmd.Speak(discussion, "one"), "ann", cmd.Discussed)
    assert team.refused(cmd.Speak(discussion, "two"), "ben").code == "E_ADMISSION_008"
    assert team.refused(cmd.OpenDiscussion("?", CREW), "opener").code == "E_ADMISSION_008"


def test_one_opener_leaves_room_for_the_others(new_team: NewTeam) -> None:
    team = made(new_team, "discussions: {per_agent_max: 1}")
    first = discuss(team)
    assert team.refused(cmd.OpenDiscussion("?", CREW), "opener").code == "E_ADMISSION_008"
    team.ask(cmd.OpenDiscussion("?", CREW), "ann", cmd.Discussed)
    team.ask(cmd.CancelDiscussion(first), "opener", cmd.Discussed)
    discuss(team)


def test_two_discussions_that_wait_for_each_other_do_not_hang(crew: Team) -> None:
    discuss(crew, ("ann",), voters_min=1)
    crew.ask(cmd.OpenDiscussion("?", ("opener",), voters_min=1), "ann", cmd.Discussed)
    assert [outcome for outcome, _ in closings(crew)] == ["deadlock"]


def crowd(team: Team, size: int) -> tuple[str, ...]:
    names = tuple(f"peer_{number:02d}" for number in range(size))
    for name in names:
        team.register(name)
    return names


def tokens(team: Team, agent: str) -> float:
    return levels(team.exchange.state.agents[agent], team.exchange.state.policy, team.now)[0]


def test_an_opener_pays_for_the_notices_of_the_opening_and_of_the_end(crew: Team) -> None:
    discussion = discuss(crew)
    assert tokens(crew, "opener") == 1000 - (5 + 3) - (5 + 4), "four are told that it begins, and five that it ends"
    (charged,) = crew.happened(ev.AgentCharged)
    assert (charged.agent, charged.cause, charged.copies, charged.cost) == ("opener", "discussion", 9, 17)
    crew.ask(cmd.CancelDiscussion(discussion), "opener", cmd.Discussed)
    assert len(crew.happened(ev.AgentCharged)) == 1


def test_a_speaker_pays_for_every_copy(crew: Team) -> None:
    discussion = discuss(crew)
    crew.ask(cmd.Speak(discussion, "spaces"), "ann", cmd.Discussed)
    assert tokens(crew, "ann") == 500 - 4
    assert crew.happened(ev.AgentCharged)[-1].cause == "contribution"


def test_a_clone_cannot_fill_mailboxes_by_opening_and_cancelling_discussions(new_team: NewTeam) -> None:
    """300 discussions of 50 participants, opened and cancelled, made 30,000 messages and nothing was refused."""
    team = made(new_team)
    names = crowd(team, 50)
    refused: list[Problem] = []
    for _ in range(300):
        reply = team.handle(cmd.OpenDiscussion("?", names), team.caller("ann")).reply
        if isinstance(reply, cmd.Discussed):
            team.ask(cmd.CancelDiscussion(reply.discussion), "ann", cmd.Discussed)
        else:
            assert isinstance(reply, Problem)
            refused.append(reply)
    assert {(problem.code, problem.retryable) for problem in refused} == {("E_ADMISSION_001", True)}
    assert 0 < (refused[0].retry_after_s or 0) <= 3
    assert len(refused) > 290
    assert len(team.exchange.state.messages) <= 500


def test_a_clone_cannot_fill_mailboxes_by_speaking(new_team: NewTeam) -> None:
    """Speaking 300 times among 50 made 15,000 messages."""
    team = made(new_team)
    names = (*crowd(team, 50), "ann")
    discussion = team.ask(cmd.OpenDiscussion("?", names), "boss", cmd.Discussed).discussion
    before = len(team.exchange.state.messages)
    replies = [team.handle(cmd.Speak(discussion, "hear me"), team.caller("ann")).reply for _ in range(300)]
    refused = [reply for reply in replies if isinstance(reply, Problem)]
    assert {(problem.code, problem.retryable) for problem in refused} == {("E_ADMISSION_001", True)}
    assert len(team.exchange.state.messages) - before <= 500
    assert len(team.happened(ev.DiscussionSpoken)) == 300 - len(refused), "nothing of a refused one is kept"


def test_a_ratification_is_charged_to_the_opener_and_never_refused(new_team: NewTeam) -> None:
    team = made(new_team, "approvals: {handoffs: {ratification: {enabled: true}}}")
    discussion = discuss(team)
    before = tokens(team, "opener")
    for voter in CREW[:3]:
        vote(team, discussion, voter)
    assert (team.happened(ev.AgentCharged)[-1].cause, tokens(team, "opener")) == ("notices", before - 1)


def test_who_opens_a_discussion_and_takes_part_is_not_notified_of_it(crew: Team) -> None:
    discuss(crew, (*CREW, "opener"))
    assert told(crew, "opener", "DiscussionOpened") == []
    assert len(told(crew, "ann", "DiscussionOpened")) == 1

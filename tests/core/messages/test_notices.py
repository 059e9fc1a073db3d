"""What the bus itself says: who has come and gone, where the policy asks for it."""

import msgspec

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev


def told(team: Team) -> list[tuple[str, str, str]]:
    """List who was told of whom."""
    return [
        (event.message_type, event.recipient, msgspec.json.decode(event.payload)["agentId"])
        for event in team.happened(ev.MessageAccepted)
        if event.sender == "tocsin"
    ]


def pair(new_team: NewTeam, announce: str) -> Team:
    team = new_team(f"sessions: {{announce: {announce}}}")
    for agent in ("one", "two", "absent"):
        team.register(agent)
    return team


def test_peers_hear_who_comes_and_goes(new_team: NewTeam) -> None:
    team = pair(new_team, "true")
    team.attach("one")
    session = team.attach("two")
    second = team.attach("two", "piggyback")
    team.detach(session)
    assert told(team) == [("PeerJoined", "one", "two")]
    team.detach(second)
    assert told(team)[1:] == [("PeerLeft", "one", "two")]


def test_a_roster_signal_is_the_buss_own_and_short_lived(new_team: NewTeam) -> None:
    """SPEC-071 §6: async, five minutes, INFO."""
    team = pair(new_team, "true")
    team.attach("one")
    team.attach("two")
    (joined,) = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert (joined.delivery_class, joined.expires_at - joined.at, joined.priority) == ("async", 300_000_000, 0)
    assert team.refused_send("one", "two", "PeerJoined").code == "E_AUTH_003"


def test_nobody_is_told_unless_the_policy_asks(new_team: NewTeam) -> None:
    team = pair(new_team, "false")
    team.attach("one")
    team.detach(team.attach("two"))
    assert told(team) == []


def test_an_announcement_is_charged_to_the_agent_that_comes_and_goes(new_team: NewTeam) -> None:
    team = pair(new_team, "true")
    team.attach("one")
    for _ in range(3):
        team.detach(team.attach("two"))
    assert [(event.agent, event.cause, event.cost) for event in team.happened(ev.AgentCharged)] == [
        ("two", "notices", 1)
    ] * 6


def test_a_notice_that_cannot_be_refused_takes_no_more_than_there_is(new_team: NewTeam) -> None:
    team = new_team("{sessions: {announce: true}, bucket: {capacity: 2, refill_per_s: 0.001}}")
    for agent in ("one", "two"):
        team.register(agent)
    team.attach("one")
    for _ in range(3):
        team.detach(team.attach("two"))
    assert [event.tokens for event in team.happened(ev.AgentCharged)] == [1, 0, 0, 0, 0, 0]


def folded_team(new_team: NewTeam, most: int = 3) -> Team:
    team = new_team(f"notices: {{per_subject_max: {most}}}")
    team.register("boss", "Director", "director")
    team.register("one")
    team.register("two")
    return team


def ask(team: Team, agent: str, subject: str = "the branch") -> None:
    team.ask(cmd.RequestApproval("pre_merge_review", subject), agent, cmd.ApprovalRequested)


def types(team: Team, agent: str) -> list[str]:
    known = team.exchange.state.messages.values()
    return [message.type for message in known if message.recipient == agent and message.state == "queued"]


def test_a_bounded_number_of_notices_about_one_subject_waits(new_team: NewTeam) -> None:
    team = folded_team(new_team)
    for _ in range(8):
        ask(team, "one")
    ask(team, "two")
    assert types(team, "boss") == ["ApprovalRequested"] * 4, "three about one, and one about two"
    assert [event.count for event in team.happened(ev.NoticeFolded)] == [1, 2, 3, 4, 5]
    assert len(team.exchange.state.approvals) == 9, "every approval is open"


def test_the_rest_is_folded_into_one_that_counts_them(new_team: NewTeam) -> None:
    team = folded_team(new_team)
    session = team.attach("boss", "piggyback")
    for _ in range(8):
        ask(team, "one")
    assert len(team.drain(session, 2)) == 2
    assert types(team, "boss") == ["ApprovalRequested"], "one still waits"
    team.drain(session, 1)
    (summary,) = team.drain(session)
    message = team.message(summary)
    assert (message.type, message.level) == ("NoticesFolded", 2)
    payload = msgspec.json.decode(message.payload)
    assert (payload["subject"], payload["count"]) == ("approvals of one", 5)
    assert not team.exchange.state.folded
    ask(team, "one")
    assert types(team, "boss") == ["ApprovalRequested"], "and it begins anew"


def test_a_retired_recipient_leaves_nothing_folded(new_team: NewTeam) -> None:
    team = folded_team(new_team)
    for _ in range(8):
        ask(team, "one")
    team.ask(cmd.RetireAgent("boss"), "boss", cmd.Done)
    assert not team.exchange.state.folded


def test_contributions_are_never_folded(new_team: NewTeam) -> None:
    team = folded_team(new_team)
    opened = team.ask(cmd.OpenDiscussion("tabs?", ("one", "two")), "boss", cmd.Discussed)
    for _ in range(8):
        team.ask(cmd.Speak(opened.discussion, "spaces"), "one", cmd.Discussed)
    assert types(team, "two").count("DiscussionSpoken") == 8


def test_the_policy_says_which_roles_are_notified_as_directors(new_team: NewTeam) -> None:
    """A role that the policy lets direct was left out, and one that it does not let direct was notified."""
    roles = "director: {directs: false}, primary: {directs: true, quota_multiplier: null}"
    team = new_team(f"roles: {{{roles}}}")
    team.register("boss", "Director", "director")
    team.register("lead", "Manager")
    team.register("other")
    team.register("twin", role="clone")
    error = {"errorType": "SystemError", "errorMessage": "broken", "severity": "critical"}
    team.send("twin", "lead", "ERROR_REPORT", payload=error)
    notified = [m.recipient for m in team.exchange.state.messages.values() if m.sender == "tocsin"]
    assert notified == ["other"], "the recipient of the report itself is left out"

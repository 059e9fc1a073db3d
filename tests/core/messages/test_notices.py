"""What the bus itself says: who has come and gone, where the policy asks for it."""

import msgspec

from tests.core.conftest import NewTeam
from tests.core.driver import Team
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

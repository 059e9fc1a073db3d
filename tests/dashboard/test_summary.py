"""The summary of the state: presence, sessions, daemons and waiting messages."""

from collections.abc import Iterator

from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.gateways.dashboard.summary import Daemons, Summary, summary


def made(team: Team, agents_per_turn: int = 2) -> Summary:
    """Make a summary to its end."""
    found: list[Summary] = []

    def keep() -> Iterator[None]:
        found.append((yield from summary(team.exchange.state, team.now, agents_per_turn)))

    for _ in keep():
        pass
    return found[0]


def test_a_summary_of_many_agents_is_made_in_turns() -> None:
    team = Team()
    for number in range(7):
        team.register(f"agent{number}")
    making = summary(team.exchange.state, team.now, 3)
    assert [next(making, "made") for _ in range(3)] == [None, None, "made"]
    assert made(team, 3) == made(team, 100)


def test_agents_sessions_and_messages_are_counted_once() -> None:
    team = Team()
    for agent in ("here", "polls", "silent", "away", "listens", "leaves"):
        team.register(agent)
    team.attach("silent")
    orphan = team.attach("away", "daemon")
    team.advance(61)  # longer than the heartbeat limit
    team.attach("here")
    team.attach("polls", "piggyback")
    team.attach("listens", "daemon")
    team.attach("listens", "piggyback")
    leaving = team.attach("leaves", "daemon")
    team.ask(cmd.GrantCredit(leaving, 0), "leaves", cmd.SessionReady)
    for receiver in ("here", "polls", "polls", "polls", "silent"):
        team.send("away", receiver)
    team.send("away", "silent", "ReviewRequested")
    seen = made(team)
    assert (seen.available, seen.stale, seen.offline) == (4, 2, 0)
    assert (seen.push, seen.piggyback, seen.daemon) == (2, 2, 3)
    assert seen.daemons == Daemons(live=1, shutting_down=1, orphaned=1, attached=2, daemonless=4)
    assert seen.depths == [4, 0, 1, 0, 0]
    assert seen.recipient_away == 2  # both for an agent without a recent heartbeat
    assert seen.in_flight == 1
    team.detach(orphan)
    seen = made(team)
    assert (seen.stale, seen.offline, seen.daemons.orphaned) == (1, 1, 0)


def test_busy_and_gaming_agents_are_counted() -> None:
    team = Team()
    team.register("ada")
    team.register("bob")
    team.attach("bob", "push")
    sent = team.send("ada", "bob")
    team.confirm("bob", sent.message_id)
    team.ask(cmd.BeginWork(sent.message_id), "bob", cmd.Attending)
    assert (made(team).busy, made(team).gaming) == (1, 0)
    for _ in range(6):
        team.send("ada", "bob", "ReviewRequested", priority="Blocking")
    assert made(team).gaming == 1
    team.ask(cmd.FinishWork(processed=True), "bob", cmd.Attending)
    assert made(team).busy == 0

"""A frame bus's reports become history, and nothing else."""

import pytest

from tests.core.driver import SECOND, Team, snapshot_bytes
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller, Done, FrameTally
from tocsin.core.errors import Problem


def report(team: Team, tallies: dict[str, FrameTally], caller: Caller = SYSTEM) -> tuple[cmd.Reply, list[ev.Event]]:
    outcome = team.exchange.handle(cmd.ReportShedding(team.now - 5 * SECOND, 100, tallies), caller, team.now)
    return outcome.reply, outcome.events


def test_each_priority_that_frames_were_meant_for_is_an_event() -> None:
    team = Team()
    before = snapshot_bytes(team.exchange)
    tallies = {
        "best_effort": FrameTally(200, 180, 150),
        "critical": FrameTally(100, 0, 0),
        "high": FrameTally(0, 0, 0),
    }
    reply, events = report(team, tallies)
    since = team.now - 5 * SECOND
    assert reply == Done()
    assert events == [
        ev.FramesShed(team.now, "critical", since, 100, 100, 0, 0),
        ev.FramesShed(team.now, "best_effort", since, 100, 200, 180, 150),
    ]
    team.exchange.state.seq -= len(events)
    assert snapshot_bytes(team.exchange) == before


@pytest.mark.parametrize(
    ("name", "tally"),
    [
        ("urgent", FrameTally(1, 0, 0)),
        ("high", FrameTally(1, 2, 0)),
        ("high", FrameTally(2, 1, 2)),
        ("high", FrameTally(2, 1, -1)),
    ],
)
def test_a_report_that_cannot_be_is_refused(name: str, tally: FrameTally) -> None:
    reply, events = report(Team(), {name: tally})
    assert isinstance(reply, Problem)
    assert (reply.code, events) == ("E_VALIDATION_004", [])


def test_only_the_bus_itself_and_directors_report() -> None:
    reply, events = report(Team(), {"high": FrameTally(1, 0, 0)}, Caller("ann", "primary"))
    assert isinstance(reply, Problem)
    assert (reply.code, events) == ("E_AUTH_003", [])

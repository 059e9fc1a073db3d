"""Why a wake failed, as the directors read it."""

import pytest

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd
from tocsin.core import events as ev


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("away", "it opened no session within 20 s"),
        ("attached", "it attached but did not take the message within 20 s"),
        ("failed", "its waker failed: no such file"),
        ("failed without details", "its waker failed: no details"),
    ],
)
def test_the_escalation_of_a_failed_wake_says_why(new_team: NewTeam, case: str, words: str) -> None:
    team = new_team("wake: {retries_max: 0, grace_s: 20}")
    team.register("boss", "Director", "director")
    for agent in ("one", "two"):
        team.register(agent)
    team.ask(cmd.DeclareWakers(("two",)), None, cmd.Done)
    team.send("one", "two", priority="Blocking")
    team.advance(6)
    if case == "attached":
        team.attach("two", "push", 0)
    if case.startswith("failed"):
        detail = "no such file" if case == "failed" else ""
        team.ask(cmd.ReportWaker("two", team.exchange.state.wakes["two"].wake, "exited", 1, detail), None, cmd.Done)
    team.advance(21, beating=True)
    (opened,) = team.happened(ev.EscalationOpened)
    assert opened.detail == f"two could not be woken in 1 attempts: {words}"
    assert (opened.subject, opened.about) == ("two", team.message("msg_000001_one").seq)

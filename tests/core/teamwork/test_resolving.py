"""Who resolves an escalation: the step is that of where it is, not only of who acts (LIMINAL's diagram)."""

import pytest

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd
from tocsin.core import events as ev


@pytest.mark.parametrize(
    ("agent", "escalated", "steps"),
    [
        ("boss", False, ["director_acts", "resolved", "returned"]),
        ("ann", False, ["director_acts", "resolved", "returned"]),
        ("boss", True, ["director_acts", "resolved", "returned"]),
        ("ann", True, ["human_acts", "returned"]),
    ],
)
def test_the_steps_of_a_resolution(new_team: NewTeam, agent: str, escalated: bool, steps: list[str]) -> None:
    team = new_team()
    for name in ("one", "two"):
        team.register(name)
    team.register("boss", "Director", "director")
    team.register("ann", "Person", "human")
    envelope = team.envelope("one", "two", "CUSTOM_ASK", correlation_id="t-1")
    team.ask(cmd.SendRequest(envelope, 5), "one", cmd.Requested)
    team.advance(6)
    (name,) = team.exchange.state.open_escalations
    if escalated:
        team.ask(cmd.EscalateToHuman(name), "boss", cmd.Escalated)
    before = len(team.happened(ev.EscalationMoved))
    team.ask(cmd.ResolveEscalation(name, "settled"), agent, cmd.Escalated)
    moved = team.happened(ev.EscalationMoved)[before:]
    assert [event.step for event in moved] == steps
    assert (moved[0].by, moved[0].detail) == (agent, "settled")
    known = team.exchange.state.escalations[name]
    assert (known.resolution, known.resolved_by) == ("settled", agent)

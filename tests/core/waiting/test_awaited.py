"""What an escalation says that an agent waits for: resources by name, otherwise the kind and the id."""

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev


def escalated(team: Team) -> str:
    team.advance(61)
    (opened,) = [event for event in team.happened(ev.EscalationOpened) if event.trigger == "dependency_blocked"]
    return opened.detail


def test_a_wait_for_a_lease_names_its_resources(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two", "three"):
        team.register(agent)
    team.hold(cmd.AcquireLease(("a",)), "two")
    team.hold(cmd.AcquireLease(("b",)), "three")
    team.wait_for_lease(cmd.AcquireLease(("a",), ("b",)), "one")
    assert escalated(team) == "one has waited for three, two (a, b) longer than 60 s at Coordinate"


def test_another_wait_names_its_kind_and_id(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two"):
        team.register(agent)
    envelope = team.envelope(
        "one", "two", "CUSTOM_ASK", message_id="msg_1_a", correlation_id="t-1", priority="Blocking"
    )
    team.ask(cmd.SendRequest(envelope), "one", cmd.Requested)
    assert escalated(team) == "one has waited for two (request:msg_1_a) longer than 60 s at Blocking"

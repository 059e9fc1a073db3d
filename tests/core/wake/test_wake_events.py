"""Wakes, event by event: what is recorded when an agent is woken, takes its message, or does not come."""

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.stories import Story, crew
from tocsin.core import commands as cmd
from tocsin.core import events as ev


def waiting(new_team: NewTeam, policy: str | None = None) -> tuple[Team, Story]:
    """Declare a waker for impl_002, and send it a Blocking message."""
    team = crew(new_team, policy)
    story = Story(team)
    for _ in range(2):
        team.ask(cmd.DeclareWakers(("impl_002", "impl_002", "ann"), ("clone",)), None, cmd.Done)
    team.send("impl_001", "impl_002", priority="Blocking", message_id="msg_1_a")
    return team, story


def report(team: Team, outcome: str, code: int | None, detail: str = "") -> None:
    record = team.exchange.state.wakes["impl_002"]
    command = cmd.ReportWaker("impl_002", record.wake, outcome, code, detail)  # type: ignore[arg-type]
    team.ask(command, None, cmd.Done)


def told(story: Story) -> list[tuple[object, ...]]:
    return [event for event in story.next() if "Wake" in str(event[0]) or "Woken" in str(event[0])]


def test_a_wake_that_works(new_team: NewTeam) -> None:
    team, story = waiting(new_team)
    assert told(story) == [("WakersDeclared", ("ann", "impl_002"), ("clone",))]
    team.advance(4)
    assert told(story) == []
    team.advance(2)
    assert told(story) == [("AgentWakeRequested", "impl_002", "wak", "msg_1_a", 1, 2, 5010000, 5.0, 125.01)]
    team.advance(3)
    team.attach("impl_002")
    assert told(story) == [("AgentWoken", "impl_002", "wak", "msg_1_a", "ses", 1, 3990000)]
    report(team, "exited", 0, "fine")
    assert told(story) == [("WakerExited", "impl_002", "wak", "exited", 0, "fine")]


def test_a_wake_that_fails_is_tried_again_and_escalated(new_team: NewTeam) -> None:
    team, story = waiting(
        new_team, "{wake: {retries_max: 1}, escalation: {rules: {blocking_waits: {after_s: 100000}}}}"
    )
    team.advance(6)
    report(team, "exited", 1, "no such file")
    assert told(story)[1:] == [
        ("AgentWakeRequested", "impl_002", "wak", "msg_1_a", 1, 2, 5010000, 5.0, 125.01),
        ("WakerExited", "impl_002", "wak", "exited", 1, "no such"),
        ("AgentWakeFailed", "impl_002", "wak", "msg_1_a", 1, 2, "waker_failed", "no such", 0.0, 16.0, False),
    ]
    team.advance(11)
    assert told(story) == [("AgentWakeRequested", "impl_002", "wak", "msg_1_a", 2, 2, 16010000, 5.0, 136.01)]
    team.advance(121)
    assert told(story) == [("AgentWakeFailed", "impl_002", "wak", "msg_1_a", 2, 2, "not_attached", "", 120.0, 0, True)]
    opened = team.happened(ev.EscalationOpened)
    assert [(event.trigger, event.subject) for event in opened] == [("wake_failed", "impl_002")]
    team.attach("impl_002", "piggyback")
    assert not team.exchange.state.open_escalations


def test_an_agent_that_attaches_and_does_not_take_the_message(new_team: NewTeam) -> None:
    team, story = waiting(new_team)
    team.advance(6)
    told(story)
    team.attach("impl_002", "push", 0)
    team.advance(121, beating=True)
    assert told(story) == [("AgentWakeFailed", "impl_002", "wak", "msg_1_a", 1, 4, "not_taken", "", 120.0, 0, True)]


def test_a_wake_whose_message_no_longer_waits(new_team: NewTeam) -> None:
    team, story = waiting(new_team)
    team.advance(6)
    told(story)
    team.recall("impl_001", "msg_1_a")
    assert told(story) == [
        ("AgentWakeFailed", "impl_002", "wak", "msg_1_a", 1, 4, "moot", "the message", 0.0, 0, False)
    ]
    team.advance(3601)
    assert told(story) == [("WakerExited", "impl_002", "wak", "timeout", None, "the waker")]


def test_a_wake_of_an_agent_that_leaves(new_team: NewTeam) -> None:
    team, story = waiting(new_team)
    team.advance(6)
    told(story)
    team.ask(cmd.RetireAgent("impl_002"), "boss", cmd.Done)
    assert told(story) == [
        ("AgentWakeFailed", "impl_002", "wak", "msg_1_a", 1, 4, "moot", "the message", 0.0, 0, False),
        ("WakerExited", "impl_002", "wak", "retired", None, "the agent"),
    ]

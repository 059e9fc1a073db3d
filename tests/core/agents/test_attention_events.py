"""Work of an agent, event by event: what is recorded when it begins, pauses, is interrupted, is put aside and ends."""

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.stories import Story, crew
from tocsin.core import commands as cmd


def begun(new_team: NewTeam, *, interruptible: bool) -> tuple[Team, Story]:
    """Let impl_001 work on an Info message for an hour at most."""
    team = crew(new_team)
    team.attach("impl_001")
    team.send("impl_002", "impl_001", priority="Info", message_id="msg_1_a")
    story = Story(team)
    team.ask(cmd.BeginWork("msg_1_a", interruptible), "impl_001", cmd.Attending)
    return team, story


def attend(team: Team, command: cmd.Command) -> cmd.Attending:
    return team.ask(command, "impl_001", cmd.Attending)


def test_an_interrupt_at_a_pause_point(new_team: NewTeam) -> None:
    """Critical waits for the pause point of work that is not interruptible; the work and its notes come back."""
    team, story = begun(new_team, interruptible=False)
    assert story.next() == [
        ("MessageDelivered", "msg_1_a", "ack"),
        ("WorkBegun", "impl_001", "msg_1_a", "msg_1_a", 0, False, 3600.0),
    ]
    team.advance(1)
    team.send("impl_002", "impl_001", priority="Critical", message_id="msg_2_a")
    story.next()
    paused = attend(team, cmd.ReachPausePoint())
    assert paused == cmd.Attending("pause_point", "msg_1_a", "msg_2_a")
    assert story.next() == [
        ("PausePointReached", "impl_001", "msg_1_a", 3601.0),
        ("InterruptRaised", "impl_001", "msg_1_a", 0, "msg_2_a", 3, "pause_point"),
        ("MessageOffered", "msg_2_a", "ses", 1, 3, 0, False),
    ]
    team.advance(1)
    assert attend(team, cmd.PutAside("half done")) == cmd.Attending("processing", "msg_2_a", None, ("msg_1_a",))
    assert story.next() == [
        ("WorkPutAside", "impl_001", "msg_1_a", b"half done", "interrupted", "msg_2_a", "msg_2_a", 3, 3602.0),
        ("MessageDelivered", "msg_2_a", "ack"),
    ]
    team.advance(1)
    assert attend(team, cmd.FinishWork()) == cmd.Attending("idle", None, None, ("msg_1_a",))
    assert story.next() == [
        ("WorkFinished", "impl_001", "msg_2_a"),
        ("MessageProcessed", "msg_2_a", "processed", 1000000),
    ]
    team.advance(1)
    for duplicate in (False, True):
        resumed = team.ask(cmd.ResumeWork(), "impl_001", cmd.Resumed)
        assert resumed == cmd.Resumed("msg_1_a", "half done", False, duplicate)
    assert story.next() == [("WorkResumed", "impl_001", "msg_1_a", 3604.0)]


def test_a_pause_point_that_nothing_comes_at(new_team: NewTeam) -> None:
    """It is recorded only if the agent stays there."""
    team, story = begun(new_team, interruptible=True)
    story.next()
    assert attend(team, cmd.ReachPausePoint()) == cmd.Attending("processing", "msg_1_a")
    assert story.next() == []
    team.advance(2)
    assert attend(team, cmd.ReachPausePoint(stay=True)) == cmd.Attending("pause_point", "msg_1_a")
    assert story.next() == [("PausePointReached", "impl_001", "msg_1_a", 3602.0)]
    team.advance(2)
    assert team.ask(cmd.ResumeWork(), "impl_001", cmd.Resumed) == cmd.Resumed("msg_1_a", "", True)
    assert story.next() == [("WorkContinued", "impl_001", "msg_1_a", 3604.0)]
    attend(team, cmd.BeginWork("msg_1_a", interruptible=True))
    assert story.next() == []
    attend(team, cmd.BeginWork("msg_1_a", interruptible=False))
    assert story.next() == [("WorkBegun", "impl_001", "msg_1_a", "msg_1_a", 0, False, 3604.0)]


def test_a_critical_message_between_pause_points(new_team: NewTeam) -> None:
    team, story = begun(new_team, interruptible=True)
    story.next()
    team.send("impl_002", "impl_001", priority="Critical", message_id="msg_2_a")
    assert story.next()[1:] == [
        ("InterruptRaised", "impl_001", "msg_1_a", 0, "msg_2_a", 3, "interruptible"),
        ("MessageOffered", "msg_2_a", "ses", 1, 3, 0, True),
    ]
    team.nack("impl_001", "msg_2_a", can_retry=False)
    assert story.next()[2:] == [
        ("MessageDied", "msg_2_a", "rejected", "E_VALIDATION_004", 0, "impl_001 rejected", 0, 0.0),
        ("InterruptEnded", "impl_001", "msg_1_a", "msg_2_a", "dead"),
    ]
    team.send("impl_002", "impl_001", priority="Blocking", message_id="msg_3_a")
    story.next()
    attend(team, cmd.ReachPausePoint())
    assert story.next() == [
        ("PausePointReached", "impl_001", "msg_1_a", 3600.0),
        ("InterruptRaised", "impl_001", "msg_1_a", 0, "msg_3_a", 2, "pause_point"),
        ("MessageOffered", "msg_3_a", "ses", 1, 2, 0, False),
    ]


def test_critical_work_is_not_interrupted_by_critical(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.attach("impl_001")
    team.send("impl_002", "impl_001", priority="Critical", message_id="msg_1_a")
    attend(team, cmd.BeginWork("msg_1_a"))
    team.send("impl_002", "impl_001", priority="Critical", message_id="msg_2_a")
    story = Story(team)
    assert attend(team, cmd.ReachPausePoint()) == cmd.Attending("processing", "msg_1_a")
    assert story.next() == [
        ("PausePointReached", "impl_001", "msg_1_a", 3600.0),
        ("MessageOffered", "msg_2_a", "ses", 1, 3, 0, False),
        ("WorkContinued", "impl_001", "msg_1_a", 3600.0),
    ]


def test_an_override_interrupts_and_a_lost_session_puts_aside(new_team: NewTeam) -> None:
    team, story = begun(new_team, interruptible=False)
    story.next()
    team.send("boss", "impl_001", priority="DirectorOverride", message_id="msg_2_a")
    assert story.next()[1:2] == [("InterruptRaised", "impl_001", "msg_1_a", 0, "msg_2_a", 4, "override")]
    (session,) = team.exchange.state.sessions
    team.detach(session)
    assert story.next()[::2] == [
        ("MessageRequeued", "msg_2_a", "session_ended", 0, 0, 0.0, 0.0),
        ("WorkPutAside", "impl_001", "msg_1_a", b"", "detached", 0, "", 0, 0),
    ]


def test_work_that_is_not_reported_on_lapses(new_team: NewTeam) -> None:
    team, story = begun(new_team, interruptible=True)
    story.next()
    team.advance(3599, beating=True)
    assert "AttentionLapsed" not in [event[0] for event in story.next()]
    team.advance(2, beating=True)
    assert story.next()[-1:] == [("AttentionLapsed", "impl_001", "msg_1_a", 3600.0)]
    assert team.refused(cmd.ReachPausePoint(), "impl_001").code == "E_STATE_002", "it is idle"


def test_finished_work_need_not_be_processed(new_team: NewTeam) -> None:
    team, story = begun(new_team, interruptible=True)
    story.next()
    attend(team, cmd.FinishWork(processed=False))
    assert story.next() == [("WorkFinished", "impl_001", "msg_1_a")]


def test_an_interrupter_that_awaits_an_ack_is_acknowledged(new_team: NewTeam) -> None:
    team, story = begun(new_team, interruptible=True)
    report = {"errorType": "SystemError", "errorMessage": "broken", "severity": "high"}
    team.register("impl_001", "Manager")
    team.send("impl_002", "impl_001", "ERROR_REPORT", payload=report, priority="Critical", message_id="msg_2_a")
    story.next()
    attend(team, cmd.PutAside())
    assert story.next() == [
        ("WorkPutAside", "impl_001", "msg_1_a", b"", "interrupted", "msg_2_a", "msg_2_a", 3, 3600.0),
        ("MessageDelivered", "msg_2_a", "ack"),
        ("MessageAcknowledged", "msg_2_a", "received", 0, ""),
    ]

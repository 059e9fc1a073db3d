"""Attention: LIMINAL's interrupt-or-queue decision row by row, and work that comes back exactly once."""

from collections.abc import Callable

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.agents.preemption import Status, Verdict, judge
from tocsin.core.messages.model import State
from tocsin.core.protocol.priority import VOCABULARY, Priority, priority_name
from tocsin.core.teamwork.model import Attention

#: D deliver, I interrupt, P wait for a pause point, T wait for one's turn. Columns: the work's level, Info first.
CHART: dict[tuple[str, bool], dict[str, str]] = {
    ("processing", True): {
        "Info": "TTTTT",
        "Coordinate": "TTTTT",
        "Blocking": "PTTTT",
        "Critical": "IIPPP",
        "DirectorOverride": "IIIII",
    },
    ("processing", False): {
        "Info": "TTTTT",
        "Coordinate": "TTTTT",
        "Blocking": "PTTTT",
        "Critical": "PPPPP",
        "DirectorOverride": "IIIII",
    },
    ("pause_point", True): {
        "Info": "TTTTT",
        "Coordinate": "TTTTT",
        "Blocking": "ITTTT",
        "Critical": "IIDDD",
        "DirectorOverride": "IIIII",
    },
    ("idle", True): dict.fromkeys(map(priority_name, Priority), "DDDDD"),
}
VERDICTS = {"D": Verdict.DELIVER, "I": Verdict.INTERRUPT, "P": Verdict.WAIT_PAUSE, "T": Verdict.WAIT_TURN}


@pytest.mark.parametrize(
    ("status", "interruptible", "level", "work", "verdict"),
    [
        (status, interruptible, level, work, VERDICTS[letter])
        for (status, interruptible), rows in CHART.items()
        for level, letters in rows.items()
        for work, letter in zip(map(priority_name, Priority), letters, strict=True)
    ],
)
def test_every_row_of_the_chart(status: str, interruptible: bool, level: str, work: str, verdict: Verdict) -> None:
    judged = judge(VOCABULARY[level], Status(status), VOCABULARY[work], interruptible=interruptible)
    assert judged is verdict


def note(team: Team, priority: str, receiver: str = "impl_001") -> str:
    return team.send("boss", receiver, "CUSTOM_NOTE", priority=priority, metadata={"ttl": 86400}).signal_id


def begin(team: Team, message_id: str, agent: str = "impl_001", *, interruptible: bool = True) -> cmd.Attending:
    return team.ask(cmd.BeginWork(message_id, interruptible), agent, cmd.Attending)


def pause_point(team: Team, agent: str = "impl_001", *, stay: bool = False) -> cmd.Attending:
    return team.ask(cmd.ReachPausePoint(stay), agent, cmd.Attending)


def put_aside(team: Team, saved: str, agent: str = "impl_001") -> cmd.Attending:
    return team.ask(cmd.PutAside(saved), agent, cmd.Attending)


def resume(team: Team, message_id: str | None = None, agent: str = "impl_001") -> cmd.Resumed:
    return team.ask(cmd.ResumeWork(message_id), agent, cmd.Resumed)


def finish(team: Team, agent: str = "impl_001") -> cmd.Attending:
    return team.ask(cmd.FinishWork(), agent, cmd.Attending)


def is_offered(team: Team, signal_id: str) -> bool:
    return team.message(signal_id).offers > 0


@pytest.fixture
def busy(team: Team) -> tuple[Team, str]:
    """Let impl_001 be attached and at work on a Coordinate message."""
    team.attach("impl_001")
    work = note(team, "Coordinate")
    begin(team, work)
    return team, work


def test_an_agent_that_never_speaks_of_it_is_pushed_everything(team: Team) -> None:
    team.attach("impl_001")
    sent = [note(team, priority_name(priority)) for priority in Priority]
    assert all(is_offered(team, signal) for signal in sent)
    assert not team.exchange.state.attention


def test_work_acknowledges_its_message(team: Team) -> None:
    team.attach("impl_001")
    receipt = team.send(
        "manager_001",
        "impl_001",
        "TASK_ASSIGNMENT",
        correlation_id="req_1",
        payload={
            "taskId": "t",
            "taskRef": "Task",
            "taskDescription": "Do it",
            "memoryLogPath": "log.md",
            "executionType": "single-step",
        },
    )
    assert begin(team, receipt.signal_id).status == "processing"
    assert team.message(receipt.signal_id).state is State.ACKNOWLEDGED
    finish(team)
    assert team.message(receipt.signal_id).state is State.PROCESSED


@pytest.mark.parametrize("priority", ["Info", "Coordinate", "Blocking"])
def test_what_does_not_interrupt_waits_for_the_next_idle_moment(busy: tuple[Team, str], priority: str) -> None:
    team, _ = busy
    waiting = note(team, priority)
    assert not is_offered(team, waiting)
    assert finish(team).status == "idle"
    assert is_offered(team, waiting)


def test_a_drain_is_not_held_back(busy: tuple[Team, str]) -> None:
    team, _ = busy
    waiting = note(team, "Info")
    session = next(iter(team.exchange.state.agents["impl_001"].sessions))
    assert team.drain(session) == [waiting]


def test_critical_interrupts_and_the_saved_work_resumes(busy: tuple[Team, str]) -> None:
    team, work = busy
    calm = note(team, "Info")
    urgent = note(team, "Critical")
    (raised,) = team.happened(ev.InterruptRaised)
    assert (raised.agent, raised.level, raised.work_level, raised.rule) == ("impl_001", 3, 1, "interruptible")
    (push,) = team.exchange.deliveries([event for event in team.events if isinstance(event, ev.MessageOffered)][-1:])
    assert (push.signal_id, push.interrupts) == (urgent, work)

    attending = put_aside(team, "line 42")
    assert (attending.status, attending.working_on, attending.aside) == ("processing", urgent, (work,))
    assert not is_offered(team, calm), "what interrupted it is worked on first"
    attending = finish(team)
    assert (attending.status, attending.aside) == ("idle", (work,))
    resumed = resume(team)
    assert (resumed.message_id, resumed.saved, resumed.duplicate) == (work, "line 42", False)
    assert team.message(urgent).state is State.PROCESSED
    finish(team)
    assert team.message(work).state is State.PROCESSED
    assert not team.exchange.state.attention


def test_what_was_saved_comes_back_once_and_again_only_for_a_lost_reply(busy: tuple[Team, str]) -> None:
    team, work = busy
    put_aside(team, "here")
    assert not resume(team, work).duplicate
    again = resume(team, work)
    assert (again.saved, again.duplicate) == ("here", True)
    assert len(team.happened(ev.WorkResumed)) == 1
    finish(team)
    assert team.refused(cmd.ResumeWork(work), "impl_001").code == "E_STATE_002"


def test_works_put_aside_are_a_stack_and_can_be_named(team: Team) -> None:
    team.attach("impl_001")
    first, second, third = (note(team, "Info") for _ in range(3))
    for work, saved in ((first, "1"), (second, "2"), (third, "3")):
        begin(team, work)
        put_aside(team, saved)
    assert resume(team).saved == "3"
    finish(team)
    assert resume(team, first).saved == "1"
    finish(team)
    assert resume(team).saved == "2"


def test_uninterruptible_work_is_left_alone_until_a_pause_point(team: Team) -> None:
    team.attach("impl_001")
    work = note(team, "Info")
    begin(team, work, interruptible=False)
    urgent = note(team, "Critical")
    assert not is_offered(team, urgent)
    attending = pause_point(team)
    assert is_offered(team, urgent)
    assert (attending.status, attending.interrupted_by) == ("pause_point", urgent)
    assert team.happened(ev.InterruptRaised)[-1].rule == "pause_point"


def test_an_override_does_not_wait_for_a_pause_point(team: Team) -> None:
    team.attach("impl_001")
    begin(team, note(team, "Critical"), interruptible=False)
    urgent = note(team, "DirectorOverride")
    assert is_offered(team, urgent)
    assert team.happened(ev.InterruptRaised)[-1].rule == "override"


def test_critical_is_delivered_at_a_pause_point_of_critical_work_without_interrupting(team: Team) -> None:
    team.attach("impl_001")
    begin(team, note(team, "Critical"))
    second = note(team, "Critical")
    assert not is_offered(team, second)
    attending = pause_point(team)
    assert is_offered(team, second)
    assert (attending.status, attending.interrupted_by) == ("processing", None)


def test_a_pause_point_with_nothing_to_say_leaves_no_trace(busy: tuple[Team, str]) -> None:
    team, _ = busy
    note(team, "Coordinate")
    before = len(team.events)
    assert pause_point(team).status == "processing"
    assert len(team.events) == before


def test_who_stays_at_a_pause_point_is_interrupted_by_what_comes_later(team: Team) -> None:
    team.attach("impl_001")
    begin(team, note(team, "Info"), interruptible=False)
    assert pause_point(team, stay=True).status == "pause_point"
    urgent = note(team, "Blocking")
    assert is_offered(team, urgent)
    assert resume(team).saved == "", "the agent declines, and goes on"
    assert team.exchange.state.attention["impl_001"].paused is False


def test_a_piggyback_agent_learns_of_an_interrupt_at_its_pause_point(team: Team) -> None:
    session = team.attach("impl_001", "piggyback")
    work = note(team, "Info")
    assert team.drain(session) == [work]
    begin(team, work)
    urgent = note(team, "Critical")
    assert pause_point(team).interrupted_by == urgent
    assert put_aside(team, "half").status == "idle"
    assert team.drain(session) == [urgent]
    begin(team, urgent)
    finish(team)
    assert resume(team).saved == "half"


def test_waiting_alone_does_not_interrupt_work(busy: tuple[Team, str]) -> None:
    """Aging ends at Blocking, which does not interrupt Coordinate work; the message goes first at the next idle one."""
    team, _ = busy
    waiting = note(team, "Coordinate")
    team.advance(1000, beating=True)
    assert not is_offered(team, waiting)
    assert finish(team).status == "idle"
    assert is_offered(team, waiting)


def test_waiting_long_enough_lets_a_message_in_at_a_pause_point_of_routine_work(team: Team) -> None:
    """Aging counts: at 120 s an Info message counts as Blocking, two levels over Info work."""
    team.attach("impl_001")
    begin(team, note(team, "Info"))
    waiting = note(team, "Info")
    team.advance(119, beating=True)
    team.ask(cmd.ReachPausePoint(), "impl_001", cmd.Attending)
    assert not is_offered(team, waiting)
    team.advance(20, beating=True)
    team.ask(cmd.ReachPausePoint(), "impl_001", cmd.Attending)
    assert is_offered(team, waiting)


def test_work_is_kept_for_an_agent_that_vanishes(busy: tuple[Team, str]) -> None:
    team, work = busy
    waiting = note(team, "Info")
    for session in list(team.exchange.state.agents["impl_001"].sessions):
        team.detach(session)
    assert team.happened(ev.WorkPutAside)[-1].reason == "detached"
    team.attach("impl_001")
    assert is_offered(team, waiting), "it is idle"
    assert resume(team).message_id == work


def test_an_agent_that_says_nothing_for_too_long_is_not_busy(new_team: NewTeam) -> None:
    team = new_team("attention: {work_max_s: 100}\naging: {enabled: false}")
    team.register("boss", "Director", "director")
    team.register("impl_001")
    team.attach("impl_001")
    work = note(team, "Info")
    begin(team, work)
    waiting = note(team, "Info")
    team.advance(99, beating=True)
    assert not is_offered(team, waiting)
    pause_point(team, stay=True)
    team.advance(99, beating=True)
    assert not is_offered(team, waiting), "a pause point is a sign of life"
    team.advance(2, beating=True)
    assert is_offered(team, waiting)
    (lapsed,) = team.happened(ev.AttentionLapsed)
    assert lapsed.threshold_s == 100
    assert resume(team).message_id == work


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (cmd.BeginWork("msg_none_0"), "E_STATE_001"),
        (cmd.ReachPausePoint(), "E_STATE_002"),
        (cmd.PutAside(""), "E_STATE_002"),
        (cmd.ResumeWork(), "E_STATE_002"),
        (cmd.FinishWork(), "E_STATE_002"),
    ],
)
def test_an_idle_agent_is_told_so(team: Team, command: cmd.Command, code: str) -> None:
    assert team.refused(command, "impl_001").code == code


def test_one_work_at_a_time(busy: tuple[Team, str]) -> None:
    team, work = busy
    session = next(iter(team.exchange.state.agents["impl_001"].sessions))
    other = note(team, "Info")
    team.drain(session)
    assert team.refused(cmd.BeginWork(other), "impl_001").code == "E_STATE_002"
    put_aside(team, "")
    assert team.refused(cmd.BeginWork(work), "impl_001").code == "E_STATE_002"
    begin(team, other)


def test_nobody_works_on_what_was_not_given_to_it(team: Team) -> None:
    team.attach("impl_001")
    theirs = note(team, "Info")
    assert team.refused(cmd.BeginWork(theirs), "impl_002").code == "E_STATE_001"


def test_what_is_saved_is_bounded(new_team: NewTeam) -> None:
    team = new_team("attention: {saved_bytes_max: 10, aside_max: 1}")
    team.register("boss", "Director", "director")
    team.register("impl_001")
    team.attach("impl_001")
    begin(team, note(team, "Info"))
    assert team.refused(cmd.PutAside("x" * 11), "impl_001").code == "E_VALIDATION_005"
    put_aside(team, "x" * 10)
    begin(team, note(team, "Info"))
    assert team.refused(cmd.PutAside(""), "impl_001").code == "E_ADMISSION_008"


def test_interruptibility_can_change(busy: tuple[Team, str]) -> None:
    team, work = busy
    begin(team, work, interruptible=False)
    urgent = note(team, "Critical")
    assert not is_offered(team, urgent)
    begin(team, work, interruptible=True)
    assert is_offered(team, urgent)


def test_a_retired_agent_is_busy_with_nothing(busy: tuple[Team, str]) -> None:
    team, _ = busy
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert not team.exchange.state.attention
    team.advance(4000)


def test_who_comes_back_after_a_crash_is_told_that_it_had_this_before(busy: tuple[Team, str]) -> None:
    team, work = busy
    put_aside(team, "here")
    assert not resume(team, work).duplicate
    for session in list(team.exchange.state.agents["impl_001"].sessions):
        team.detach(session)
    team.attach("impl_001")
    again = resume(team, work)
    assert (again.saved, again.duplicate) == ("here", True)
    put_aside(team, "there")
    news = resume(team, work)
    assert (news.saved, news.duplicate) == ("there", False)


@pytest.fixture
def interrupted(busy: tuple[Team, str]) -> tuple[Team, str, str]:
    """Let the work of impl_001 be interrupted by a Critical message that it has not turned to."""
    team, work = busy
    urgent = note(team, "Critical")
    assert attention(team).interrupted_by == team.message(urgent).seq
    return team, work, urgent


def attention(team: Team) -> Attention:
    return team.exchange.state.attention["impl_001"]


ENDINGS: dict[str, Callable[[Team, str], object]] = {
    "processed": lambda team, urgent: team.ask(cmd.MarkProcessed(urgent), "impl_001", cmd.Done),
    "dead": lambda team, urgent: team.ask(
        cmd.Reject(urgent, "no", "E_TASK_001", can_retry=False), "impl_001", cmd.Rejected
    ),
}


@pytest.mark.parametrize("reason", ENDINGS)
def test_what_has_ended_interrupts_no_longer(interrupted: tuple[Team, str, str], reason: str) -> None:
    team, work, urgent = interrupted
    ENDINGS[reason](team, urgent)
    (ended,) = team.happened(ev.InterruptEnded)
    assert (ended.agent, ended.by, ended.reason) == ("impl_001", team.message(urgent).seq, reason)
    assert pause_point(team) == cmd.Attending(Status.PROCESSING, work)
    assert put_aside(team, "half").working_on is None, "it does not work on what has ended"


def test_what_is_to_come_again_later_interrupts_again_then(busy: tuple[Team, str]) -> None:
    team, work = busy
    task = {"taskId": "t", "taskRef": "T", "taskDescription": "Do it", "memoryLogPath": "l.md"}
    task |= {"executionType": "single-step"}
    sent = {"correlation_id": "req_1", "payload": task, "priority": "Critical"}
    urgent = team.send("boss", "impl_001", "TASK_ASSIGNMENT", **sent).signal_id
    team.ask(cmd.Reject(urgent, "later", "E_TASK_001", can_retry=True), "impl_001", cmd.Rejected)
    assert team.happened(ev.InterruptEnded)[-1].reason == "queued"
    assert pause_point(team) == cmd.Attending(Status.PROCESSING, work)
    team.advance(10, beating=True)
    assert len(team.happened(ev.InterruptRaised)) > 1
    assert pause_point(team).interrupted_by == urgent


def test_what_comes_after_a_stale_interrupt_interrupts(interrupted: tuple[Team, str, str]) -> None:
    team, _, urgent = interrupted
    ENDINGS["processed"](team, urgent)
    second = note(team, "Critical")
    assert team.happened(ev.InterruptRaised)[-1].by == team.message(second).seq
    assert put_aside(team, "half").working_on == second


def test_what_was_on_its_way_meanwhile_interrupts_next(interrupted: tuple[Team, str, str]) -> None:
    team, work, urgent = interrupted
    second = note(team, "Critical")
    assert is_offered(team, second)
    assert len(team.happened(ev.InterruptRaised)) == 1
    ENDINGS["processed"](team, urgent)
    attending = pause_point(team)
    assert (attending.working_on, attending.interrupted_by) == (work, second)


@pytest.mark.parametrize("ending", ["recalled", "expired"])
def test_what_was_never_taken_interrupts_no_longer_when_it_ends(team: Team, ending: str) -> None:
    """A piggyback agent is interrupted by what it has not drained yet, and what may end there."""
    session = team.attach("impl_001", "piggyback")
    work = note(team, "Info")
    assert team.drain(session) == [work]
    begin(team, work)
    urgent = team.send("boss", "impl_001", "CUSTOM_NOTE", priority="Critical", metadata={"ttl": 60}).signal_id
    assert pause_point(team, stay=True).interrupted_by == urgent
    if ending == "recalled":
        team.ask(cmd.Recall(urgent), "boss", cmd.RecallResult)
    else:
        team.advance(400, beating=True)
    assert team.happened(ev.InterruptEnded)[-1].reason == ending
    assert attention(team).paused, "who stays at a pause point stays there"
    second = note(team, "Critical")
    assert pause_point(team).interrupted_by == second


def test_an_agent_is_not_held_up_by_an_interrupter_that_is_forgotten(new_team: NewTeam) -> None:
    team = new_team("retention: {settled_s: 5, batch: 1}")
    team.register("boss", "Director", "director")
    team.register("impl_001")
    team.attach("impl_001")
    work = note(team, "Coordinate")
    begin(team, work)
    urgent = note(team, "Critical")
    team.ask(cmd.Confirm((urgent,)), "impl_001", cmd.Confirmed)
    seq = team.message(urgent).seq
    while seq in team.exchange.state.messages:
        team.advance(10, beating=True)
    second = note(team, "Critical")
    assert team.happened(ev.InterruptRaised)[-1].by == team.message(second).seq


def test_of_several_on_their_way_the_most_urgent_interrupts_next(interrupted: tuple[Team, str, str]) -> None:
    team, work, urgent = interrupted
    note(team, "Critical")
    override = note(team, "DirectorOverride")
    ENDINGS["processed"](team, urgent)
    attending = pause_point(team)
    assert (attending.working_on, attending.interrupted_by) == (work, override)


def test_work_on_a_message_that_has_ended_is_refused_by_its_state(busy: tuple[Team, str]) -> None:
    team, work = busy
    team.ask(cmd.FinishWork(), "impl_001", cmd.Attending)
    assert team.refused(cmd.BeginWork(work), "impl_001").code == "E_STATE_002"

"""Wakes: who is woken, when, how often, and when a wake has worked or failed."""

import msgspec
import pytest

from tests.core.driver import SECOND, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.policy import document_of, policy_from, stored_policy
from tocsin.core.snapshot import restore
from tocsin.core.wake.model import Waking
from tocsin.policies import default_policy, parse_policy

LATE_S = 0.05
POLICY = """
wake: {level: Blocking, after_s: 5, grace_s: 60, run_s: 600, cooldown_s: 30, per_hour_max: 4, retries_max: 2,
       backoff_s: [10, 20], rest_s: 1000, processes_max: 2}
"""


def sleeping_team(*agents: str, policy: str = POLICY, roles: tuple[str, ...] = ()) -> Team:
    """Return a team with a sender, and agents that have a waker and no session."""
    team = Team(policy)
    team.register("ada")
    for agent in agents:
        team.register(agent)
    team.ask(cmd.DeclareWakers(agents, roles), None, cmd.Done)
    return team


def requests(team: Team) -> list[ev.AgentWakeRequested]:
    return team.happened(ev.AgentWakeRequested)


def exit_of(
    team: Team, agent: str, outcome: cmd.WakerOutcome = "exited", code: int | None = 0, detail: str = ""
) -> None:
    wake = team.exchange.state.wakes[agent].wake
    team.ask(cmd.ReportWaker(agent, wake, outcome, code, detail), None, cmd.Done)


def open_escalations(team: Team) -> list[str]:
    known = team.exchange.state.escalations
    return [
        known[name].subject for name in team.exchange.state.open_escalations if known[name].trigger == "wake_failed"
    ]


def record(team: Team, agent: str = "bob") -> Waking:
    return team.exchange.state.wakes[agent]


def test_a_message_that_waited_wakes_its_recipient() -> None:
    team = sleeping_team("bob")
    sent = team.send("ada", "bob", priority="Blocking")
    team.advance(4)
    assert not requests(team)
    team.advance(1 + LATE_S)
    (request,) = requests(team)
    assert (request.agent, request.attempt, request.message) == ("bob", 1, team.message(sent.message_id).seq)
    assert request.waited_us >= 5 * SECOND
    assert request.due_at == request.at + 60 * SECOND
    team.check_replay()


@pytest.mark.parametrize("priority", ["Info", "Coordinate"])
def test_a_message_below_the_level_wakes_nobody_even_once_it_has_aged(priority: str) -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority=priority)
    team.advance(1000)
    assert not requests(team)


def test_an_agent_without_a_waker_is_not_woken() -> None:
    team = sleeping_team()
    team.register("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(100)
    assert not requests(team)


def test_a_waker_of_a_role_is_for_all_its_agents() -> None:
    team = sleeping_team(roles=("clone",))
    team.register("bob", role="clone")
    team.register("cleo")
    team.send("ada", "bob", priority="Blocking")
    team.send("ada", "cleo", priority="Blocking")
    team.advance(6)
    assert [request.agent for request in requests(team)] == ["bob"]


def test_wakers_that_are_declared_later_wake_for_what_waits_already() -> None:
    team = sleeping_team()
    team.register("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(100)
    team.ask(cmd.DeclareWakers(("bob",)), None, cmd.Done)
    team.advance(LATE_S)
    assert len(requests(team)) == 1
    team.ask(cmd.DeclareWakers(("bob",)), None, cmd.Done)
    assert len(team.happened(ev.WakersDeclared)) == 1, "the same declaration is recorded once"


def test_only_the_hub_declares_wakers_and_reports_on_them() -> None:
    team = sleeping_team("bob")
    team.register("boss", "Manager", "director")
    assert team.refused(cmd.DeclareWakers(("ada",)), "boss").code == "E_AUTH_003"
    assert team.refused(cmd.ReportWaker("bob", "wak_1", "exited", 0), "boss").code == "E_AUTH_003"


def test_an_agent_with_a_live_session_is_not_woken_and_one_whose_session_is_stale_is() -> None:
    team = sleeping_team("bob")
    team.attach("bob", "piggyback")
    team.send("ada", "bob", priority="Blocking")
    team.advance(59)
    assert not requests(team)
    team.advance(1 + 5 + LATE_S)
    assert len(requests(team)) == 1, "stale after 60 s, then the wait of 5 s begins"


def test_the_wait_begins_again_when_the_agent_leaves() -> None:
    team = sleeping_team("bob")
    session = team.attach("bob", "piggyback")
    team.send("ada", "bob", priority="Blocking")
    team.advance(20)
    team.detach(session)
    team.advance(4)
    assert not requests(team), "an agent that restarts has the time to come back"
    team.advance(1 + LATE_S)
    assert len(requests(team)) == 1


def test_a_retry_whose_backoff_ends_wakes() -> None:
    """Found by the simulator: the message was in no mailbox when the session went stale."""
    team = sleeping_team("bob")
    session = team.attach("bob", window=1)
    team.send("ada", "bob", priority="Blocking")
    team.advance(100)
    assert team.exchange.state.sessions[session].stale
    assert len(requests(team)) == 1


@pytest.mark.parametrize("restored", [False, True])
def test_a_wake_is_for_the_oldest_message_whatever_the_order_of_the_queue(restored: bool) -> None:
    """Found by the simulator: of messages of one moment the queue's inner order chose, which a restart changes."""
    team = sleeping_team("bob")
    gone = team.send("ada", "bob", priority="Blocking", qos={"importance": 9})
    assert team.recall("ada", gone.message_id) == "recalled"
    oldest = team.send("ada", "bob", priority="Blocking", qos={"importance": 1})
    for priority, importance in (("Blocking", 9), ("Critical", 5)):
        team.send("ada", "bob", priority=priority, qos={"importance": importance})
    if restored:
        team.exchange.state = restore(msgspec.convert(msgspec.to_builtins(team.snapshot()), type(team.snapshot())))
    team.advance(5 + LATE_S)
    (request,) = requests(team)
    assert request.message == team.message(oldest.message_id).seq


def test_a_wake_works_when_the_agent_takes_the_message() -> None:
    team = sleeping_team("bob")
    sent = team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    team.advance(3)
    session = team.attach("bob", "piggyback")
    assert not team.happened(ev.AgentWoken), "to attach is not enough"
    assert team.drain(session) == [sent.message_id]
    (woken,) = team.happened(ev.AgentWoken)
    assert (woken.agent, woken.session, woken.attempt) == ("bob", session, 1)
    assert woken.took_us == woken.at - requests(team)[0].at
    assert record(team).wake, "its process still runs"
    exit_of(team, "bob")
    assert (record(team).wake, record(team).outcome) == ("", "woken")
    team.check_replay()


def test_a_push_session_takes_the_message_at_once() -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    team.attach("bob")
    assert len(team.happened(ev.AgentWoken)) == 1


def test_a_second_process_is_not_started_while_the_first_one_runs() -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    session = team.attach("bob", "piggyback")
    team.drain(session)
    team.detach(session)
    team.send("ada", "bob", priority="Blocking")
    team.advance(200)
    assert len(requests(team)) == 1
    exit_of(team, "bob")
    team.advance(29)
    assert len(requests(team)) == 1, "the cool-down begins when the process has ended"
    team.advance(1 + LATE_S)
    assert len(requests(team)) == 2


def test_a_process_that_runs_too_long_is_ended() -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    team.attach("bob")
    team.advance(600, beating=True)
    (exited,) = team.happened(ev.WakerExited)
    assert exited.outcome == "timeout"
    assert record(team).wake == ""
    exit_of(team, "bob")  # the host's own report comes late and changes nothing
    assert len(team.happened(ev.WakerExited)) == 1


def test_a_wake_without_effect_is_tried_again_with_backoff_and_then_escalated() -> None:
    team = sleeping_team("bob")
    team.register("boss", "Manager", "director")
    team.send("ada", "bob", priority="Blocking")
    for _ in range(3):
        team.advance(60 + 20 + 5)
        if record(team).wake:
            exit_of(team, "bob")
    team.advance(200)
    at = [(request.attempt, team.elapsed_s(request.at)) for request in requests(team)]
    assert [attempt for attempt, _ in at] == [1, 2, 3]
    failed = team.happened(ev.AgentWakeFailed)
    assert [event.reason for event in failed] == ["not_attached"] * 3
    assert [event.final for event in failed] == [False, False, True]
    assert [round((event.retry_at - event.at) / SECOND) if event.retry_at else 0 for event in failed] == [10, 20, 0]
    (opened,) = [event for event in team.happened(ev.EscalationOpened) if event.trigger == "wake_failed"]
    assert "bob could not be woken in 3 attempts" in opened.detail
    notices = [m for m in team.exchange.state.messages.values() if m.recipient == "boss" and b"woken" in m.payload]
    assert len(notices) == 1
    team.check_replay()


def test_after_a_failed_wake_the_agent_rests_until_it_attaches() -> None:
    team = sleeping_team("bob", policy=POLICY.replace("retries_max: 2", "retries_max: 0"))
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    exit_of(team, "bob", code=1, detail="exit code 1")
    assert team.happened(ev.AgentWakeFailed)[0].final
    assert open_escalations(team) == ["bob"]
    team.advance(500)
    assert len(requests(team)) == 1
    session = team.attach("bob", "piggyback")
    assert not open_escalations(team), "the escalation ends with its cause"
    team.detach(session)
    team.advance(6)
    assert len(requests(team)) == 2


def test_after_its_rest_an_agent_is_woken_again() -> None:
    team = sleeping_team("bob", policy=POLICY.replace("retries_max: 2", "retries_max: 0"))
    team.send("ada", "bob", priority="Blocking", metadata={"ttl": 100_000})
    team.advance(6)
    exit_of(team, "bob", "not_started", None, "no such file")
    team.advance(1000 + LATE_S)
    assert len(requests(team)) == 2


def test_a_waker_that_fails_is_not_waited_for() -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    exit_of(team, "bob", code=127, detail="exit code 127")
    (failed,) = team.happened(ev.AgentWakeFailed)
    assert (failed.reason, failed.detail) == ("waker_failed", "exit code 127")
    team.advance(10 + LATE_S)
    assert [request.attempt for request in requests(team)] == [1, 2]


def test_a_waker_that_only_starts_the_agent_has_the_whole_grace_time() -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    exit_of(team, "bob")
    team.advance(50)
    assert not team.happened(ev.AgentWakeFailed)
    team.attach("bob")
    assert len(team.happened(ev.AgentWoken)) == 1
    assert record(team).wake == ""


def test_an_agent_that_attaches_and_takes_nothing_fails_its_wake_for_good() -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    team.attach("bob", "piggyback")
    team.advance(60, beating=True)
    (failed,) = team.happened(ev.AgentWakeFailed)
    assert (failed.reason, failed.final, failed.retry_at) == ("not_taken", True, 0)


@pytest.mark.parametrize("ending", ["recalled", "expired"])
def test_a_wake_whose_message_ends_is_moot_and_nobody_is_bothered(ending: str) -> None:
    team = sleeping_team("bob")
    sent = team.send("ada", "bob", priority="Blocking", metadata={"ttl": 20})
    team.advance(6)
    if ending == "recalled":
        team.recall("ada", sent.message_id)
    else:
        team.advance(59)
    assert [(event.reason, event.final) for event in team.happened(ev.AgentWakeFailed)] == [("moot", False)]
    assert not [event for event in team.happened(ev.EscalationOpened) if event.trigger == "wake_failed"]
    team.check_replay()


def test_no_more_wakes_than_the_hour_allows() -> None:
    policy = POLICY.replace("cooldown_s: 30", "cooldown_s: 0").replace("rest_s: 1000", "rest_s: 0")
    team = sleeping_team("bob", policy=policy.replace("retries_max: 2", "retries_max: 0"))
    team.send("ada", "bob", priority="Blocking", metadata={"ttl": 100_000})
    for _ in range(70):
        team.advance(60)
        if record(team).wake:
            exit_of(team, "bob", code=1)
    at = [request.at for request in requests(team)]
    assert len(at) == 8
    assert all(later >= at[index] + 3600 * SECOND for index, later in enumerate(at[4:]))


def test_no_more_processes_at_once_than_the_policy_allows() -> None:
    team = sleeping_team("bob", "cleo", "dora")
    for agent in ("bob", "cleo", "dora"):
        team.send("ada", agent, priority="Blocking")
    team.advance(6)
    assert [request.agent for request in requests(team)] == ["bob", "cleo"]
    team.attach("cleo")
    team.advance(20, beating=True)
    assert len(requests(team)) == 2, "the process of cleo still runs"
    exit_of(team, "cleo")
    team.advance(LATE_S)
    assert [request.agent for request in requests(team)] == ["bob", "cleo", "dora"]


def test_an_agent_that_leaves_the_project_ends_its_wake() -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(6)
    team.ask(cmd.RetireAgent("bob", "gone"), "bob", cmd.Done)
    assert [event.reason for event in team.happened(ev.AgentWakeFailed)] == ["moot"]
    assert [event.outcome for event in team.happened(ev.WakerExited)] == ["retired"]
    assert "bob" not in team.exchange.state.wakes
    team.check_replay()


def test_a_restored_state_goes_on_with_its_wakes() -> None:
    team = sleeping_team("bob", "cleo")
    team.send("ada", "bob", priority="Blocking")
    team.send("ada", "cleo", priority="Blocking")
    team.advance(4)
    team.exchange.state = restore(msgspec.convert(msgspec.to_builtins(team.snapshot()), type(team.snapshot())))
    team.advance(2)
    assert len(requests(team)) == 2, "a wait is resumed"
    team.exchange.state = restore(msgspec.convert(msgspec.to_builtins(team.snapshot()), type(team.snapshot())))
    team.advance(60)
    assert len(team.happened(ev.AgentWakeFailed)) == 2, "a deadline is resumed"


def test_another_policy_applies_at_once() -> None:
    team = sleeping_team("bob", policy=POLICY.replace("level: Blocking", "level: Critical"))
    team.send("ada", "bob", priority="Blocking")
    team.advance(100)
    assert not requests(team)
    team.adopt(POLICY)
    team.advance(LATE_S)
    assert len(requests(team)) == 1


def test_a_policy_of_an_earlier_version_gets_the_default_wakes() -> None:
    document = document_of(default_policy())
    del document["wake"]
    assert stored_policy(document).wake == default_policy().wake
    with pytest.raises(Exception, match="wake"):
        policy_from(document)


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [("level: Loud", r"\$.wake.level"), ("run_s: 1", r"\$.wake.run_s"), ("backoff_s: []", r"backoff_s")],
)
def test_a_contradictory_policy_is_refused(setting: str, wrong: str) -> None:
    with pytest.raises(Exception, match=wrong):
        parse_policy(f"wake: {{{setting}}}")


def test_a_channel_is_never_offered_anything_and_keeps_its_agent_from_being_woken() -> None:
    team = sleeping_team("bob")
    channel = team.attach("bob", "channel", window=8)
    assert team.exchange.state.sessions[channel].window == 0
    receipt = team.send("ada", "bob", priority="Blocking")
    assert (receipt.reach, receipt.delivered, receipt.recipient_state) == ("channel", False, "available")
    team.advance(100, beating=True)
    assert not requests(team)
    assert team.drain(channel) == []
    assert team.refused(cmd.GrantCredit(channel, 1), "bob").field == "$.window"
    polled = team.attach("bob", "piggyback")
    assert team.drain(polled) == [receipt.message_id]


def test_a_sync_message_is_kept_for_an_agent_with_a_channel() -> None:
    team = sleeping_team("bob")
    assert team.refused_send("ada", "bob", "Blocker").code == "E_ADMISSION_006"
    team.attach("bob", "channel")
    assert team.send("ada", "bob", "Blocker").reach == "channel"


def test_a_receipt_says_how_its_recipient_can_be_reached() -> None:
    team = sleeping_team("bob")
    team.register("cleo")
    assert team.send("ada", "cleo").reach == "none"
    assert team.send("ada", "bob").reach == "waker"
    hook = team.attach("bob", "piggyback")
    assert team.send("ada", "bob").reach == "hook"
    team.attach("bob", "channel")
    assert team.send("ada", "bob").reach == "channel"
    team.attach("bob")
    assert team.send("ada", "bob").reach == "push"
    team.detach(hook)
    duplicate = team.envelope("ada", "cleo", message_id="msg_same_1")
    first = team.ask(cmd.Send(duplicate), "ada", cmd.Receipt)
    team.attach("cleo")
    assert (first.reach, team.ask(cmd.Send(duplicate), "ada", cmd.Receipt).reach) == ("none", "push")


def test_permission_to_use_a_tool_is_denied_at_its_timeout_and_not_escalated() -> None:
    handoff = "approvals: {handoffs: {tool_permission: {enabled: true, message_types: [], timeout_s: 30}}}"
    team = Team(handoff)
    team.register("ada")
    team.ask(cmd.RequestApproval("tool_permission", "Bash", "rm -r build"), "ada", cmd.ApprovalRequested)
    team.advance(29)
    assert not team.happened(ev.ApprovalEnded)
    assert not team.happened(ev.ApprovalOverdue)
    team.advance(1 + LATE_S)
    (ended,) = team.happened(ev.ApprovalEnded)
    assert (ended.outcome, ended.by) == ("timeout", "tocsin")
    assert not team.happened(ev.EscalationOpened)


def test_permissions_are_off_by_default() -> None:
    team = Team()
    team.register("ada")
    asked = cmd.RequestApproval("tool_permission", "Bash")
    assert team.refused(asked, "ada").code == "E_VALIDATION_003"


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (1, 1), (199, 1), (200, 0), (299, 0), (300, 1), (None, 1)])
def test_exit_code_zero_and_the_2xx_of_a_webhook_are_no_failure(code: int | None, failed: int) -> None:
    team = sleeping_team("bob")
    team.send("ada", "bob", "CUSTOM_NOTE", priority="Blocking")
    team.advance(5 + LATE_S)
    exit_of(team, "bob", code=code)
    assert len(team.happened(ev.AgentWakeFailed)) == failed

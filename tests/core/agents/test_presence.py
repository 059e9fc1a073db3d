"""Presence and the publish path: the tables of SPEC-071 §4.1 and §4.5, and sessions that come and go."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.agents.presence import presence, push_session, resolve
from tocsin.core.messages.model import PublishPath, RecipientState


def state_of(team: Team, agent: str) -> RecipientState:
    return presence(team.exchange.state.agents[agent], team.exchange.state.policy, team.now)


def way_to(team: Team, agent: str) -> tuple[RecipientState, PublishPath, str | None]:
    return resolve(team.exchange.state.agents[agent], team.exchange.state.policy, team.now)


def test_registered_without_a_session_is_offline(team: Team) -> None:
    assert state_of(team, "impl_001") == "not_available_offline"
    assert way_to(team, "impl_001") == (RecipientState.OFFLINE, PublishPath.QUEUED, None)


def test_released_sessions_do_not_count(team: Team) -> None:
    team.detach(team.attach("impl_001"))
    assert state_of(team, "impl_001") == "not_available_offline"


@pytest.mark.parametrize("kind", ["push", "piggyback", "daemon"])
def test_a_fresh_session_makes_it_available(team: Team, kind: cmd.SessionKind) -> None:
    team.attach("impl_001", kind)
    assert state_of(team, "impl_001") == "available"


@pytest.mark.parametrize(
    ("silence_s", "state"), [(59, "available"), (60, "available"), (60.000001, "not_available_stale")]
)
def test_a_heartbeat_older_than_60_seconds_is_stale(team: Team, silence_s: float, state: str) -> None:
    team.attach("impl_001")
    team.advance(silence_s)
    assert state_of(team, "impl_001") == state


def test_a_heartbeat_makes_it_available_again(team: Team) -> None:
    session = team.attach("impl_001")
    team.advance(100)
    assert way_to(team, "impl_001") == (RecipientState.STALE, PublishPath.QUEUED, None)
    team.beat(session)
    assert way_to(team, "impl_001") == (RecipientState.AVAILABLE, PublishPath.PUSHED, session)


def test_one_fresh_session_of_several_is_enough(team: Team) -> None:
    team.attach("impl_001")
    team.advance(100)
    fresh = team.attach("impl_001", "piggyback")
    assert way_to(team, "impl_001") == (RecipientState.AVAILABLE, PublishPath.PIGGYBACK, fresh)


@pytest.mark.parametrize(
    ("kinds", "path"),
    [
        ([], "queued_offline"),
        (["push"], "pushed_to_ws"),
        (["daemon"], "pushed_to_ws"),
        (["piggyback"], "buffered_for_piggyback"),
        (["piggyback", "push"], "pushed_to_ws"),
    ],
)
def test_the_publish_path(team: Team, kinds: list[cmd.SessionKind], path: str) -> None:
    for kind in kinds:
        team.attach("impl_001", kind)
    assert way_to(team, "impl_001")[1] == path
    assert team.send("impl_002", "impl_001").publish_path == path


def test_a_push_goes_to_the_emptiest_session_and_then_the_oldest(team: Team) -> None:
    first = team.attach("impl_001", window=2)
    second = team.attach("impl_001", window=2)
    agent = team.exchange.state.agents["impl_001"]
    chosen = []
    for _ in range(4):
        session = push_session(agent, team.exchange.state.policy, team.now)
        assert session is not None
        chosen.append(session.session)
        team.send("impl_002", "impl_001")
    assert chosen == [first, second, first, second]
    assert push_session(agent, team.exchange.state.policy, team.now) is None
    assert team.send("impl_002", "impl_001").publish_path == PublishPath.QUEUED, "its windows are full"


def test_going_stale_and_lapsing_are_recorded_once(team: Team) -> None:
    session = team.attach("impl_001")
    opened_at = team.now
    team.advance(3599)
    (stale,) = team.happened(ev.SessionWentStale)
    assert (stale.session, stale.agent, stale.heartbeat_at) == (session, "impl_001", opened_at)
    assert stale.threshold_s == 60
    assert 0 < stale.at - (opened_at + 60_000_000) <= 10_000, "late by at most the granularity of the timers"
    assert not team.happened(ev.SessionClosed)
    team.advance(2)
    (closed,) = team.happened(ev.SessionClosed)
    assert (closed.session, closed.reason) == (session, "lapsed")
    assert state_of(team, "impl_001") == "not_available_offline"


def test_heartbeats_close_together_are_one(team: Team) -> None:
    session = team.attach("impl_001")
    for _ in range(10):
        team.advance(0.25)
        team.beat(session)
    assert [team.elapsed_s(beat.at) for beat in team.happened(ev.SessionHeartbeat)] == [1, 2]


def test_a_stale_session_is_refreshed_at_once(team: Team) -> None:
    session = team.attach("impl_001")
    team.advance(61)
    team.beat(session)
    assert not team.exchange.state.sessions[session].stale
    team.advance(59)
    assert len(team.happened(ev.SessionWentStale)) == 1


def test_a_session_is_its_owners(team: Team) -> None:
    session = team.attach("impl_001")
    commands: list[cmd.Command] = [cmd.Heartbeat(session), cmd.CloseSession(session), cmd.Drain(session, 1)]
    for command in commands:
        assert team.refused(command, "impl_002").code == "E_STATE_003"
    assert team.refused(cmd.Heartbeat("ses_unknown"), "impl_001").code == "E_STATE_003"


@pytest.mark.parametrize(
    ("command", "code", "field"),
    [
        (cmd.OpenSession("pigeon"), "E_VALIDATION_003", "$.kind"),  # type: ignore[arg-type]
        (cmd.OpenSession("push", -1), "E_VALIDATION_004", "$.window"),
        (cmd.OpenSession("push", 1025), "E_VALIDATION_004", "$.window"),
    ],
)
def test_a_session_that_cannot_be(team: Team, command: cmd.OpenSession, code: str, field: str) -> None:
    problem = team.refused(command, "impl_001")
    assert (problem.code, problem.field) == (code, field)


def test_a_paused_session_is_offered_nothing_until_it_takes_more(team: Team) -> None:
    session = team.attach("impl_001", window=2)
    assert team.ask(cmd.GrantCredit(session, 0), "impl_001", cmd.SessionReady).window == 0
    sent = [team.send("impl_002", "impl_001").signal_id for _ in range(4)]
    assert [team.message(name).state for name in sent] == ["queued"] * 4
    team.ask(cmd.GrantCredit(session, 3), "impl_001", cmd.SessionReady)
    assert [team.message(name).state for name in sent] == ["offered"] * 3 + ["queued"]
    assert [event.window for event in team.happened(ev.SessionWindowChanged)] == [0, 3]
    team.check_replay()


def test_a_session_may_begin_paused(team: Team) -> None:
    waiting = team.send("impl_002", "impl_001").signal_id
    session = team.attach("impl_001", window=0)
    assert team.message(waiting).state == "queued"
    team.ask(cmd.GrantCredit(session, 1), "impl_001", cmd.SessionReady)
    assert team.message(waiting).state == "offered"
    team.check_replay()


def test_a_smaller_window_leaves_what_is_on_its_way(team: Team) -> None:
    session = team.attach("impl_001", window=3)
    sent = [team.send("impl_002", "impl_001").signal_id for _ in range(5)]
    team.ask(cmd.GrantCredit(session, 1), "impl_001", cmd.SessionReady)
    assert [found.signal_id for found in team.exchange.in_flight(session)] == sent[:3]
    team.confirm("impl_001", sent[0], sent[1])
    assert [found.signal_id for found in team.exchange.in_flight(session)] == sent[2:3], "no room yet"
    team.confirm("impl_001", sent[2])
    assert [found.signal_id for found in team.exchange.in_flight(session)] == sent[3:4]
    team.check_replay()


def test_the_same_window_again_is_no_event(team: Team) -> None:
    session = team.attach("impl_001", window=3)
    team.ask(cmd.GrantCredit(session, 3), "impl_001", cmd.SessionReady)
    assert not team.happened(ev.SessionWindowChanged)


@pytest.mark.parametrize("window", [-1, 1025, 2**70])
def test_a_window_that_cannot_be(team: Team, window: int) -> None:
    session = team.attach("impl_001")
    problem = team.refused(cmd.GrantCredit(session, window), "impl_001")
    assert (problem.code, problem.field, problem.expected) == ("E_VALIDATION_004", "$.window", "0 to 1024")


def test_only_its_own_session_is_changed(team: Team) -> None:
    session = team.attach("impl_001")
    assert team.refused(cmd.GrantCredit(session, 0), "impl_002").code == "E_STATE_003"


def test_an_agent_has_sixteen_sessions_at_most(team: Team) -> None:
    for _ in range(16):
        team.attach("impl_001")
    assert team.refused(cmd.OpenSession("push"), "impl_001").code == "E_ADMISSION_008"


def test_who_is_not_registered_has_no_session(team: Team) -> None:
    assert team.refused(cmd.OpenSession("push"), "stranger").code == "E_AUTH_007"


def test_a_tick_ends_once_its_events_fill_a_group(new_team: NewTeam) -> None:
    team = new_team("{storage: {group_events_max: 25}, sessions: {stale_after_s: 60, lapse_after_s: 61}}")
    team.register("sender", "Manager")
    for number in range(6):
        team.register(f"full_{number}")
        team.attach(f"full_{number}", window=20)
        for _ in range(20):
            team.send("sender", f"full_{number}")
    sizes = []
    while any(session for session in team.exchange.state.sessions):
        team.now += 70 * 1_000_000
        before = len(team.events)
        team.tick()
        sizes.append(len(team.events) - before)
    # What is left of a session is requeued in one tick: the timer that fires last may go beyond.
    assert 20 < max(sizes) <= 25 + 21
    assert len(team.happened(ev.MessageRequeued)) == 120

"""Channels that lead to nothing: when they no longer count as a way to their agent, and when they count again."""

import msgspec
import pytest

from tests.core.driver import Team
from tests.core.wake.test_wakes import LATE_S, POLICY, requests, sleeping_team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.snapshot import restore
from tocsin.core.wake.reach import reach_of

#: Three notifications: at once, after 10 s, and after 20 s more; the last wait is 20 s too.
CHANNELS = POLICY.replace("processes_max: 2", "processes_max: 2, notifications_max: 3, notify_again_s: [10, 20]")
TAKES_S = 50


def reached_by(team: Team, agent: str = "bob") -> str:
    return reach_of(team.exchange.state, team.exchange.state.agents[agent])


def pass_time(team: Team, seconds: float, *beating: str) -> None:
    """Let time pass in which the programs of some sessions stay connected."""
    while seconds > 0:
        step = min(seconds, 5)
        team.advance(step)
        seconds -= step
        for session in beating:
            team.beat(session)


def ignored(team: Team) -> list[str]:
    return [event.session for event in team.happened(ev.ChannelIgnored)]


def test_a_channel_that_led_to_nothing_is_no_way_to_its_agent_and_the_waker_starts() -> None:
    team = sleeping_team("bob", policy=CHANNELS)
    channel = team.attach("bob", "channel")
    sent = team.send("ada", "bob", priority="Critical")
    assert sent.reach == "channel"
    pass_time(team, TAKES_S - 1, channel)
    assert not ignored(team)
    pass_time(team, 1 + LATE_S, channel)
    (event,) = team.happened(ev.ChannelIgnored)
    assert (event.agent, event.session, event.message) == ("bob", channel, team.message(sent.message_id).seq)
    assert (event.notifications, event.threshold_s) == (3, 50.0)
    assert reached_by(team) == "waker"
    pass_time(team, 5 + LATE_S, channel)
    (request,) = requests(team)
    assert request.message == event.message
    assert team.send("ada", "bob", priority="Critical").reach == "waker"
    team.check_replay()


def test_without_a_waker_the_agent_is_said_to_be_out_of_reach() -> None:
    team = sleeping_team(policy=CHANNELS)
    team.register("bob")
    channel = team.attach("bob", "channel")
    team.send("ada", "bob", priority="Blocking")
    pass_time(team, TAKES_S + LATE_S, channel)
    assert reached_by(team) == "none"
    assert not requests(team)


def test_a_fetch_counts_the_channel_again() -> None:
    team = sleeping_team("bob", policy=CHANNELS)
    channel = team.attach("bob", "channel")
    first = team.send("ada", "bob", priority="Blocking")
    pass_time(team, TAKES_S + LATE_S, channel)
    calls = team.attach("bob", "piggyback")
    assert [event.session for event in team.happened(ev.ChannelAnswered)] == [channel]
    assert team.drain(calls) == [first.message_id]
    team.confirm("bob", first.message_id)
    pass_time(team, 61, channel)
    assert reached_by(team) == "channel", "its calls have ended, and nothing waits"
    team.send("ada", "bob", priority="Blocking")
    pass_time(team, TAKES_S - 1, channel)
    assert reached_by(team) == "channel", "it has the whole time again"
    pass_time(team, 1 + LATE_S, channel)
    assert ignored(team) == [channel, channel]
    team.beat(calls)
    assert len(team.happened(ev.ChannelAnswered)) == 2, "any call of the agent counts it again"
    team.check_replay()


def test_an_agent_that_calls_and_leaves_a_message_ignores_its_channel_again() -> None:
    """Found by the simulator: nothing checked the channel again."""
    team = sleeping_team("bob", policy=CHANNELS)
    channel, calls = team.attach("bob", "channel"), team.attach("bob", "piggyback")
    team.send("ada", "bob", priority="Critical")
    pass_time(team, TAKES_S + LATE_S, channel)
    team.beat(calls)
    assert reached_by(team) == "channel"
    pass_time(team, TAKES_S + LATE_S, channel)
    assert ignored(team) == [channel, channel]


def test_an_agent_that_makes_calls_does_not_ignore_its_channel() -> None:
    team = sleeping_team("bob", policy=CHANNELS)
    channel, calls = team.attach("bob", "channel"), team.attach("bob", "piggyback")
    team.send("ada", "bob", priority="Blocking")
    pass_time(team, 200, channel, calls)
    assert not ignored(team)
    pass_time(team, TAKES_S - 1, channel)
    assert not ignored(team)
    pass_time(team, 1 + LATE_S, channel)
    assert ignored(team) == [channel]
    assert reached_by(team) == "hook", "its calls count for 60 s"
    pass_time(team, 10 + LATE_S, channel)
    assert reached_by(team) == "waker"
    assert not requests(team)
    pass_time(team, 5 + LATE_S, channel)
    assert len(requests(team)) == 1


def test_a_call_before_the_message_is_no_answer_to_its_notifications() -> None:
    """A check at the start of the client's session once kept its channel for as long as that session was fresh."""
    team = sleeping_team("bob", policy=CHANNELS.replace("[10, 20]", "[1]"))
    channel = team.attach("bob", "channel")
    team.attach("bob", "piggyback")
    team.advance(5)
    team.send("ada", "bob", priority="Critical")
    pass_time(team, 3 + LATE_S, channel)
    assert ignored(team) == [channel]


def test_a_channel_has_the_whole_time_for_what_waited_before_it_opened() -> None:
    team = sleeping_team(policy=CHANNELS)
    team.register("bob")
    team.send("ada", "bob", priority="Blocking")
    team.advance(100)
    channel = team.attach("bob", "channel")
    pass_time(team, TAKES_S - 1, channel)
    assert not ignored(team)
    pass_time(team, 1 + LATE_S, channel)
    assert ignored(team) == [channel]


def test_a_new_channel_counts_although_the_agent_ignores_an_older_one() -> None:
    team = sleeping_team("bob", policy=CHANNELS)
    older = team.attach("bob", "channel")
    team.send("ada", "bob", priority="Blocking")
    pass_time(team, TAKES_S + LATE_S, older)
    newer = team.attach("bob", "channel")
    assert reached_by(team) == "channel"
    pass_time(team, TAKES_S + LATE_S, older, newer)
    assert ignored(team) == [older, newer]
    team.detach(older)
    team.detach(newer)
    assert not team.exchange.state.ignored


@pytest.mark.parametrize("priority", ["Info", "Coordinate"])
def test_messages_that_are_not_announced_ignore_no_channel(priority: str) -> None:
    team = sleeping_team("bob", policy=CHANNELS)
    channel = team.attach("bob", "channel")
    team.send("ada", "bob", priority=priority)
    pass_time(team, 200, channel)
    assert not ignored(team)


def test_a_channel_that_was_silent_is_checked_when_it_is_back() -> None:
    team = sleeping_team(policy=CHANNELS)
    team.register("bob")
    channel = team.attach("bob", "channel")
    team.advance(20)
    team.send("ada", "bob", priority="Blocking")
    team.advance(60)
    assert not ignored(team), "it is stale, and no way to the agent anyway"
    team.beat(channel)
    pass_time(team, LATE_S, channel)
    assert ignored(team) == [channel]


def test_a_restart_keeps_what_is_known_of_channels() -> None:
    team = sleeping_team("bob", policy=CHANNELS)
    channel = team.attach("bob", "channel")
    team.send("ada", "bob", priority="Blocking")
    pass_time(team, TAKES_S - 5, channel)
    _restart(team)
    pass_time(team, 5 + LATE_S, channel)
    assert ignored(team) == [channel], "the check is scheduled again"
    _restart(team)
    assert reached_by(team) == "waker"
    team.attach("bob", "piggyback")
    assert len(team.happened(ev.ChannelAnswered)) == 1


def _restart(team: Team) -> None:
    taken = team.snapshot()
    team.exchange.state = restore(msgspec.convert(msgspec.to_builtins(taken), type(taken)))


def test_a_wake_fails_as_not_attached_if_only_an_ignored_channel_is_open() -> None:
    """Such a wake is tried again: nobody is there."""
    team = sleeping_team("bob", policy=CHANNELS)
    channel = team.attach("bob", "channel")
    team.send("ada", "bob", priority="Blocking")
    pass_time(team, TAKES_S + 6, channel)
    team.ask(cmd.ReportWaker("bob", requests(team)[0].wake, "exited", 0, ""), None, cmd.Done)
    pass_time(team, 60 + LATE_S, channel)
    (failed,) = team.happened(ev.AgentWakeFailed)
    assert (failed.reason, failed.final) == ("not_attached", False)
    pass_time(team, 10 + LATE_S, channel)
    assert [request.attempt for request in requests(team)] == [1, 2]

"""Messages that rise with an agent that others wait for, in the live state and in one rebuilt from a recovery point."""

from tests.core.test_recovered_state import Watched
from tocsin.core import commands as cmd
from tocsin.core import events as ev


def test_what_an_agent_sent_and_the_answers_to_it_rise_and_fall_with_it() -> None:
    """Answers that are only accepted while it inherits rise as well; other messages to it do not."""
    team = Watched()
    for agent in ("one", "two", "three"):
        team.register(agent)
    team.hold(cmd.AcquireLease(("a",), lease="held"), "two")
    team.send("two", "three", "CUSTOM_ASK", priority="Info", correlation_id="t-1", message_id="msg_1_a")
    team.send("three", "two", "CUSTOM_ANSWER", priority="Info", correlation_id="t-1", message_id="msg_2_a")
    team.send("three", "two", "CUSTOM_NOTE", priority="Info", message_id="msg_3_a")
    team.wait_for_lease(cmd.AcquireLease(("a",), lease="wanted", priority="Blocking"), "one")
    team.send("three", "two", "CUSTOM_ANSWER", priority="Info", correlation_id="t-1", message_id="msg_4_a")
    team.send("two", "three", "CUSTOM_NOTE", priority="Info", message_id="msg_5_a")
    names = [f"msg_{number}_a" for number in range(1, 6)]
    assert [team.message(name).level for name in names] == [2, 2, 0, 2, 2]
    (raised,) = team.happened(ev.PriorityInherited)
    assert (raised.agent, raised.old_level, raised.new_level, raised.waiter) == ("two", None, 2, "one")
    assert raised.raised == tuple(team.message(name).seq for name in names[:2])
    team.ask(cmd.ReleaseLease("held"), "two", cmd.Released)
    assert [team.message(name).level for name in names] == [0] * 5
    (fallen,) = team.happened(ev.PriorityRestored)
    lowered = tuple(team.message(name).seq for name in names if name != "msg_3_a")
    assert (fallen.agent, fallen.old_level, fallen.new_level, fallen.lowered) == ("two", 2, None, lowered)
    team.check_replay()


def test_an_answer_alone_rises_with_the_agent_that_it_is_for() -> None:
    team = Watched()
    for agent in ("one", "two", "three"):
        team.register(agent)
    team.hold(cmd.AcquireLease(("a",)), "two")
    team.attach("three")
    team.send("two", "three", "CUSTOM_ASK", correlation_id="t-1", message_id="msg_1_a")
    team.done("three", "msg_1_a")
    team.send("three", "two", "CUSTOM_ANSWER", priority="Info", correlation_id="t-1", message_id="msg_2_a")
    team.wait_for_lease(cmd.AcquireLease(("a",), priority="Blocking"), "one")
    (raised,) = team.happened(ev.PriorityInherited)
    assert raised.raised == (team.message("msg_2_a").seq,)
    assert team.message("msg_2_a").level == 2

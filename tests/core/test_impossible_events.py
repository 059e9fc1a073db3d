"""Events that contradict the state: each raises an `InvariantViolation` that names what it is about."""

from collections.abc import Callable

import pytest

from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.escalation.paths import place_after
from tocsin.core.events import Event


def made(team: Team) -> None:
    """Give the team a bit of everything: a message, a wait, a wake and an escalation."""
    for agent in ("one", "two"):
        team.register(agent)
    team.register("boss", "Director", "director")
    team.ask(cmd.DeclareWakers(("two",)), None, cmd.Done)
    envelope = team.envelope(
        "one", "two", "CUSTOM_ASK", correlation_id="t-1", message_id="msg_1_a", priority="Blocking"
    )
    team.ask(cmd.SendRequest(envelope), "one", cmd.Requested)
    team.advance(61)


def wake(team: Team) -> str:
    return team.exchange.state.wakes["two"].wake


def escalation(team: Team) -> str:
    return next(iter(team.exchange.state.open_escalations))


CASES: dict[str, tuple[Callable[[Team], Event], tuple[str, ...]]] = {
    "message": (lambda team: ev.MessageReady(team.now, 999), ("999",)),
    "state of a message": (
        lambda team: ev.MessageAcknowledged(team.now, team.message("msg_1_a").seq, "received", 0),
        ("queued", "MessageAcknowledged"),
    ),
    "session": (lambda team: ev.SessionHeartbeat(team.now, "ses_9"), ("ses_9",)),
    "work": (lambda team: ev.WorkFinished(team.now, "one", 999), ("999", "one")),
    "wait again": (
        lambda team: ev.WaitBegan(team.now, "one", "request", "msg_1_a", ("two",), False, 2),
        ("request:msg_1_a",),
    ),
    "wait": (lambda team: ev.WaitEnded(team.now, "one", "request", "msg_9_z", "served"), ("request:msg_9_z",)),
    "topic": (lambda team: ev.Unsubscribed(team.now, "builds", "one", "asked"), ("builds",)),
    "lease": (lambda team: ev.LeaseRenewed(team.now, "lse_9", "one", 1.0, 1), ("lse_9",)),
    "lease request": (lambda team: ev.LeaseWaitEnded(team.now, "lse_9", "one", "timeout", 0), ("lse_9",)),
    "wake again": (
        lambda team: ev.AgentWakeRequested(team.now, "two", "wak_9", 1, 1, 2, 0, 5.0, team.now),
        ("two",),
    ),
    "wake": (lambda team: ev.WakerExited(team.now, "two", "wak_9", "exited", 0, ""), ("wak_9", "two")),
    "escalation": (
        lambda team: ev.EscalationMoved(team.now, escalation(team), "over", "resolved", "normal", "tocsin", "", 0),
        ("esc_", "resolved"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_event_that_contradicts_the_state_is_refused(case: str) -> None:
    make, words = CASES[case]
    team = Team()
    made(team)
    with pytest.raises(InvariantViolation) as broken:
        team.exchange.apply(make(team))
    for word in words:
        assert word in str(broken.value)


def test_a_wake_is_settled_once() -> None:
    team = Team()
    made(team)
    seq = team.message("msg_1_a").seq
    failed = ev.AgentWakeFailed(team.now, "two", wake(team), seq, 1, 4, "not_attached", "", 120.0, 0, False)
    team.exchange.apply(failed)
    with pytest.raises(InvariantViolation, match=r"settles wake .* of two again"):
        team.exchange.apply(failed)


def test_an_escalation_takes_no_step_that_its_path_does_not_have() -> None:
    with pytest.raises(InvariantViolation, match="normal has no step boosted"):
        place_after("normal", "boosted")

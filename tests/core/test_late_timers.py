"""Timers that a tick leaves for the next one: what was renewed in between is not ended, and is due at its new time.

A tick fires a limited number of timers. Two of a kind are due at once here, and a tick fires one.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev

TASK_REPORT = {"errorType": "SystemError", "errorMessage": "broken", "severity": "high"}


def sessions(team: Team) -> Callable[[], None]:
    for agent in ("one", "two"):
        team.attach(agent)
    second = list(team.exchange.state.sessions)[1]
    return lambda: team.beat(second)


def leases(team: Team) -> Callable[[], None]:
    for number, agent in enumerate(("one", "two")):
        team.hold(cmd.AcquireLease((f"r-{number}",), lease=f"l-{number}", ttl_s=100), agent)
    return lambda: ignore(team.hold(cmd.RenewLease("l-1"), "two"))


def lease_waits(team: Team) -> Callable[[], None]:
    team.hold(cmd.AcquireLease(("a",)), "lead")
    wanted = {agent: cmd.AcquireLease(("a",), lease=f"w-{agent}", wait_s=10) for agent in ("one", "two")}
    for agent, command in wanted.items():
        team.wait_for_lease(command, agent)

    def renew() -> None:
        team.ask(cmd.ReleaseLease("w-two"), "two", cmd.Released)
        team.wait_for_lease(wanted["two"], "two")

    return renew


def requests(team: Team) -> Callable[[], None]:
    for number in range(2):
        envelope = team.envelope("one", "two", "CUSTOM_ASK", message_id=f"msg_{number}_a", correlation_id=f"t-{number}")
        team.ask(cmd.SendRequest(envelope, 10), "one", cmd.Requested)
    return lambda: ignore(team.ask(cmd.ExtendRequest("msg_1_a", 10), "one", cmd.TimeoutExtended))


def works(team: Team) -> Callable[[], None]:
    for agent in ("one", "two"):
        team.attach(agent, "daemon")
        message = team.send("lead", agent).message_id
        team.confirm(agent, message)
        team.ask(cmd.BeginWork(message), agent, cmd.Attending)
    return lambda: ignore(team.ask(cmd.ReachPausePoint(stay=True), "two", cmd.Attending))


def offers(team: Team) -> Callable[[], None]:
    session = ""
    for agent in ("one", "two"):
        session = team.attach(agent)
        team.send("lead", agent)

    def renew() -> None:
        team.detach(session)
        team.attach("two")

    return renew


def retries(team: Team) -> Callable[[], None]:
    ids = []
    for lead in ("lead", "lead2"):
        team.attach(lead)
        ids.append(team.send("one", lead, "ERROR_REPORT", payload=TASK_REPORT).message_id)
        team.nack(lead, ids[-1], can_retry=True)
    return lambda: ignore(team.nack("lead2", ids[1], can_retry=True))


def dead_letters(team: Team) -> Callable[[], None]:
    ids = []
    for agent in ("one", "two"):
        team.attach(agent)
        ids.append(team.send("lead", agent).message_id)
        team.nack(agent, ids[-1], can_retry=False)

    def renew() -> None:
        team.redrive("lead", ids[1])
        team.nack("two", ids[1], can_retry=False)

    return renew


def queued(**parts: Any) -> Callable[[Team], Callable[[], None]]:
    """Queue two messages; the second one dies and is redriven, so that its time in the queue begins anew."""

    def begin(team: Team) -> Callable[[], None]:
        ids = [team.send("lead", agent, "CUSTOM_NOTE", **parts).message_id for agent in ("one", "two")]

        def renew() -> None:
            session = team.attach("two")
            team.nack("two", ids[1], can_retry=False)
            team.detach(session)
            team.redrive("lead", ids[1])

        return renew

    return begin


def ignore(_: object) -> None:
    """Let a lambda return nothing."""


Begin = Callable[[Team], Callable[[], None]]
CASES: dict[str, tuple[Begin, type, float, str]] = {
    "sessions": (sessions, ev.SessionWentStale, 60, ""),
    "leases": (leases, ev.LeaseExpiring, 70, ""),
    "lease waits": (lease_waits, ev.LeaseWaitEnded, 10, ""),
    "requests": (requests, ev.RequestEnded, 10, ""),
    "works": (works, ev.AttentionLapsed, 20, "attention: {work_max_s: 20}"),
    "offers": (offers, ev.MessageRequeued, 30, ""),
    "retries": (retries, ev.MessageReady, 1, ""),
    "dead letters": (dead_letters, ev.DeadLetterPurged, 100, "retention: {dead_s: 100}"),
    "aging": (queued(), ev.MessageBoosted, 60, ""),
    "escalation": (queued(priority="Blocking"), ev.EscalationOpened, 60, "aging: {enabled: false}"),
}


def crew(new_team: NewTeam, policy: str) -> Team:
    team = new_team(f"{{limits: {{timers_per_tick: 1}}, {policy}}}")
    team.register("boss", "Director", "director")
    for agent in ("one", "two"):
        team.register(agent)
    for lead in ("lead", "lead2"):
        team.register(lead, "Manager")
    return team


def fire_the_first(team: Team, kind: type) -> None:
    """Let time pass until one timer of a kind has fired."""
    before = len(team.happened(kind))
    while len(team.happened(kind)) == before:
        due = team.exchange.next_due()
        assert due is not None
        team.now = max(team.now, due)
        team.tick()
    assert len(team.happened(kind)) == before + 1


@pytest.mark.parametrize("case", CASES)
def test_what_is_renewed_between_two_ticks_is_not_ended(new_team: NewTeam, case: str) -> None:
    begin, kind, due_s, policy = CASES[case]
    team = crew(new_team, policy)
    renew = begin(team)
    started = team.now
    fire_the_first(team, kind)
    assert due_s <= team.seconds_since(started) <= due_s + 60, "at most a slot of the slowest timers late"
    renewed = team.now
    renew()
    fired = len(team.happened(kind))
    team.advance(0)
    assert len(team.happened(kind)) == fired, "the second one was renewed"
    fire_the_first(team, kind)
    least = {"retries": 2.0}.get(case, due_s)
    assert least <= team.seconds_since(renewed) <= least + 60


def end(team: Team, case: str) -> None:
    """End the second of two things, as its owner would."""
    state = team.exchange.state
    second = max(state.messages) if state.messages else 0
    match case:
        case "sessions":
            team.detach(list(state.sessions)[1])
        case "leases":
            team.ask(cmd.ReleaseLease("l-1"), "two", cmd.Released)
        case "lease waits":
            team.ask(cmd.ReleaseLease("w-two"), "two", cmd.Released)
        case "requests":
            team.ask(cmd.CancelRequest("msg_1_a"), "one", cmd.Done)
        case "works":
            team.ask(cmd.FinishWork(), "two", cmd.Attending)
        case "offers":
            team.confirm("two", state.messages[second].message_id)
        case "retries":
            team.done("lead2", "msg_000002_one")
        case "dead letters":
            team.redrive("lead", "msg_000002_lead")
        case _:
            team.recall("lead", "msg_000002_lead")


@pytest.mark.parametrize("case", CASES)
def test_what_has_ended_between_two_ticks_is_not_ended_again(new_team: NewTeam, case: str) -> None:
    begin, kind, _, policy = CASES[case]
    team = crew(new_team, policy)
    begin(team)
    fire_the_first(team, kind)
    end(team, case)
    fired = len(team.happened(kind))
    team.advance(0)
    assert len(team.happened(kind)) == fired

"""Who pays for the notices of an escalation: the agent that caused it, the Info price for each copy (DESIGN §5.15)."""

from collections.abc import Callable

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev


def request_timeout(team: Team) -> None:
    envelope = team.envelope("one", "two", "CUSTOM_ASK", correlation_id="t-1")
    team.ask(cmd.SendRequest(envelope, 5), "one", cmd.Requested)
    team.advance(6)


def time_in_queue(team: Team) -> None:
    team.send("one", "two", priority="Critical")
    team.advance(11)


def dependency_blocked(team: Team) -> None:
    team.hold(cmd.AcquireLease(("a",)), "two")
    team.wait_for_lease(cmd.AcquireLease(("a",), priority="Blocking"), "one")
    team.advance(61)


def approval_timeout(team: Team) -> None:
    team.ask(cmd.RequestApproval("pre_merge_review", "the branch"), "one", cmd.ApprovalRequested)
    team.advance(20)


def consensus_timeout(team: Team) -> None:
    team.ask(cmd.OpenDiscussion("tabs?", ("two", "three"), max_s=5), "one", cmd.Discussed)
    team.advance(6)


def priority_inflation(team: Team) -> None:
    for _ in range(6):
        team.send("one", "two", priority="Blocking")


def critical_error(team: Team) -> None:
    payload = {"errorType": "SystemError", "errorMessage": "broken", "severity": "critical"}
    team.send("one", "lead", "ERROR_REPORT", payload=payload)


def resource_contended(team: Team) -> None:
    team.hold(cmd.AcquireLease(("a",)), "two")
    team.wait_for_lease(cmd.AcquireLease(("a",)), "three")
    team.wait_for_lease(cmd.AcquireLease(("a",)), "one")


def deadlock(team: Team) -> None:
    team.hold(cmd.AcquireLease(("a",)), "one")
    team.hold(cmd.AcquireLease(("b",)), "two")
    team.wait_for_lease(cmd.AcquireLease(("b",)), "one")
    team.refused(cmd.AcquireLease(("a",)), "two")


def wake_failed(team: Team) -> None:
    team.ask(cmd.DeclareWakers(("two",)), None, cmd.Done)
    team.send("one", "two", priority="Blocking")
    team.advance(10)


POLICY = """
escalation:
  rules:
    blocking_waits: {level: Critical, after_s: 10, actions: [notify_director]}
approvals: {handoffs: {pre_merge_review: {timeout_s: 10}}}
wake: {after_s: 1, grace_s: 2, retries_max: 0}
"""

CASES: list[tuple[Callable[[Team], None], str]] = [
    (request_timeout, "one"),
    (time_in_queue, "one"),
    (dependency_blocked, "one"),
    (approval_timeout, "one"),
    (consensus_timeout, "one"),
    (priority_inflation, "one"),
    (critical_error, "one"),
    (resource_contended, "one"),
    (deadlock, "two"),
    (wake_failed, "one"),
]


@pytest.mark.parametrize(("cause", "payer"), CASES, ids=[cause.__name__ for cause, _ in CASES])
def test_the_agent_that_causes_an_escalation_pays_for_its_notices(
    new_team: NewTeam, cause: Callable[[Team], None], payer: str
) -> None:
    team = new_team(POLICY)
    for agent in ("one", "two", "three"):
        team.register(agent)
    team.register("lead", "Manager")
    for boss in ("boss", "chief"):
        team.register(boss, "Director", "director")
    cause(team)
    assert [event.trigger for event in team.happened(ev.EscalationOpened)] == [cause.__name__]
    charged = [event for event in team.happened(ev.AgentCharged) if event.cause == "notices"]
    assert [(event.agent, event.copies, event.cost) for event in charged] == [(payer, 2, 2.0)]


def test_an_escalation_that_finds_no_room_is_paid_for_as_well(new_team: NewTeam) -> None:
    """One that is neither opened nor deferred only notifies the directors."""
    team = new_team("escalation: {open_max: 1, deferred_max: 1}")
    for agent in ("one", "two"):
        team.register(agent)
    for boss in ("boss", "chief"):
        team.register(boss, "Director", "director")
    for number in range(3):
        envelope = team.envelope("one", "two", "CUSTOM_ASK", correlation_id=f"t-{number}")
        team.ask(cmd.SendRequest(envelope, 5 + number), "one", cmd.Requested)
    team.advance(10)
    charged = [event for event in team.happened(ev.AgentCharged) if event.cause == "notices"]
    assert [(event.agent, event.copies) for event in charged] == [("one", 2), ("one", 2)]
    assert [event.kept for event in team.happened(ev.EscalationDeferred)] == [True, False]


def test_it_pays_for_the_notices_of_humans_where_there_is_no_director(new_team: NewTeam) -> None:
    team = new_team()
    for agent in ("one", "two"):
        team.register(agent)
    for human in ("ann", "bob", "eve"):
        team.register(human, "Person", "human")
    request_timeout(team)
    charged = [event for event in team.happened(ev.AgentCharged) if event.cause == "notices"]
    assert [(event.agent, event.copies, event.cost) for event in charged] == [("one", 3, 3.0)]

"""Agents: joining under the role of a token, coming back, and names that cannot be."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import Caller
from tocsin.core.errors import Problem


@pytest.mark.parametrize("role", ["director", "primary", "clone", "human"])
def test_the_role_is_the_tokens(team: Team, role: str) -> None:
    team.register("newcomer", "Implementation", role)
    assert team.exchange.state.agents["newcomer"].role == role
    assert team.happened(ev.AgentRegistered)[-1].role == role


@pytest.mark.parametrize("role", ["system", "root", ""])
def test_a_role_that_is_none_is_refused(team: Team, role: str) -> None:
    reply = team.handle(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller("newcomer", role)).reply
    assert isinstance(reply, Problem)
    assert reply.code == "E_AUTH_003"


def test_registering_again_unchanged_is_no_event(team: Team) -> None:
    before = len(team.events)
    team.register("impl_001")
    assert len(team.events) == before


def test_registering_again_changes_what_is_said(team: Team) -> None:
    waiting = team.send("impl_002", "impl_001").signal_id
    assert team.register("impl_001", "AdHoc", supported=("1.0.0",), capabilities=("STATE_SYNC",)) == "1.0.0"
    agent = team.exchange.state.agents["impl_001"]
    assert (agent.agent_type, agent.version, agent.capabilities) == ("AdHoc", "1.0.0", ("STATE_SYNC",))
    assert team.message(waiting).state == "queued"


@pytest.mark.parametrize("agent_type", ["Manager", "Implementation", "AdHoc", "Reviewer", "x-1_y"])
def test_a_type_is_any_name(team: Team, agent_type: str) -> None:
    team.register("newcomer", agent_type)
    assert team.exchange.state.agents["newcomer"].agent_type == agent_type


def test_registering_without_a_type_keeps_the_type(team: Team) -> None:
    for name in ("newcomer", "manager_001"):
        team.ask(cmd.RegisterAgent(), name, cmd.Registered)
    agents = team.exchange.state.agents
    assert (agents["newcomer"].agent_type, agents["manager_001"].agent_type) == ("AdHoc", "Manager")


@pytest.mark.parametrize("agent_type", ["", "*", "two words", "9lives", "x" * 65, "Manager\n"])
def test_a_type_that_cannot_be(team: Team, agent_type: str) -> None:
    problem = team.refused(cmd.RegisterAgent(agent_type, ("1.1.0",)), "newcomer")
    assert (problem.code, problem.field) == ("E_VALIDATION_004", "$.type")


@pytest.mark.parametrize("name", ["", "*", "tocsin", "a/b", "..", "x" * 65, "a b", "impl_001\n"])
def test_a_name_that_cannot_be(team: Team, name: str) -> None:
    problem = team.refused(cmd.RegisterAgent("Implementation", ("1.1.0",)), name)
    assert (problem.code, problem.field) == ("E_VALIDATION_004", "$.agentId")


def test_a_project_has_a_limit_of_agents(new_team: NewTeam) -> None:
    team = new_team("limits: {agents_max: 2}")
    team.register("a")
    team.register("b")
    assert team.refused(cmd.RegisterAgent("Implementation", ("1.1.0",)), "c").code == "E_ADMISSION_008"
    assert team.register("a", "Manager") == "1.1.0"


def test_capabilities_have_a_limit(team: Team) -> None:
    command = cmd.RegisterAgent("Implementation", ("1.1.0",), tuple(f"CUSTOM_{n}" for n in range(501)))
    assert team.refused(command, "newcomer").code == "E_ADMISSION_008"


def test_retiring_ends_the_sessions(team: Team) -> None:
    team.attach("impl_001")
    team.ask(cmd.RetireAgent("impl_001", "done"), "impl_001", cmd.Done)
    assert [event.reason for event in team.happened(ev.SessionClosed)] == ["retired"]
    assert not team.exchange.state.sessions
    (retired,) = team.happened(ev.AgentRetired)
    assert (retired.agent, retired.by, retired.reason) == ("impl_001", "impl_001", "done")


def test_a_retired_agent_may_come_back(team: Team) -> None:
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert team.refused(cmd.OpenSession("push"), "impl_001").code == "E_AUTH_007"
    team.register("impl_001")
    assert team.send("impl_002", "impl_001").queued


def test_a_session_that_replaces_another_is_offered_what_that_one_had(team: Team) -> None:
    """One decision, so one commit: nobody sees the agent without a session, or its messages without one."""
    former, other = team.attach("impl_001"), team.attach("impl_002")
    sent = team.send("boss", "impl_001", "StatusUpdate").signal_id
    assert team.message(sent).session == former
    before = len(team.events)
    ready = team.ask(cmd.OpenSession("push", 8, (former, other, "ses_unknown")), "impl_001", cmd.SessionReady)
    kinds = [type(event) for event in team.events[before:]]
    assert kinds == [ev.SessionOpened, ev.MessageRequeued, ev.SessionClosed, ev.MessageOffered]
    (closed,) = team.happened(ev.SessionClosed)
    assert (closed.session, closed.reason) == (former, "replaced")
    message = team.message(sent)
    assert (message.session, message.offers, message.attempts) == (ready.session, 2, 0)
    assert set(team.exchange.state.sessions) == {ready.session, other}, "only its own"


def test_what_is_replaced_leaves_room_for_the_new_session(new_team: NewTeam) -> None:
    team = new_team("limits: {sessions_per_agent_max: 1}")
    team.register("a")
    former = team.attach("a")
    assert team.refused(cmd.OpenSession("push"), "a").code == "E_ADMISSION_008"
    assert team.ask(cmd.OpenSession("push", None, (former,)), "a", cmd.SessionReady).session != former

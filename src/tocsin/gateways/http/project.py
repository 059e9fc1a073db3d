"""The project and the hub themselves: policy, status, health, metrics."""

from typing import Any

import msgspec
import yaml

from tocsin.core import commands as cmd
from tocsin.core.errors import TocsinError
from tocsin.core.policy import Policy, document_of
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.gateways.http import problems
from tocsin.gateways.http.operation import Access, Call, Operation
from tocsin.hub.host import Condition
from tocsin.policies import parse_policy

__all__ = ["OPERATIONS"]


class PolicyView(msgspec.Struct, frozen=True):
    """The policy in force."""

    version: int
    policy: dict[str, Any]


class PolicyBody(msgspec.Struct, frozen=True):
    """What a policy changes of the defaults."""

    policy: dict[str, Any]
    #: Why; kept with the policy.
    reason: str = ""


class CheckView(msgspec.Struct, frozen=True):
    """Whether a policy could be adopted."""

    valid: bool
    problem: problems.ProblemDocument | None = None


class HealthView(msgspec.Struct, frozen=True):
    """How the hub is."""

    #: `serving`, `recovering` or `stopped`.
    condition: str
    #: Why it is not serving.
    reason: str = ""


class StatusView(msgspec.Struct, frozen=True):
    """How the project is."""

    project: str
    condition: str
    policy_version: int
    #: Sequence number of the last event.
    seq: int
    agents: int
    sessions: int
    #: Messages that wait, by priority.
    waiting: dict[str, int]
    #: Messages remembered, by state.
    states: dict[str, int]
    dead_letters: int
    #: What has happened since the hub started, by kind.
    events: dict[str, int]


def _policy(body: PolicyBody) -> Policy:
    return parse_policy(yaml.safe_dump(body.policy))


async def policy(call: Call) -> PolicyView:
    """Show the policy in force."""
    state = call.hub.host.exchange.state
    view = PolicyView(state.policy_version, document_of(state.policy))
    await call.durable()
    return view


async def adopt_policy(call: Call) -> cmd.Reply:
    """Run the project by another policy: the defaults with these changes."""
    return await call.submit(cmd.AdoptPolicy(document_of(_policy(call.body)), call.body.reason))


async def check_policy(call: Call) -> CheckView:
    """Say whether a policy could be adopted, and what is wrong with it."""
    try:
        _policy(call.body)
    except TocsinError as error:
        return CheckView(False, problems.document_of(error.problem))
    return CheckView(True)


async def status(call: Call) -> StatusView:
    """Show how the project is."""
    host = call.hub.host
    state = host.exchange.state
    waiting, states = [0] * len(Priority), dict[str, int]()
    for agent in state.agents.values():
        waiting = [sum(pair) for pair in zip(waiting, agent.mailbox.depths(), strict=True)]
    for message in state.messages.values():
        states[message.state] = states.get(message.state, 0) + 1
    return StatusView(
        project=host.project,
        condition=host.condition,
        policy_version=state.policy_version,
        seq=state.seq,
        agents=len(state.agents),
        sessions=len(state.sessions),
        waiting={liminal_name(Priority(level)): depth for level, depth in enumerate(waiting)},
        states=states,
        dead_letters=len(state.dead),
        events=dict(call.hub.metrics.totals),
    )


async def health(call: Call) -> HealthView:
    """Say that the process answers."""
    return HealthView(call.hub.host.condition)


async def ready(call: Call) -> HealthView:
    """Say whether the hub serves its project."""
    host = call.hub.host
    if host.condition is not Condition.SERVING or call.hub.closing.is_set():
        call.status = 503
    return HealthView(host.condition, host.reason)


async def metrics(call: Call) -> bytes:
    """Expose the metrics in Prometheus's format."""
    return call.hub.metrics.expose(call.hub.host.exchange.state)


OPERATIONS = (
    Operation("GET", "/v1/policy", policy, PolicyView, tag="project"),
    Operation("PUT", "/v1/policy", adopt_policy, cmd.Adopted, body=PolicyBody, tag="project"),
    Operation("POST", "/v1/policy/check", check_policy, CheckView, body=PolicyBody, tag="project"),
    Operation("GET", "/v1/status", status, StatusView, tag="project"),
    Operation("GET", "/health", health, HealthView, access=Access.OPEN, tag="hub"),
    Operation("GET", "/ready", ready, HealthView, access=Access.OPEN, tag="hub", also=(503,)),
    Operation("GET", "/metrics", metrics, bytes, media="text/plain", tag="hub"),
)

"""HTTP operation that returns the present wait-for graph with inherited priorities."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core.errors import refusal
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.core.state import ProjectState
from tocsin.core.waiting.graph import Wait
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.views import moment

__all__ = ["OPERATIONS"]


class WaitsQuery(msgspec.Struct, frozen=True):
    """Limit of the waits to return."""

    #: At most this many waits, the oldest.
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 500


class WaitView(msgspec.Struct, frozen=True):
    """One wait of one agent."""

    waiter: str
    #: `lease`, `request`, `discussion` or `approval`.
    kind: str
    #: Id of what it waits for.
    ref: str
    #: Description of what it waits for: resources, a subject or a question.
    what: str
    since: str | None
    #: The priority of the wait, which the agents in `on` inherit.
    priority: str
    #: Whether any one of `on` can end it.
    any_of: bool
    #: Agents that it waits for.
    on: list[str]
    #: Agents before it in the queue.
    behind: list[str]


class StandingView(msgspec.Struct, frozen=True):
    """An agent of the graph."""

    agent: str
    #: Leases that it holds.
    holds: int
    #: Number of its waits, and of waits for it.
    waits: int
    waited_for: int
    #: The priority inherited from agents that wait for it; null if none.
    inherited: str | None


class WaitsView(msgspec.Struct, frozen=True):
    """The graph."""

    agents: list[StandingView]
    waits: list[WaitView]
    #: Total number of waits.
    total: int


async def waits(call: Call) -> WaitsView:
    """Return the wait-for graph with inherited priorities: for directors and humans."""
    if not call.directs:
        raise refusal("E_AUTH_003", f"{call.caller.agent} may not see the wait-for graph: a director or a human may")
    state = call.hub.host.exchange.state
    known = sorted(state.waits.waits.values(), key=lambda wait: wait.seq)[: call.query.limit]
    names = dict.fromkeys(state.inherited)
    for wait in known:
        names |= dict.fromkeys((wait.waiter, *wait.on, *wait.behind))
    held: dict[str, int] = {}
    for lease in state.leases.leases.values():
        held[lease.holder] = held.get(lease.holder, 0) + 1
    view = WaitsView(
        [_standing(state, name, held) for name in sorted(names)],
        [_wait(state, wait) for wait in known],
        len(state.waits.waits),
    )
    await call.durable()
    return view


def _standing(state: ProjectState, agent: str, held: dict[str, int]) -> StandingView:
    level = state.inherited.get(agent)
    return StandingView(
        agent=agent,
        holds=held.get(agent, 0),
        waits=len(state.waits.by_waiter.get(agent, ())),
        waited_for=len(state.waits.upon.get(agent, ())),
        inherited=None if level is None else liminal_name(Priority(level)),
    )


def _wait(state: ProjectState, wait: Wait) -> WaitView:
    return WaitView(
        waiter=wait.waiter,
        kind=wait.kind,
        ref=wait.ref,
        what=_what(state, wait),
        since=moment(wait.since),
        priority=liminal_name(Priority(wait.level)),
        any_of=wait.any_of,
        on=sorted(wait.on),
        behind=sorted(wait.behind),
    )


def _what(state: ProjectState, wait: Wait) -> str:
    """Describe what a wait is for."""
    if wait.kind == "lease" and (request := state.leases.line.get(wait.ref)) is not None:
        return ", ".join(claim.resource for claim in request.claims)
    if wait.kind == "approval" and (approval := state.approvals.get(wait.ref)) is not None:
        return approval.subject
    if wait.kind == "discussion" and (discussion := state.discussions.get(wait.ref)) is not None:
        return discussion.question
    return wait.ref


OPERATIONS = (Operation("GET", "/v1/waits", waits, WaitsView, query=WaitsQuery, tag="leases"),)

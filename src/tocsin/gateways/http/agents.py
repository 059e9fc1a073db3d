"""Agents: oneself, the others and their presence, and the tokens that an administrator gives out."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.core import commands as cmd
from tocsin.core.agents.presence import presence
from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.core.state import Agent
from tocsin.gateways.http.operation import Access, Call, Operation
from tocsin.gateways.http.views import moment
from tocsin.hub.auth.tokens import Grant, Issued

__all__ = ["OPERATIONS"]


class AgentView(msgspec.Struct, frozen=True):
    """An agent, and whether it is there."""

    agent: str
    #: What it is for routing.
    type: str
    #: What it may do.
    role: str
    #: Protocol version that it is spoken to in.
    version: str
    #: Message types that it takes; empty is any.
    capabilities: list[str]
    #: `available`, `not_available_stale` or `not_available_offline`.
    presence: str
    #: Open sessions by kind.
    sessions: dict[str, int]
    #: How many messages wait for it, by priority.
    waiting: dict[str, int]
    #: Whether it is taken to inflate its priorities.
    gaming: bool
    registered_at: str | None


class MeView(msgspec.Struct, frozen=True):
    """Who the caller is."""

    agent: str
    role: str
    project: str
    #: Whether the token may administer tokens.
    admin: bool
    token_id: str
    token_expires_at: str | None
    #: As which it is registered; null before it is.
    registered: AgentView | None


class RegisterBody(msgspec.Struct, frozen=True):
    """What an agent is and can."""

    #: For routing: `Manager`, `Implementation`, `AdHoc` or any name.
    type: str = "AdHoc"
    #: Protocol versions that it speaks.
    versions: tuple[str, ...] = VERSIONS
    #: Message types that it takes; empty is any.
    capabilities: list[str] = []


class TokenBody(msgspec.Struct, frozen=True):
    """A token to be made."""

    agent: str
    role: Literal["director", "primary", "clone", "human"] = "primary"
    #: Registers the agent as this type at once; null leaves that to the agent.
    type: str | None = "AdHoc"
    #: Whether it may administer tokens.
    admin: bool = False
    #: Seconds until it ends by itself; null is never.
    lifetime_s: Annotated[float, Meta(gt=0, le=3.2e9)] | None = None


class RotateBody(msgspec.Struct, frozen=True):
    """How to replace tokens."""

    #: Seconds for which the old ones stay good.
    overlap_s: Annotated[float, Meta(ge=0, le=3.2e9)] = 0.0
    #: Seconds until the new one ends by itself; null is never. Left out, it lasts as long as the last one was to.
    lifetime_s: Annotated[float, Meta(gt=0, le=3.2e9)] | UnsetType | None = UNSET


class TokenView(msgspec.Struct, frozen=True):
    """A token, without its secret."""

    token_id: str
    agent: str
    role: str
    admin: bool
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None
    live: bool


class IssuedView(msgspec.Struct, frozen=True):
    """A new token; its secret is shown this once."""

    token: str
    grant: TokenView


def _agent_view(call: Call, agent: Agent) -> AgentView:
    kinds = [session.kind for session in agent.sessions.values()]
    return AgentView(
        agent=agent.agent,
        type=agent.agent_type,
        role=agent.role,
        version=agent.version,
        capabilities=list(agent.capabilities),
        presence=presence(agent, call.hub.host.exchange.state.policy, call.hub.now()),
        sessions={kind: kinds.count(kind) for kind in sorted(set(kinds))},
        waiting={liminal_name(Priority(level)): depth for level, depth in enumerate(agent.mailbox.depths())},
        gaming=agent.gaming,
        registered_at=moment(agent.registered_at),
    )


def _token_view(call: Call, grant: Grant) -> TokenView:
    expires_at, revoked_at = moment(grant.expires_at), moment(grant.revoked_at)
    live = grant.is_live(call.hub.now())
    created_at = moment(grant.created_at)
    return TokenView(grant.token_id, grant.agent, grant.role, grant.admin, created_at, expires_at, revoked_at, live)


def _issued_view(call: Call, issued: Issued) -> IssuedView:
    return IssuedView(issued.secret.spell(), _token_view(call, issued.grant))


async def me(call: Call) -> MeView:
    """Say who the caller is."""
    grant, agents = call.grant, call.hub.host.exchange.state.agents
    agent = agents.get(grant.agent)
    registered = None if agent is None else _agent_view(call, agent)
    expires_at = moment(grant.expires_at)
    await call.durable()
    return MeView(grant.agent, grant.role, grant.project, grant.admin, grant.token_id, expires_at, registered)


async def register(call: Call) -> cmd.Reply:
    """Join the project under the token's name and role, or come back with other abilities."""
    body = call.body
    return await call.submit(cmd.RegisterAgent(body.type, body.versions, tuple(body.capabilities)))


async def agents(call: Call) -> list[AgentView]:
    """List the agents and whether they are there."""
    known = call.hub.host.exchange.state.agents
    views = [_agent_view(call, known[name]) for name in sorted(known)]
    await call.durable()
    return views


async def agent(call: Call) -> AgentView:
    """Show one agent."""
    name = call.path["agent"]
    found = call.hub.host.exchange.state.agents.get(name)
    if found is None:
        raise refusal("E_ROUTING_001", f"{name[:64]} is not registered", found=name[:64])
    view = _agent_view(call, found)
    await call.durable()
    return view


async def retire(call: Call) -> cmd.Reply:
    """Remove an agent for good; what waits for it becomes dead letters."""
    return await call.submit(cmd.RetireAgent(call.path["agent"]))


async def tokens(call: Call) -> list[TokenView]:
    """List the tokens, without their secrets."""
    return [_token_view(call, grant) for grant in call.hub.authority.grants()]


async def issue_token(call: Call) -> IssuedView:
    """Make a token for an agent, and register the agent where a type is given."""
    body = call.body
    call.hub.authority.must_allow(body.agent, body.role)
    if body.type is not None:
        command = cmd.RegisterAgent(body.type, VERSIONS)
        reply = await call.hub.host.submit(command, cmd.Caller(body.agent, body.role))
        if isinstance(reply, Problem):
            raise error_for(reply)
    # The token comes last: one that is not handed out is one that nobody holds.
    issued = await call.hub.desk.issue(body.agent, body.role, admin=body.admin, lifetime_s=body.lifetime_s)
    return _issued_view(call, issued)


async def rotate_tokens(call: Call) -> IssuedView:
    """Give an agent a new token in place of all it has."""
    body = call.body
    issued = await call.hub.desk.rotate(call.path["agent"], overlap_s=body.overlap_s, lifetime_s=body.lifetime_s)
    return _issued_view(call, issued)


async def revoke_tokens(call: Call) -> list[TokenView]:
    """Take all tokens of an agent away, at once."""
    return [_token_view(call, grant) for grant in await call.hub.desk.revoke(call.path["agent"])]


_TOKENS = "/v1/admin/tokens"
_ADMIN = Access.ADMIN

OPERATIONS = (
    Operation("GET", "/v1/me", me, MeView, tag="agents"),
    Operation("PUT", "/v1/me", register, cmd.Registered, body=RegisterBody, tag="agents"),
    Operation("GET", "/v1/agents", agents, list[AgentView], tag="agents"),
    Operation("GET", "/v1/agents/{agent}", agent, AgentView, tag="agents"),
    Operation("DELETE", "/v1/agents/{agent}", retire, cmd.Done, tag="agents"),
    Operation("GET", _TOKENS, tokens, list[TokenView], access=_ADMIN, tag="admin"),
    Operation("POST", _TOKENS, issue_token, IssuedView, body=TokenBody, access=_ADMIN, tag="admin"),
    Operation(
        "POST", _TOKENS + "/{agent}/rotate", rotate_tokens, IssuedView, body=RotateBody, access=_ADMIN, tag="admin"
    ),
    Operation("POST", _TOKENS + "/{agent}/revoke", revoke_tokens, list[TokenView], access=_ADMIN, tag="admin"),
)

"""Handlers of the operations on agents and their tokens."""

from tocsin.core import commands as cmd
from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol.timestamps import as_datetime_or_none
from tocsin.hub.auth.tokens import Grant, Issued
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.pages import live_page
from tocsin.hub.operations.records import agent_record, record_of
from tocsin.wire import agents as wire
from tocsin.wire.operation import NamedPage, NamedPageRequest, Request

__all__ = ["HANDLERS"]


async def get_me(call: Call, request: Request) -> wire.Me:
    """Describe the caller."""
    grant, agent = call.grant, call.state.agents.get(call.agent)
    if grant is None:
        raise refusal("E_AUTH_001", "this needs a token")
    registered = None if agent is None else agent_record(call.project, agent)
    await call.durable()
    return wire.Me(
        agent=grant.agent,
        role=grant.role,
        project=grant.project,
        admin=grant.admin,
        token_id=grant.token_id,
        token_expires_at=as_datetime_or_none(grant.expires_at),
        registered=registered,
    )


async def list_agents(call: Call, request: NamedPageRequest) -> NamedPage[wire.AgentRecord]:
    """List agents by name."""
    return await live_page(
        call,
        request,
        call.state.agents.values(),
        lambda agent: (0, agent.agent),
        lambda agent: agent_record(call.project, agent),
    )


async def get_agent(call: Call, request: wire.GetAgent) -> wire.AgentRecord:
    """Describe an agent."""
    found = call.state.agents.get(request.agent)
    if found is None:
        raise refusal("E_ROUTING_001", f"{request.agent} is not registered", found=request.agent)
    record = agent_record(call.project, found)
    await call.durable()
    return record


def _token(call: Call, grant: Grant) -> wire.TokenRecord:
    return record_of(wire.TokenRecord, grant, live=grant.is_live(call.project.now()))


def _issued(call: Call, issued: Issued) -> wire.IssuedToken:
    return wire.IssuedToken(issued.secret.spell(), _token(call, issued.grant))


async def list_tokens(call: Call, request: wire.ListTokens) -> NamedPage[wire.TokenRecord]:
    """List tokens, oldest first."""
    return await live_page(
        call,
        request,
        [
            grant
            for grant in call.hub.authority.grants()
            if request.agent in (None, grant.agent) and _may_list(call, grant)
        ],
        lambda grant: (grant.created_at, grant.token_id),
        lambda grant: _token(call, grant),
    )


def _may_list(call: Call, grant: Grant) -> bool:
    """Tell whether a token is the caller's, or one that it may administer."""
    by = call.grant
    if by is None or by.admin or grant.agent == by.agent:
        return True
    return not grant.admin and grant.role in by.administers


def _must_administer(call: Call, agent: str, *roles: str, admin: bool = False) -> None:
    """Refuse a caller that may not administer the tokens of an agent; the role that it registered with counts, too."""
    registered = call.state.agents.get(agent)
    if registered is not None:
        roles = (*roles, registered.role)
    call.hub.authority.must_administer(call.grant, agent, *roles, admin=admin)


async def issue_token(call: Call, request: wire.IssueToken) -> wire.IssuedToken:
    """Register an agent if a type is given, and issue its token."""
    _must_administer(call, request.agent, request.role, admin=request.admin)
    call.hub.authority.must_allow(request.agent, request.role)
    if request.type is not None:
        command = cmd.RegisterAgent(request.type)
        reply = await call.project.host.submit(command, cmd.Caller(request.agent, request.role))
        if isinstance(reply, Problem):
            raise error_for(reply)
    # The token comes last, so that a failed registration leaves none behind.
    issued = await call.hub.token_administration.issue(
        request.agent,
        request.role,
        admin=request.admin,
        lifetime_s=request.lifetime_s,
        types=_types(request),
        by=call.grant,
    )
    return _issued(call, issued)


def _types(request: wire.IssueToken) -> tuple[str, ...] | None:
    """Return the agent types that a new token grants, the registered one first."""
    if request.type is None:
        return request.types or None
    return tuple(dict.fromkeys((request.type, *(request.types or ()))))


async def rotate_tokens(call: Call, request: wire.RotateTokens) -> wire.IssuedToken:
    """Replace an agent's tokens by a new one."""
    _must_administer(call, request.agent)
    issued = await call.hub.token_administration.rotate(
        request.agent, overlap_s=request.overlap_s, lifetime_s=request.lifetime_s, by=call.grant
    )
    return _issued(call, issued)


async def revoke_tokens(call: Call, request: wire.RevokeTokens) -> list[wire.TokenRecord]:
    """Revoke an agent's tokens."""
    _must_administer(call, request.agent)
    revoked = await call.hub.token_administration.revoke(request.agent, by=call.grant)
    return [_token(call, grant) for grant in revoked]


HANDLERS: dict[str, Handler] = {
    "get_me": get_me,
    "list_agents": list_agents,
    "get_agent": get_agent,
    "list_tokens": list_tokens,
    "issue_token": issue_token,
    "rotate_tokens": rotate_tokens,
    "revoke_tokens": revoke_tokens,
}

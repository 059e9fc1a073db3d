"""Operations on agents and their tokens."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.core import commands as cmd
from tocsin.core.commands.base import AgentName, TypeFilter
from tocsin.core.messages.model import RecipientState
from tocsin.wire.operation import NO_REQUEST, Access, NamedPage, NamedPageRequest, Operation, Request, Where

__all__ = [
    "OPERATIONS",
    "AgentRecord",
    "GetAgent",
    "IssueToken",
    "IssuedToken",
    "ListTokens",
    "Me",
    "RevokeTokens",
    "RotateTokens",
    "TokenRecord",
    "UnreadBytes",
    "WakeRecord",
]

_Agent = Annotated[AgentName, Meta(description="Name of the agent.")]
Lifetime: TypeAlias = Annotated[float, Meta(gt=0, le=3.2e9)]


class WakeRecord(msgspec.Struct, frozen=True):
    """The latest wake of an agent."""

    #: When it was requested.
    requested_at: datetime | None
    #: `under_way`, `woken`, or why it failed: `waker_failed`, `not_attached`, `not_taken`, `moot`, `retired`.
    outcome: str
    #: When it worked or failed; null while it is under way.
    outcome_at: datetime | None
    #: Number of the attempt under way; 0 if there is none.
    attempt: int
    #: Details of a failure.
    detail: str
    #: Whether all attempts failed and the agent has not attached since.
    failed: bool
    #: Requests in the last hour.
    recent: int


class UnreadBytes(msgspec.Struct, frozen=True):
    """Bytes of payloads and metadata of unsettled messages: not yet received, or acknowledged where that is required.

    Messages at Critical and above have a reserve beyond the limits.
    """

    #: Of messages to the agent.
    mailbox_bytes: int = 0
    mailbox_bytes_max: int = 0
    #: Of messages from the agent.
    sender_bytes: int = 0
    sender_bytes_max: int = 0


class AgentRecord(msgspec.Struct, frozen=True):
    """An agent and its presence."""

    agent: str
    #: Type used for routing.
    type: str
    #: Role, which determines what it may do.
    role: str
    #: Protocol version used with it.
    version: str
    #: Message types that it accepts; empty is any.
    capabilities: tuple[str, ...]
    presence: RecipientState
    #: Number of open sessions by kind.
    sessions: dict[str, int]
    #: Number of waiting messages by priority.
    waiting: dict[str, int]
    #: Whether it was found to inflate its priorities.
    gaming: bool
    registered_at: datetime | None
    #: How a message reaches it: `push`, `channel`, `hook` (its next check or call), `waker` or `none`.
    reach: cmd.Reach = "none"
    #: Its latest wake; null if it was never woken.
    wake: WakeRecord | None = None
    unread: UnreadBytes = UnreadBytes()


class Me(msgspec.Struct, frozen=True):
    """The caller's identity."""

    agent: str
    role: str
    project: str
    #: Whether the token may administer tokens.
    admin: bool
    token_id: str
    token_expires_at: datetime | None
    #: The registered agent; null before it registers.
    registered: AgentRecord | None


class GetAgent(Request, frozen=True):
    """Show one agent and its presence."""

    agent: _Agent


class ListTokens(NamedPageRequest, frozen=True, kw_only=True):
    """List tokens that the caller may administer, and its own, without their secrets."""

    agent: Annotated[AgentName | None, Meta(description="Only tokens of this agent.")] = None


class IssueToken(Request, frozen=True):
    """Issue a token for an agent, and register the agent if a type is given.

    A director or a human without an admin token may do it for roles below its own.
    """

    agent: _Agent
    role: Annotated[Literal["director", "primary", "clone", "human"], Meta(description="Role of the agent.")] = (
        "primary"
    )
    type: Annotated[
        TypeFilter | None, Meta(description="Register the agent with this type; null leaves that to the agent.")
    ] = "AdHoc"
    admin: Annotated[bool, Meta(description="Whether the token may administer tokens.")] = False
    types: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_\-]{0,63}$")], ...] | None,
        Meta(description="Agent types that the agent may register as; by default `type`, or any if that is null."),
    ] = None
    lifetime_s: Annotated[Lifetime | None, Meta(description="Seconds until the token expires; null is never.")] = None


class RotateTokens(Request, frozen=True):
    """Issue a new token for an agent that replaces all its tokens."""

    agent: _Agent
    overlap_s: Annotated[float, Meta(ge=0, le=3.2e9, description="Seconds for which the old tokens remain valid.")] = (
        0.0
    )
    lifetime_s: Annotated[
        Lifetime | UnsetType | None,
        Meta(description="Seconds until the new token expires; null is never; by default as long as the last one."),
    ] = UNSET


class RevokeTokens(Request, frozen=True):
    """Revoke all tokens of an agent."""

    agent: _Agent


class TokenRecord(msgspec.Struct, frozen=True):
    """A token without its secret."""

    token_id: str
    agent: str
    role: str
    admin: bool
    created_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    live: bool
    #: Agent types that the agent may register as; null for any.
    types: tuple[str, ...] | None = None


class IssuedToken(msgspec.Struct, frozen=True):
    """A new token; its secret is shown only once."""

    token: str
    grant: TokenRecord


OPERATIONS = (
    Operation(
        name="get_me",
        summary="Show the caller's identity.",
        request=NO_REQUEST,
        reply=Me,
        http="GET /v1/me",
        tag="agents",
        where=Where.HUB,
        tool="Shows your name, role, project and type.",
    ),
    Operation(
        name="register_agent",
        request=cmd.RegisterAgent,
        reply=cmd.Registered,
        http="PUT /v1/me",
        tag="agents",
        tool="Call it once, first.",
        idempotent=True,
    ),
    Operation(
        name="list_agents",
        summary="List agents and their presence, by name.",
        request=NamedPageRequest,
        reply=NamedPage[AgentRecord],
        http="GET /v1/agents",
        tag="agents",
        tool_name="list_team",
        tool="An agent that is not available reads its messages when it is back.",
    ),
    Operation(
        name="get_agent",
        request=GetAgent,
        reply=AgentRecord,
        http="GET /v1/agents/{agent}",
        tag="agents",
        tool="Use it to see whether an agent is available before you rely on it.",
    ),
    Operation(
        name="retire_agent",
        request=cmd.RetireAgent,
        reply=cmd.Done,
        http="DELETE /v1/agents/{agent}",
        tag="agents",
        destructive=True,
    ),
    Operation(
        name="list_tokens",
        request=ListTokens,
        reply=NamedPage[TokenRecord],
        http="GET /v1/admin/tokens",
        tag="admin",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="issue_token",
        request=IssueToken,
        reply=IssuedToken,
        kind="command",
        http="POST /v1/admin/tokens",
        tag="admin",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="rotate_tokens",
        request=RotateTokens,
        reply=IssuedToken,
        kind="command",
        http="POST /v1/admin/tokens/{agent}/rotate",
        tag="admin",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="revoke_tokens",
        request=RevokeTokens,
        reply=list[TokenRecord],
        kind="command",
        http="POST /v1/admin/tokens/{agent}/revoke",
        tag="admin",
        access=Access.OVERSEER,
        where=Where.HUB,
        destructive=True,
    ),
)

"""Commands that register agents and open, keep and close sessions, and their replies."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import AgentName, CommandBase, Name, TypeFilter
from tocsin.core.protocol.envelope import VERSIONS

__all__ = [
    "CloseSession",
    "GrantCredit",
    "Heartbeat",
    "OpenSession",
    "RegisterAgent",
    "Registered",
    "RetireAgent",
    "SessionKind",
    "SessionReady",
]

#: How messages reach a session: pushed over a connection, or fetched with the agent's next call; a channel only
#: announces that they wait.
SessionKind: TypeAlias = Literal["push", "piggyback", "daemon", "channel"]
Window: TypeAlias = Annotated[int, Meta(ge=0)]


class RegisterAgent(CommandBase, frozen=True):
    """Register the calling agent in the project, or update its type and capabilities."""

    type: Annotated[
        TypeFilter | None,
        Meta(
            description="Type used for routing: Manager, Implementation, AdHoc or any name. "
            "By default the agent keeps its type; a new agent is AdHoc."
        ),
    ] = None
    versions: Annotated[
        tuple[str, ...], Meta(max_length=10_000, description="Protocol versions that the agent supports.")
    ] = VERSIONS
    capabilities: Annotated[
        tuple[TypeFilter, ...],
        Meta(max_length=10_000, description="Message types that the agent accepts; empty accepts any."),
    ] = ()


class RetireAgent(CommandBase, frozen=True):
    """Remove an agent from the project; messages that wait for it become dead letters."""

    agent: Annotated[AgentName, Meta(description="The agent to remove.")]
    reason: Annotated[str, Meta(description="Reason, recorded with the removal.")] = ""


class OpenSession(CommandBase, frozen=True):
    """Open a session for the calling agent."""

    kind: SessionKind
    #: Offers without receipt at a time, 0 to start paused; the policy's default if absent.
    window: Window | None = None
    #: Sessions of the agent that the new one replaces, because their connections are gone.
    replaces: tuple[Name, ...] = ()


class Heartbeat(CommandBase, frozen=True):
    """Keep a session fresh."""

    session: Name


class GrantCredit(CommandBase, frozen=True):
    """Change how many offers without receipt a session accepts at a time; 0 pauses it."""

    session: Name
    window: Window


class CloseSession(CommandBase, frozen=True):
    """Close a session; offers without receipt return to the queue."""

    session: Name


class Registered(msgspec.Struct, frozen=True):
    """A registered agent and its negotiated protocol version."""

    agent: str
    #: Protocol version used with this agent.
    version: str


class SessionReady(msgspec.Struct, frozen=True):
    """An open session."""

    session: str
    window: int

"""Joining, attaching and leaving, and what comes back."""

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = [
    "CloseSession",
    "GrantCredit",
    "Heartbeat",
    "OpenSession",
    "RegisterAgent",
    "Registered",
    "RetireAgent",
    "SessionReady",
]


class RegisterAgent(CommandBase, frozen=True):
    """Join the project, or come back with other abilities."""

    agent_type: str
    #: Protocol versions that the agent speaks.
    supported: tuple[str, ...]
    #: Message types that it takes; empty is any.
    capabilities: tuple[str, ...] = ()


class RetireAgent(CommandBase, frozen=True):
    """Remove an agent for good; what waits for it becomes dead letters."""

    agent: str
    reason: str = ""


class OpenSession(CommandBase, frozen=True):
    """Attach."""

    #: `push`, `piggyback` or `daemon`.
    kind: str
    #: Offers without receipt to take at a time, 0 to begin paused; the policy's default where it is not said.
    window: int | None = None


class Heartbeat(CommandBase, frozen=True):
    """Show that a session lives."""

    session: str


class GrantCredit(CommandBase, frozen=True):
    """Change how many offers without receipt a session takes at a time; 0 pauses it."""

    session: str
    window: int


class CloseSession(CommandBase, frozen=True):
    """Detach; what was offered and not confirmed goes back to the queue."""

    session: str


class Registered(msgspec.Struct, frozen=True):
    """The agent is registered."""

    agent: str
    #: Protocol version that this agent is spoken to in.
    version: str


class SessionReady(msgspec.Struct, frozen=True):
    """The session is open."""

    session: str
    window: int

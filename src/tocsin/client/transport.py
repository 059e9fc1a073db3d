"""The interface between the client and a transport: operations go in, items come out.

A transport dials; a link is one connection, valid until it is lost. Both directions carry batches of typed values, so
nothing above this interface depends on a socket. `tocsin.client.websocket` connects to a hub, `tocsin.hub.inprocess` to
a project in the same process.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from tocsin.core.errors import Problem
from tocsin.wire.socket import Answer, Deliver, Leave, Operation

__all__ = ["Bus", "Item", "Link", "LinkLost", "Refused", "Transport"]


class Refused(msgspec.Struct, frozen=True):
    """A refused operation."""

    #: Id of the operation; null if the hub could not read it.
    re: int | None
    #: Why.
    problem: Problem


#: The reply of an answer is JSON (`msgspec.Raw`) from a socket, and the value itself from a bus in this process.
Item: TypeAlias = Answer | Refused | Deliver | Leave


class LinkLost(Exception):
    """The link was lost, or could not be opened."""

    def __init__(self, reason: str, *, refused: Problem | None = None, resumable: bool = True) -> None:
        super().__init__(reason)
        #: Why the connection was refused, if it was.
        self.refused = refused
        #: Whether the session may still exist.
        self.resumable = resumable


class Link(Protocol):
    """One connection."""

    async def send(self, operations: Sequence[Operation]) -> None:
        """Send operations together, or raise `LinkLost`."""

    async def receive(self) -> Sequence[Item]:
        """Wait for items, or raise `LinkLost`; cancelling it loses nothing."""

    async def close(self) -> None:
        """Close the link, in any state."""


class Transport(Protocol):
    """A way to connect."""

    async def dial(self) -> Link:
        """Open a link, or raise `LinkLost`, or the hub's refusal."""


class Bus(Protocol):
    """A project in the same process."""

    def transport(self, agent: str, role: str) -> Transport:
        """Return the transport that connects an agent to it."""

"""How a client is attached: what every transport must do, and what comes out of it.

A transport dials; a link is one attachment, good until it is lost. Operations go in and items come out, both in
batches, and both typed: nothing above this line knows whether there is a socket. `tocsin.client.websocket` attaches to
a hub, `tocsin.hub.embedded` to a project in the same process.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from tocsin.client.operations import Operation
from tocsin.core.errors import Problem

__all__ = ["Answer", "Bus", "Delivery", "Farewell", "Item", "Link", "LinkLost", "Transport"]


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What became of one operation."""

    #: The operation's id; none where the hub could not read it.
    re: int | None
    #: A reply, or JSON to be read as one.
    ok: object = None
    problem: Problem | None = None


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message, pushed."""

    signal_id: str
    #: Times that it was offered.
    offer: int
    #: The envelope, as JSON.
    envelope: msgspec.Raw
    #: messageId of the work that it interrupts, where it does.
    interrupts: str | None = None


class Farewell(msgspec.Struct, frozen=True):
    """The hub is about to end the link."""

    reason: str
    #: Whether the session can be resumed.
    resume: bool


Item: TypeAlias = Answer | Delivery | Farewell


class LinkLost(Exception):
    """The link is gone, or could not be had."""

    def __init__(self, reason: str, *, refused: Problem | None = None, resumable: bool = True) -> None:
        super().__init__(reason)
        #: Why it will not come back, where that is known.
        self.refused = refused
        #: Whether the session may still be there.
        self.resumable = resumable


class Link(Protocol):
    """One attachment."""

    async def send(self, operations: Sequence[Operation]) -> None:
        """Put operations on their way together, or raise `LinkLost`."""

    async def receive(self) -> Sequence[Item]:
        """Wait for what comes, or raise `LinkLost`; cancelling it loses nothing."""

    async def close(self) -> None:
        """Let go, whatever state it is in."""


class Transport(Protocol):
    """A way to be attached."""

    async def dial(self) -> Link:
        """Attach, or raise `LinkLost`, or the refusal of the hub."""


class Bus(Protocol):
    """A project in the same process."""

    def transport(self, agent: str, role: str) -> Transport:
        """Return the way to be attached to it as an agent."""

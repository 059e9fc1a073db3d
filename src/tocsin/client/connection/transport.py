"""The interface between the client and a transport: operations go in, items come out.

A transport dials; a link is one connection, valid until it is lost. Both directions carry batches of typed values, so
nothing above this interface depends on a socket. `websocket` connects to a hub, `tocsin.hub.inprocess` to a project in
the same process.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from tocsin.core.commands import Delivery, Reply
from tocsin.core.errors import Problem
from tocsin.core.protocol.envelope import Envelope
from tocsin.wire.drafts import Written
from tocsin.wire.socket import Answer, Deliver, Leave, Operation

__all__ = ["Bus", "Item", "Link", "LinkLost", "LocalLink", "Refused", "Transport"]


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


@runtime_checkable
class LocalLink(Protocol):
    """The short way of a link to a project in the same process: messages and receipts pass as they are."""

    @property
    def message_bytes_max(self) -> int:
        """Return the largest envelope that the project accepts, bytes."""

    def send_message(self, message: Envelope | Written) -> "asyncio.Future[Reply]":
        """Send a message; the future holds the reply, or the problem, once it is durable."""

    def send_messages(self, messages: "Sequence[Envelope | Written]") -> "asyncio.Future[list[Reply]]":
        """Send messages together; the future holds the replies, or problems, once all are durable."""

    def confirm(self, signal_id: str) -> None:
        """Confirm the receipt of a message, before any later call."""

    def credit(self, window: int) -> "asyncio.Future[Reply]":
        """Change the number of messages that may be on their way, before any later call."""

    def deliver_to(self, sink: "Callable[[Delivery], None]") -> None:
        """Call a function with every message from now on, beginning with those that were not received yet."""


class Transport(Protocol):
    """A way to connect."""

    async def dial(self) -> Link:
        """Open a link, or raise `LinkLost`, or the hub's refusal."""


class Bus(Protocol):
    """A project in the same process."""

    def transport(self, agent: str, role: str) -> Transport:
        """Return the transport that connects an agent to it."""

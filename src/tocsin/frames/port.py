"""The writing end of a channel, as the bus sees it.

A publish goes through its ports in order of priority. The usual case must cost next to nothing, so a port exposes three
plain fields to the publish loop: while fewer than `calm` frames wait in `frames`, the bus appends there and calls
`wake` if someone is in `readers`. Every other case (a channel that fills, closes, is full, has publishers waiting, or
is a foreign queue) sets `calm` below zero or lies above it, and uses the methods.
"""

import abc
import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from tocsin.frames.waiting import Waiter

if TYPE_CHECKING:
    from tocsin.frames.subscription import Subscription

F = TypeVar("F")

#: Value of `calm` that no number of waiting frames is below: the bus must call the port's methods.
ASK = -1


class Ticket(abc.ABC):
    """A frame whose publisher waits for room."""

    __slots__ = ()

    @abc.abstractmethod
    def wait(self, timeout_s: float) -> bool:
        """Block the thread until the frame is in the channel; return False if it was given up."""

    @abc.abstractmethod
    async def wait_async(self, timeout_s: float) -> bool:
        """Wait on the running loop until the frame is in the channel; return False if it was given up."""


class Port(abc.ABC, Generic[F]):
    """Writing end of one subscriber's channel."""

    __slots__ = ("calm", "calm_mark", "capacity", "frames", "readers", "subscription")

    def __init__(self, capacity: int) -> None:
        #: Maximum number of waiting frames.
        self.capacity = capacity
        #: Waiting frames; empty for a foreign queue.
        self.frames: deque[F] = deque()
        #: Readers that sleep because no frame waits.
        self.readers: deque[Waiter] = deque()
        #: Number of waiting frames below which the bus appends without calling a method.
        self.calm = ASK
        #: Value of `calm` in normal operation: the fill at which others may have to be shed.
        self.calm_mark = capacity
        #: Subscription that it serves; None if there is none.
        self.subscription: Subscription[F] | None = None

    @property
    @abc.abstractmethod
    def closed(self) -> bool:
        """Return whether the channel accepts no more frames."""

    @property
    def failure(self) -> str:
        """Return the reason why no frame can be put."""
        return "its channel is closed"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that reads here, if known."""
        return None

    @abc.abstractmethod
    def depth(self) -> int:
        """Return the number of waiting frames."""

    @abc.abstractmethod
    def offer(self, frame: F) -> bool:
        """Put a frame if there is room; return whether it was put."""

    @abc.abstractmethod
    def evict(self) -> bool:
        """Drop the oldest waiting frame; return False if there is none."""

    @abc.abstractmethod
    def park(self, frame: F, waiter: Waiter) -> Ticket:
        """Park a frame until there is room, behind those parked already."""

    @abc.abstractmethod
    def attach(self, subscription: "Subscription[F]", calm_mark: int) -> None:
        """Begin to serve a subscription."""

    @abc.abstractmethod
    def detach(self) -> int:
        """Stop serving the subscription; give up parked frames and return their number."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the channel for its reader."""

    def settle(self) -> None:
        """Recompute whether the bus must ask."""

    def wake(self) -> None:
        """Wake one sleeping reader; a foreign queue does that by itself."""

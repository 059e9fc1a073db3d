"""The writing end of a channel, as the bus sees it.

A publish goes through its ports in order of priority. The usual case must cost next to nothing, so a port shows three
plain fields to the publish loop: while fewer than `calm` frames wait in `frames`, the bus appends there and calls
`wake` if someone is in `readers`. Everything else (a channel that fills, closes, is full, has publishers waiting, or
is not the bus's own kind) sets `calm` below zero or lies above it, and goes through the methods.
"""

import abc
import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from tocsin.frames.waiting import Waiter

if TYPE_CHECKING:
    from tocsin.frames.subscription import Subscription

F = TypeVar("F")

#: A mark that no number of waiting frames lies below: the port must be asked.
ASK = -1


class Ticket(abc.ABC):
    """A frame whose publisher waits for room."""

    __slots__ = ()

    @abc.abstractmethod
    def wait(self, timeout_s: float) -> bool:
        """Block the thread until the frame is in; on False it is not, and will not be."""

    @abc.abstractmethod
    async def wait_async(self, timeout_s: float) -> bool:
        """Wait on the running loop until the frame is in; on False it is not, and will not be."""


class Port(abc.ABC, Generic[F]):
    """Where the bus puts one subscriber's frames."""

    __slots__ = ("calm", "calm_mark", "capacity", "frames", "readers", "subscription")

    def __init__(self, capacity: int) -> None:
        #: Most frames that may wait.
        self.capacity = capacity
        #: The waiting frames; empty for a foreign queue.
        self.frames: deque[F] = deque()
        #: Readers asleep because nothing waits.
        self.readers: deque[Waiter] = deque()
        #: Below this many waiting frames the bus appends without asking.
        self.calm = ASK
        #: What `calm` is in quiet times: the fill at which someone may have to be shed.
        self.calm_mark = capacity
        #: Whose port it is; None when it is not subscribed.
        self.subscription: Subscription[F] | None = None

    @property
    @abc.abstractmethod
    def closed(self) -> bool:
        """True when no frame can be put any more."""

    @property
    def failure(self) -> str:
        """Why no frame can be put any more."""
        return "its channel is closed"

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that reads here, as far as known."""
        return None

    @abc.abstractmethod
    def depth(self) -> int:
        """Count the waiting frames."""

    @abc.abstractmethod
    def offer(self, frame: F) -> bool:
        """Put a frame if there is room now."""

    @abc.abstractmethod
    def evict(self) -> bool:
        """Drop the oldest waiting frame; say False when none waits."""

    @abc.abstractmethod
    def park(self, frame: F, waiter: Waiter) -> Ticket:
        """Let a frame wait for room, behind those that wait already."""

    @abc.abstractmethod
    def attach(self, subscription: "Subscription[F]", calm_mark: int) -> None:
        """Begin to serve a subscription."""

    @abc.abstractmethod
    def detach(self) -> int:
        """End to serve it; frames whose publishers still wait are given up, and their number returned."""

    @abc.abstractmethod
    def close(self) -> None:
        """Tell the reader that no frame will come any more."""

    def settle(self) -> None:
        """Find out anew whether the bus must ask."""

    def wake(self) -> None:
        """Wake one sleeping reader; a foreign queue does that by itself."""

"""The bus's own bounded channel, for threads and for event loops.

Theory of operation. The waiting frames are a deque, whose append and popleft are atomic. The bus appends (one publish
at a time, under its own lock) and readers pop; neither takes the channel's lock for that. The lock is for the two rare
cases:

- *A reader finds nothing.* It adds itself to `readers`, checks once more, and sleeps. The bus appends first and checks
  `readers` afterwards. Whatever the order of these four steps, one of the two sees the other, so no wake-up is lost.
- *A publisher finds no room.* Its frame is parked in a queue. A reader pops first and checks that queue afterwards,
  and moves parked frames into the channel itself; the publisher, likewise, checks for room once more after parking.
  While anything is parked the bus must ask before it puts (`calm` is below zero), so a later frame never overtakes a
  parked one.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic

from tocsin.frames.errors import ChannelClosedError, ChannelEmptyError
from tocsin.frames.port import ASK, F, Port, Ticket
from tocsin.frames.waiting import LoopWaiter, ThreadWaiter, Waiter, moment_after, time_left

if TYPE_CHECKING:
    from tocsin.frames.subscription import Subscription

_NOTHING: Any = object()


class Channel(Port[F]):
    """A bounded queue of frames for one subscriber; any number of its threads and tasks may read it."""

    __slots__ = ("_closed", "_lock", "_loop", "_parked")

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a channel must hold at least 1 frame")
        super().__init__(capacity)
        self._lock = threading.RLock()
        self._parked: deque[_ChannelTicket[F]] = deque()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self.frames)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[F]:
        try:
            while True:
                yield self.get()
        except ChannelClosedError:
            return

    async def __aiter__(self) -> AsyncIterator[F]:
        try:
            while True:
                yield await self.get_async()
        except ChannelClosedError:
            return

    def get_nowait(self) -> F:
        """Return the oldest frame, or raise ChannelEmptyError."""
        frame: F = self._take()
        if frame is _NOTHING:
            raise ChannelEmptyError
        return frame

    def get(self, timeout_s: float | None = None) -> F:
        """Return the oldest frame; block until there is one, or raise ChannelEmptyError after the timeout."""
        until = moment_after(timeout_s)
        while True:
            frame: F = self._take()
            if frame is not _NOTHING:
                return frame
            waiter = ThreadWaiter()
            if self._fall_asleep(waiter) and not waiter.wait(time_left(until)):
                self._rise(waiter)
                return self.get_nowait()

    async def get_async(self) -> F:
        """Return the oldest frame; wait on the running loop until there is one."""
        self._loop = asyncio.get_running_loop()
        while True:
            frame: F = self._take()
            if frame is not _NOTHING:
                return frame
            waiter = LoopWaiter()
            if self._fall_asleep(waiter):
                try:
                    await waiter.wait()
                except asyncio.CancelledError:
                    if not self._rise(waiter) and self.frames:
                        self.wake()  # this reader was woken but cancelled: wake another one
                    raise

    def close(self) -> None:
        """Accept no more frames; readers get what is left, then ChannelClosedError."""
        with self._lock:
            self._closed = True
            self._give_up_parked()
            while self.readers:
                self.readers.popleft().wake()

    @property
    def closed(self) -> bool:
        """Return whether the channel accepts no more frames."""
        return self._closed

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that read here last."""
        return self._loop

    def depth(self) -> int:
        """Return the number of waiting frames."""
        return len(self.frames)

    def wake(self) -> None:
        """Wake one sleeping reader."""
        with self._lock:
            while self.readers and not self.readers.popleft().wake():
                pass

    def offer(self, frame: F) -> bool:
        """Put a frame if there is room and no other frame is parked; return whether it was put."""
        with self._lock:
            if self._closed or self._parked or len(self.frames) >= self.capacity:
                return False
            self.frames.append(frame)
        if self.readers:
            self.wake()
        return True

    def evict(self) -> bool:
        """Drop the oldest waiting frame; return False if there is none."""
        try:
            self.frames.popleft()
        except IndexError:
            return False
        if self._parked:
            self._admit()
        return True

    def park(self, frame: F, waiter: Waiter) -> Ticket:
        """Park a frame until there is room, behind those parked already."""
        ticket = _ChannelTicket(self, frame, waiter)
        with self._lock:
            if self._closed:
                waiter.wake()
            else:
                self.calm = ASK
                self._parked.append(ticket)
                self._admit()
        return ticket

    def attach(self, subscription: "Subscription[F]", calm_mark: int) -> None:
        """Begin to serve a subscription."""
        with self._lock:
            self.subscription = subscription
            self.calm_mark = calm_mark
            self._settle_calm()

    def detach(self) -> int:
        """Stop serving the subscription; give up parked frames and return their number."""
        with self._lock:
            self.subscription = None
            return self._give_up_parked()

    def settle(self) -> None:
        """Recompute whether the bus must ask: while frames are parked or refused, or the channel is closed."""
        with self._lock:
            self._settle_calm()

    def _take(self) -> Any:
        """Return the oldest frame, or the marker for none."""
        try:
            frame = self.frames.popleft()
        except IndexError:
            if self._closed and not self.frames:
                raise ChannelClosedError from None
            return _NOTHING
        if self._parked:
            self._admit()
        return frame

    def _admit(self) -> None:
        """Move parked frames into the channel while there is room."""
        with self._lock:
            while self._parked and len(self.frames) < self.capacity:
                ticket = self._parked.popleft()
                ticket.admitted = True
                self.frames.append(ticket.frame)
                ticket.waiter.wake()
            self._settle_calm()
        if self.readers and self.frames:
            self.wake()

    def _abandon(self, ticket: "_ChannelTicket[F]") -> bool:
        """Remove a parked frame; return False if it is in the channel already."""
        with self._lock:
            if ticket in self._parked:
                self._parked.remove(ticket)
                self._settle_calm()
            return not ticket.admitted

    def _give_up_parked(self) -> int:
        """Give up all parked frames and wake their publishers."""
        given_up = len(self._parked)
        while self._parked:
            self._parked.popleft().waiter.wake()
        self._settle_calm()
        return given_up

    def _settle_calm(self) -> None:
        subscription = self.subscription
        taking = subscription is not None and subscription.refused_since is None
        self.calm = self.calm_mark if taking and not self._closed and not self._parked else ASK

    def _fall_asleep(self, waiter: Waiter) -> bool:
        """Add a reader to the sleeping ones; return False if there is something to read after all."""
        with self._lock:
            self.readers.append(waiter)
            if not self.frames and not self._closed:
                return True
            self._rise(waiter)
            return False

    def _rise(self, waiter: Waiter) -> bool:
        """Remove a sleeping reader; return False if it was woken already."""
        with self._lock:
            if waiter not in self.readers:
                return False
            self.readers.remove(waiter)
            return True


class _ChannelTicket(Ticket, Generic[F]):
    """A frame parked at a channel."""

    __slots__ = ("_channel", "admitted", "frame", "waiter")

    def __init__(self, channel: Channel[F], frame: F, waiter: Waiter) -> None:
        self._channel = channel
        self.frame = frame
        self.waiter = waiter
        self.admitted = False

    def wait(self, timeout_s: float) -> bool:
        if isinstance(self.waiter, ThreadWaiter):
            self.waiter.wait(timeout_s)
        return not self._channel._abandon(self)

    async def wait_async(self, timeout_s: float) -> bool:
        try:
            if isinstance(self.waiter, LoopWaiter):
                await self.waiter.wait(timeout_s)
        finally:
            given_up = self._channel._abandon(self)
        return not given_up

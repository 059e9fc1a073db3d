"""Ports for channels that the caller passes in: any object with the queue protocol.

The protocol is `put_nowait(frame)`, which raises `queue.Full` or `asyncio.QueueFull` when there is no room, and
`qsize()`; the bound is `maxsize`, or given by `subscribe(..., capacity=...)`. `put(frame, True, timeout_s)` is needed
to wait for room, `get_nowait()` to drop the oldest. `queue.Queue`, `asyncio.Queue`, `multiprocessing.Queue`, manager
queues and the shared-memory `RingChannel` have all of it.

A queue that raises anything else is broken: it is treated as closed from then on, and other subscribers are not
affected.
"""

import asyncio
import queue
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tocsin.frames.port import ASK, F, Port, Ticket
from tocsin.frames.waiting import Waiter, running_loop

if TYPE_CHECKING:
    from tocsin.frames.subscription import Subscription

_FULL = (queue.Full, asyncio.QueueFull)
_BOUNDS = ("maxsize", "_maxsize")
_ENDS = ("closed", "_closed", "is_shutdown", "_is_shutdown")

FIn = TypeVar("FIn", contravariant=True)


class QueueLike(Protocol[FIn]):
    """Methods that a passed channel must have."""

    def put_nowait(self, item: FIn, /) -> None:
        """Put a frame, or raise Full."""

    def qsize(self) -> int:
        """Return the number of waiting frames."""


def bound_of(brought: object) -> int | None:
    """Return the capacity of a queue, as far as it is known; 0 means unbounded."""
    for name in _BOUNDS:
        bound = getattr(brought, name, None)
        if isinstance(bound, int):
            return max(bound, 0)
    return None


def is_closed(brought: object) -> bool:
    """Return whether a queue reports that it is closed."""
    return any(getattr(brought, name, False) is True for name in _ENDS)


class QueuePort(Port[F]):
    """Port of a queue whose methods may be called from any thread."""

    __slots__ = ("_broken", "queue")

    def __init__(self, brought: Any, capacity: int) -> None:
        super().__init__(capacity)
        self.queue = brought
        self._broken: Exception | None = None

    @property
    def closed(self) -> bool:
        """Return whether the queue is closed or broken."""
        return self._broken is not None or is_closed(self.queue)

    @property
    def failure(self) -> str:
        """Return the reason why no frame can be put."""
        return super().failure if self._broken is None else f"its channel raised {self._broken!r}"

    def depth(self) -> int:
        """Return the number of waiting frames; 0 on platforms that cannot count, where only a full queue is noticed."""
        try:
            return int(self.queue.qsize())
        except NotImplementedError:
            return 0
        except Exception as error:
            return self._break(error)

    def offer(self, frame: F) -> bool:
        """Put a frame if there is room; return whether it was put."""
        try:
            self.queue.put_nowait(frame)
        except _FULL:
            return False
        except Exception as error:
            return bool(self._break(error))
        return True

    def evict(self) -> bool:
        """Drop the oldest waiting frame; return False if there is none."""
        try:
            self.queue.get_nowait()
        except (queue.Empty, asyncio.QueueEmpty):
            return False
        except Exception as error:
            return bool(self._break(error))
        return True

    def park(self, frame: F, waiter: Waiter) -> Ticket:
        """Let the queue's own `put` wait; there is no order among publishers."""
        return _QueueTicket(self, frame)

    def attach(self, subscription: "Subscription[F]", calm_mark: int) -> None:
        """Begin to serve a subscription."""
        self.subscription = subscription
        self.calm_mark = calm_mark
        self.calm = ASK

    def detach(self) -> int:
        """Stop serving the subscription."""
        self.subscription = None
        return 0

    def close(self) -> None:
        """Do nothing: the queue belongs to the caller."""

    def put(self, frame: F, timeout_s: float) -> bool:
        """Wait for room in this thread."""
        try:
            self.queue.put(frame, True, timeout_s)
        except _FULL:
            return False
        except Exception as error:
            return bool(self._break(error))
        return True

    async def put_async(self, frame: F, timeout_s: float) -> bool:
        """Wait for room without blocking the loop."""
        return await asyncio.to_thread(self.put, frame, timeout_s)

    def _break(self, error: Exception) -> int:
        self._broken = error
        return 0


class LoopQueuePort(QueuePort[F]):
    """Port of an `asyncio.Queue`, which only its own loop may touch.

    A frame published in another thread is passed to the loop, and counts as waiting from then on. The oldest frame can
    be dropped only on the loop; from another thread the newest is dropped.
    """

    __slots__ = ("_handed", "_loop")

    def __init__(self, brought: Any, capacity: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(brought, capacity)
        self._loop = loop
        self._handed: deque[F] = deque()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop that the queue belongs to."""
        return self._loop

    def depth(self) -> int:
        """Return the number of waiting frames, including those on their way to the loop."""
        return super().depth() + len(self._handed)

    def offer(self, frame: F) -> bool:
        """Put a frame if there is room; return whether it was put."""
        if running_loop() is self._loop:
            self._put_handed()
            return not self._handed and super().offer(frame)
        if self.depth() >= self.capacity:
            return False
        self._handed.append(frame)
        try:
            self._loop.call_soon_threadsafe(self._put_handed)
        except RuntimeError as error:
            return bool(self._break(error))
        return True

    def evict(self) -> bool:
        """Drop the oldest waiting frame; only possible on the loop."""
        return running_loop() is self._loop and super().evict()

    def put(self, frame: F, timeout_s: float) -> bool:
        """Wait for room in this thread, which is not the loop's."""
        if running_loop() is self._loop:
            return False
        putting = self.queue.put(frame)
        try:
            future = asyncio.run_coroutine_threadsafe(putting, self._loop)
        except RuntimeError as error:
            putting.close()
            return bool(self._break(error))
        try:
            future.result(timeout_s)
        except TimeoutError:
            return not future.cancel()
        except Exception as error:
            return bool(self._break(error))
        return True

    async def put_async(self, frame: F, timeout_s: float) -> bool:
        """Wait for room without blocking any loop."""
        if asyncio.get_running_loop() is not self._loop:
            return await super().put_async(frame, timeout_s)
        try:
            await asyncio.wait_for(self.queue.put(frame), timeout_s)
        except TimeoutError:
            return False
        return True

    def _put_handed(self) -> None:
        while self._handed and QueuePort.offer(self, self._handed[0]):
            self._handed.popleft()


class _QueueTicket(Ticket, Generic[F]):
    """A frame that waits in a queue's own `put`."""

    __slots__ = ("_frame", "_port")

    def __init__(self, port: QueuePort[F], frame: F) -> None:
        self._port = port
        self._frame = frame

    def wait(self, timeout_s: float) -> bool:
        return self._port.put(self._frame, timeout_s)

    async def wait_async(self, timeout_s: float) -> bool:
        return await self._port.put_async(self._frame, timeout_s)

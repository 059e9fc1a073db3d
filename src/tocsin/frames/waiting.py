"""Sleeping and waking, in a thread or on an event loop.

A waiter is used once. `wake` may be called from any thread and never blocks; it returns whether the waiter still
sleeps.
"""

import asyncio
import threading
import time
from typing import Protocol


class Waiter(Protocol):
    """A sleeping reader or publisher."""

    def wake(self) -> bool:
        """Wake it; return False if it no longer waits."""


class ThreadWaiter:
    """A thread that sleeps on a lock."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def wake(self) -> bool:
        """Wake the thread."""
        self._gate.release()
        return True

    def wait(self, timeout_s: float | None) -> bool:
        """Sleep until woken; return False after the timeout."""
        if timeout_s is None:
            return self._gate.acquire()
        return self._gate.acquire(timeout=timeout_s) if timeout_s > 0 else self._gate.acquire(blocking=False)


class LoopWaiter:
    """A task that sleeps on a future of the running loop."""

    __slots__ = ("_future", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> bool:
        """Wake the task, from any thread."""
        if running_loop() is self._loop:
            self._settle()
            return True
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:  # the loop is closed, and its tasks with it
            return False
        return True

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Sleep until woken; return False after the timeout."""
        if timeout_s is None:
            await self._future
            return True
        if timeout_s > 0:
            await asyncio.wait((self._future,), timeout=timeout_s)
        return self._future.done()

    def _settle(self) -> None:
        if not self._future.done():
            self._future.set_result(None)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that runs in this thread, if there is one."""
    return asyncio._get_running_loop()


def time_left(until: float | None) -> float | None:
    """Return the seconds until a time of the monotonic clock, at least 0; None stays None."""
    return None if until is None else max(0.0, until - time.monotonic())


def moment_after(timeout_s: float | None) -> float | None:
    """Return the time of the monotonic clock at which a timeout ends; None stays None."""
    return None if timeout_s is None else time.monotonic() + timeout_s

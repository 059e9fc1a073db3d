"""An event loop in a background thread, for synchronous code."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, Protocol, TypeVar, runtime_checkable

from tocsin.client.connection.transport import Bus
from tocsin.core.errors import Problem, error_for

__all__ = ["LoopThread", "SyncBus"]

Result = TypeVar("Result")
_HAS_LEFT = Problem("E_STATE_003", "this agent is closed: connect again", retryable=False)


class LoopThread:
    """An event loop in a background thread."""

    def __init__(self, name: str = "tocsin agent") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        #: Held while work is put on the loop, so that none is added after the loop was stopped.
        self._gate = threading.Lock()
        self._over: Problem | None = None
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """Tell whether the loop was stopped."""
        return self._over is not None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine on the loop and return its result; interrupting the wait cancels the coroutine."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "a synchronous call cannot be made from a callback: callbacks run on the loop that would do the work"
            )
        with self._gate:
            if self._over is not None:
                work.close()
                raise error_for(self._over)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            if self._over is None:
                raise
            raise error_for(self._over) from None
        except BaseException:
            future.cancel()
            raise

    def soon(self, call: Callable[[], None]) -> None:
        """Call a function on the loop without waiting for it; do nothing if the loop was stopped."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def stop(self, why: Problem = _HAS_LEFT) -> None:
        """Stop the loop and its thread; calls under way and later calls raise the given problem."""
        with self._gate:
            if self._over is not None:
                return
            self._over = why
            ending = asyncio.run_coroutine_threadsafe(_let_go(), self._loop)
        ending.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@runtime_checkable
class SyncBus(Protocol):
    """A project in the same process, on a loop in another thread."""

    @property
    def background(self) -> LoopThread:
        """Return the loop of the project and its agents."""

    @property
    def bus(self) -> Bus:
        """Return the project."""


async def _let_go() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

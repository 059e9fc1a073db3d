"""A loop in a thread of its own, for code that does not await."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tocsin.core.errors import refusal

__all__ = ["Background"]

Result = TypeVar("Result")


class Background:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tocsin agent", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something on the loop and wait for it; an interrupted wait cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the sync face cannot be called from its own callbacks: they run on its loop")
        if self._loop.is_closed():
            work.close()
            raise refusal("E_STATE_003", "this agent has left: connect again", retryable=False)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def soon(self, call: Callable[[], None]) -> None:
        """Do something on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """End the loop and its thread; whoever still waits is let go."""
        self.run(_let_go())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _let_go() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

"""An event loop that measures how long each of its iterations holds it, in processor time and in elapsed time.

The hub's own loop may be uvloop, whose callbacks cannot be timed from outside; the callbacks are the same here. An
iteration is what a heartbeat on the loop would have to wait for: everything between two looks at the sockets.
"""

import asyncio
import selectors
import time
from typing import NamedTuple

__all__ = ["Hold", "MeteredLoop"]


class Hold(NamedTuple):
    """The longest iteration of a loop within some time."""

    #: Processor time of the loop's thread, seconds.
    cpu_s: float
    #: Elapsed time, seconds: with what other threads and programs took meanwhile.
    elapsed_s: float


class _Selector(selectors.DefaultSelector):
    """A selector that notes when it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = (0.0, 0.0)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for sockets; the iteration begins when it returns."""
        found = super().select(timeout)
        self.woken = (time.thread_time(), time.perf_counter())
        return found


class MeteredLoop(asyncio.SelectorEventLoop):
    """An event loop that remembers its longest iteration since it was last asked."""

    def __init__(self) -> None:
        self._looks = _Selector()
        super().__init__(self._looks)
        self._cpu_s = self._elapsed_s = 0.0

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        cpu, at = self._looks.woken
        self._cpu_s = max(self._cpu_s, time.thread_time() - cpu)
        self._elapsed_s = max(self._elapsed_s, time.perf_counter() - at)

    def longest(self) -> Hold:
        """Return the longest iteration since the last call."""
        found = Hold(self._cpu_s, self._elapsed_s)
        self._cpu_s = self._elapsed_s = 0.0
        return found

"""The time limit of commits: callers do not wait for a store that has stopped answering.

The writing thread cannot be interrupted in a system call. So the limit is kept on the event loop: when it passes, the
commit counts as failed, and its callers are asked to try again. The thread's late result is ignored.
"""

import asyncio
from collections.abc import Callable

from tocsin.journal.errors import CommitFailed

__all__ = ["CommitDeadline"]


class CommitDeadline:
    """Calls `failed` when commits are under way and none has ended for a time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_s: float | None, failed: Callable[[Exception], None]
    ) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._failed = failed
        self._under_way = 0
        self._since = 0.0
        #: It is set once per limit and not once per commit, which costs less.
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Note that a commit has been given to the writing thread."""
        if not self._under_way:
            self._since = self._loop.time()
        self._under_way += 1
        if self._timer is None and self._limit_s is not None:
            self._timer = self._loop.call_later(self._limit_s, self._check)

    def end(self) -> None:
        """Note that a commit has ended, well or not."""
        self._under_way -= 1
        self._since = self._loop.time()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if not self._under_way or self._limit_s is None:
            return
        left_s = self._since + self._limit_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._check)
        else:
            self._failed(CommitFailed("timeout", f"the store did not commit within {self._limit_s:g} s"))

"""A queue that limits how many operations are decided in one iteration of the event loop.

If the loop decided everything that a hundred busy sockets have sent, a Critical message would wait for all of it. So
only a limited number of operations is decided per iteration; the other frames wait in a queue, first in, first out. A
frame with an urgent operation does not wait: it is decided in the iteration in which it was read. Urgent operations
have a limit of the same size, so that a flood of them cannot block the others.
"""

import asyncio
from collections import deque

__all__ = ["FairQueue"]


class FairQueue:
    """Admits a limited number of operations per iteration of the event loop."""

    def __init__(self, operations_max: int) -> None:
        #: Operations admitted per iteration.
        self.operations_max = operations_max
        self._loop = asyncio.get_running_loop()
        self._left = self._urgent_left = operations_max
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._scheduled = False

    def admit(self, operations: int) -> bool:
        """Admit operations that do not have to wait; tell whether they are admitted."""
        self._schedule()
        if self._left > 0 and not self._waiting:
            self._left -= operations
            return True
        return False

    def enter(self, operations: int, *, urgent: bool) -> "asyncio.Future[None] | None":
        """Return a future that is done when the operations are admitted, or None if they are admitted now."""
        if urgent and self._urgent_left > 0:
            self._schedule()
            self._urgent_left -= operations
            return None
        if self.admit(operations):
            return None
        admitted: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((admitted, operations))
        return admitted

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start_iteration)

    def _start_iteration(self) -> None:
        """Reset the limits and admit operations from the queue."""
        self._scheduled = False
        self._left = self._urgent_left = self.operations_max
        waiting = self._waiting
        while waiting and self._left > 0:
            admitted, operations = waiting.popleft()
            if not admitted.done():
                self._left -= operations
                admitted.set_result(None)
        if self._left < self.operations_max:
            self._schedule()

"""Whose turn it is: how much of what has come in is decided before the loop looks at the sockets again.

A loop that decides all that a hundred busy sockets have sent keeps a Critical message waiting for all of it. Here only
so many operations are decided in one turn of the loop; the other frames stand in line, first come, first served. A
frame with something urgent does not stand in line: it is decided in the turn in which it was read. Urgent operations
have such a limit of their own, so that a flood of them cannot keep the others out.
"""

import asyncio
from collections import deque

__all__ = ["FairQueue"]


class FairQueue:
    """Lets operations in, so many in one turn of the loop."""

    def __init__(self, operations_max: int) -> None:
        #: Operations let in at once.
        self.operations_max = operations_max
        self._loop = asyncio.get_running_loop()
        self._left = self._urgent_left = operations_max
        self._line: deque[tuple[asyncio.Future[None], int]] = deque()
        self._turning = False

    def enter(self, operations: int, *, urgent: bool) -> "asyncio.Future[None] | None":
        """Say what to wait for until these may be decided; nothing where they may at once."""
        self._turn()
        if urgent and self._urgent_left > 0:
            self._urgent_left -= operations
            return None
        if self._left > 0 and not self._line:
            self._left -= operations
            return None
        place: asyncio.Future[None] = self._loop.create_future()
        self._line.append((place, operations))
        return place

    def _turn(self) -> None:
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        """Begin another turn, with those who stand in line."""
        self._turning = False
        self._left = self._urgent_left = self.operations_max
        line = self._line
        while line and self._left > 0:
            place, operations = line.popleft()
            if not place.done():
                self._left -= operations
                place.set_result(None)
        if self._left < self.operations_max:
            self._turn()

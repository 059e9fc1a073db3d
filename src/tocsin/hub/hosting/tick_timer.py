"""The timer that submits `Tick` commands when the exchange has something due."""

import asyncio
from collections.abc import Callable

from tocsin.hub.clock import Clock
from tocsin.hub.hosting.live_state import LiveState

__all__ = ["TickTimer"]


class TickTimer:
    """Calls `tick` at the time of the exchange's next due action."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, state: LiveState, clock: Clock, tick: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._state = state
        self._clock = clock
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0

    def schedule(self) -> None:
        """Set the timer to the next due time, unless it is set to that time or an earlier one."""
        due = self._state.exchange.next_due()
        if due is None or (self._timer is not None and self._due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(max(0, due - self._clock.now()) / 1_000_000, self._fire)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        due = self._state.exchange.next_due()
        if due is not None and due <= self._clock.now():
            self._tick()
        else:
            self.schedule()

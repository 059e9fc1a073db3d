"""The hub's clock; the core gets the time from its caller and never reads a clock."""

import time

__all__ = ["Clock"]


class Clock:
    """The wall clock in microseconds; it never runs backwards, not even across a restart."""

    def __init__(self, not_before: int = 0) -> None:
        self._last = not_before

    def now(self) -> int:
        """Return the time; while the wall clock is behind the last value, that value is returned."""
        now = time.time_ns() // 1000
        if now > self._last:
            self._last = now
        return self._last

    def advance(self, not_before: int) -> None:
        """Do not return a time before that of an event that has happened."""
        self._last = max(self._last, not_before)

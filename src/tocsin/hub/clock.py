"""Where time comes from in a real hub: the core is never allowed to fetch it itself."""

import time

__all__ = ["Clock"]


class Clock:
    """The wall clock in microseconds, which never runs backwards, not even over a restart."""

    def __init__(self, not_before: int = 0) -> None:
        self._last = not_before

    def now(self) -> int:
        """Return the time; while the wall clock is behind, time stands still."""
        self._last = max(self._last, time.time_ns() // 1000)
        return self._last

    def advance(self, not_before: int) -> None:
        """Make sure that time is not before an event that has happened."""
        self._last = max(self._last, not_before)

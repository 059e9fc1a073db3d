"""Where time and new ids come from in a real hub: the two things that the core is never allowed to fetch itself."""

import secrets
import time

__all__ = ["Clock", "RandomIds"]


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


class RandomIds:
    """Ids that nobody can guess."""

    def fresh(self, prefix: str, now: int) -> str:
        """Return an id that was never used, `{prefix}_{timestamp}_{random}`."""
        return f"{prefix}_{now // 1000}_{secrets.token_hex(8)}"

"""Exponential backoff with full jitter, and the retry policy of sends."""

import random

import msgspec

from tocsin.core.errors import TocsinError

__all__ = ["Backoff", "Retry"]

_jitter = random.SystemRandom()


class Backoff:
    """Counts attempts and computes the wait before the next one."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self.attempts = 0

    def reset(self) -> None:
        """Count from zero again, after a success."""
        self.attempts = 0

    def next_s(self) -> float:
        """Return a random wait up to a bound that doubles with each attempt."""
        bound = min(self._max_s, self._first_s * 2.0 ** min(self.attempts, 32))
        self.attempts += 1
        return _jitter.uniform(0.0, bound)


class Retry(msgspec.Struct, frozen=True):
    """When to retry a send whose refusal is retryable."""

    #: Attempts in all.
    attempts_max: int = 5
    #: Longest wait before the second attempt, seconds; it doubles with each.
    first_s: float = 0.2
    #: Longest wait before any attempt, seconds; a wait that the refusal asks for is not shortened.
    max_s: float = 10.0
    #: Longest wait that a refusal may ask for, seconds; beyond it the refusal is raised.
    patience_s: float = 60.0

    def backoff(self) -> Backoff:
        """Return a new count of attempts."""
        return Backoff(self.first_s, self.max_s)

    def worth(self, error: TocsinError, backoff: Backoff) -> bool:
        """Tell whether to try again after a refusal."""
        asked = error.problem.retry_after_s or 0.0
        return error.retryable and backoff.attempts + 1 < self.attempts_max and asked <= self.patience_s

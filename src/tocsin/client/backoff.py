"""Waiting before trying again: exponential, with full jitter, so that many clients do not come back at once."""

import random

import msgspec

from tocsin.core.errors import TocsinError

__all__ = ["Backoff", "Retry"]

_jitter = random.SystemRandom()


class Backoff:
    """Counts attempts, and says how long to wait before the next."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self.attempts = 0

    def reset(self) -> None:
        """Begin anew: it has worked."""
        self.attempts = 0

    def next_s(self) -> float:
        """Return a wait, evenly drawn up to a bound that doubles with each attempt."""
        bound = min(self._max_s, self._first_s * 2.0 ** min(self.attempts, 32))
        self.attempts += 1
        return _jitter.uniform(0.0, bound)


class Retry(msgspec.Struct, frozen=True):
    """Whether to try again what was refused but may succeed later."""

    #: Attempts in all.
    attempts_max: int = 5
    #: Longest wait before the second attempt, seconds; it doubles with each.
    first_s: float = 0.2
    #: Longest wait of our own, seconds; what the refusal asks for is waited in full.
    max_s: float = 10.0
    #: Longest wait that a refusal may ask for, seconds; beyond it the refusal is raised.
    patience_s: float = 60.0

    def backoff(self) -> Backoff:
        """Begin counting."""
        return Backoff(self.first_s, self.max_s)

    def worth(self, error: TocsinError, backoff: Backoff) -> bool:
        """Tell whether what was refused is to be tried again."""
        asked = error.problem.retry_after_s or 0.0
        return error.retryable and backoff.attempts + 1 < self.attempts_max and asked <= self.patience_s

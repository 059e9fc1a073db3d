"""Random ids of the form `{prefix}_{timestamp}_{random}` (APM §1.2).

Random bytes are read for many ids at a time. Reading them releases the interpreter lock, and getting it back from a
busy thread takes a while: with one read per id, a hub's event loop spent a sixth of its time on it.
"""

import os
import secrets
from datetime import UTC, datetime

__all__ = ["RandomIds"]

#: Random bytes per id: two ids of the same second are equal once in 2^48 pairs.
_RANDOM_BYTES = 6
#: Number of ids for which random bytes are read at a time.
_DRAWN = 512

_drawn: list[str] = []
os.register_at_fork(after_in_child=_drawn.clear)


class RandomIds:
    """Source of unguessable ids; safe to use from any thread and after a fork."""

    def __init__(self) -> None:
        self._moment = (-1, "")

    def fresh(self, prefix: str, now: int) -> str:
        """Return a new id; `now` is microseconds since the epoch."""
        second, written = self._moment
        if now // 1_000_000 != second:
            second = now // 1_000_000
            written = f"{datetime.fromtimestamp(second, UTC):%Y%m%d_%H%M%S}"
            self._moment = second, written
        while True:
            try:
                return f"{prefix}_{written}_{_drawn.pop()}"
            except IndexError:  # Not checked beforehand: another thread may take the last one.
                _draw()


def _draw() -> None:
    digits, size = secrets.token_hex(_RANDOM_BYTES * _DRAWN), 2 * _RANDOM_BYTES
    _drawn.extend([digits[begin : begin + size] for begin in range(0, len(digits), size)])

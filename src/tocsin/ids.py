"""Random ids, for everything that runs for real: `{prefix}_{timestamp}_{random}`, as APM §1.2 has them.

Randomness is drawn for many ids at a time. Asking the system for it lets go of the interpreter, and a busy thread that
takes it up keeps it for a while: on a hub's event loop that came to a sixth of its time.
"""

import os
import secrets
from datetime import UTC, datetime

__all__ = ["RandomIds"]

#: Bytes of randomness: two ids of one second collide once in 2^48 pairs.
_RANDOM_BYTES = 6
_DRAWN = 512

_drawn: list[str] = []
os.register_at_fork(after_in_child=_drawn.clear)


class RandomIds:
    """Ids that nobody can guess; from any thread, and after a fork."""

    def __init__(self) -> None:
        self._moment = (-1, "")

    def fresh(self, prefix: str, now: int) -> str:
        """Return an id that was never used; `now` is microseconds since the epoch."""
        second, written = self._moment
        if now // 1_000_000 != second:
            second = now // 1_000_000
            written = f"{datetime.fromtimestamp(second, UTC):%Y%m%d_%H%M%S}"
            self._moment = second, written
        return f"{prefix}_{written}_{_random()}"


def _random() -> str:
    while True:
        try:
            return _drawn.pop()
        except IndexError:  # not asked beforehand: another thread may take the last one
            digits, size = secrets.token_hex(_RANDOM_BYTES * _DRAWN), 2 * _RANDOM_BYTES
            _drawn.extend([digits[begin : begin + size] for begin in range(0, len(digits), size)])

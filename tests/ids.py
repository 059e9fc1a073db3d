"""Ids of exchanges in tests."""

import random

__all__ = ["SeededIds"]


class SeededIds:
    """Ids that count up, with a part that the seed decides: the same for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)
        self._count = 0

    def fresh(self, prefix: str, now: int) -> str:
        """Return an id that was never used."""
        self._count += 1
        return f"{prefix}_{now}_{self._count:06d}{self._rng.randrange(16**6):06x}"

    def copy(self) -> "SeededIds":
        """Return a source of the same ids."""
        other = SeededIds()
        other._rng.setstate(self._rng.getstate())
        other._count = self._count
        return other

"""Ids of exchanges in tests."""

import copy
import random

__all__ = ["SeededIds"]


class SeededIds:
    """Ids that count up, the same in each run; with a seed they differ from those of another seed."""

    def __init__(self, seed: int | None = None) -> None:
        self._rng = None if seed is None else random.Random(seed)
        self._count = 0

    def fresh(self, prefix: str, now: int) -> str:
        """Return an id that was never used."""
        self._count += 1
        mark = "" if self._rng is None else f"{self._rng.randrange(16**6):06x}"
        return f"{prefix}_{now}_{self._count:06d}{mark}"

    def copy(self) -> "SeededIds":
        """Return a source of the same ids."""
        return copy.deepcopy(self)

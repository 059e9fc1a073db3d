"""Ids of exchanges in tests."""

import copy
import random

__all__ = ["SeededIds"]


class SeededIds:
    """Ids that count up, the same in each run; with a seed they differ from those of another seed."""

    def __init__(self, seed: int | None = None) -> None:
        self._count = 0
        #: Where the random part of an id comes from.
        self.source = None if seed is None else random.Random(seed)

    def fresh(self, prefix: str, now: int) -> str:
        """Return an id that was never used."""
        self._count += 1
        mark = "" if self.source is None else f"{self.source.randrange(16**6):06x}"
        return f"{prefix}_{now}_{self._count:06d}{mark}"

    def copy(self) -> "SeededIds":
        """Return a source of the same ids; `deepcopy` would go through each of the 625 numbers of a generator."""
        twin = copy.copy(self)
        if self.source is not None:
            twin.source = random.Random(0)
            twin.source.setstate(self.source.getstate())
        return twin

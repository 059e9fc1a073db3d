"""Characters of a segment and classes of them: parsing of a class, and the places of characters in a name."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import or_
from typing import Final

from tocsin.core.leases.sequences import Places

__all__ = ["ANY", "Part", "PartPlaces", "merged_ranges", "parts_overlap", "ranges_without"]

_LAST = 0x10FFFF
#: Sorted, disjoint ranges of code points, both ends included.
Ranges = tuple[tuple[int, int], ...]
#: What one character of a segment may be: itself, or one of a class.
Part = str | Ranges
#: Every character that a segment may hold.
ANY: Final[Ranges] = ((0, ord("/") - 1), (ord("/") + 1, _LAST))


#: Integers with one bit set, for the lengths of ordinary names.
_BITS: Final = tuple([1 << place for place in range(512)])


class PartPlaces(Places):
    """The characters of a segment; if it is itself a glob, some of them are classes."""

    def __init__(self, elements: Sequence[object]) -> None:
        super().__init__(elements)
        self._literals: dict[str, int] | None = None
        self._classes: dict[Ranges, int] | None = None
        #: Places of the classes that were asked for.
        self._found: dict[Ranges, int] | None = None
        #: The characters in order, and their places added up from the first on.
        self._sorted: list[str] = []
        self._sums: list[int] = []

    def first(self, run: Sequence[object], start: int, end: int) -> int:
        """Return the first place where a run fits between a start and an end, or -1."""
        if isinstance(run, str) and isinstance(self.elements, str):
            return self.elements.find(run, start, end)
        return super().first(run, start, end)

    def of(self, element: object, wanted: int, offset: int) -> int:
        """Return the places where a part fits."""
        literals = self._literals
        if literals is None:
            literals = self._note()
        if isinstance(element, str):
            found = literals.get(element, 0)
            if self._classes is not None:
                for ranges, places in self._classes.items():
                    if _holds(ranges, element):
                        found |= places
            return found
        if element is ANY:
            return (1 << self.size) - 1
        return self._of_class(element, literals) if isinstance(element, tuple) else 0

    def _note(self) -> dict[str, int]:
        """Note the places of each character and each class."""
        literals: dict[str, int] = {}
        for place, part in enumerate(self.elements):
            bit = _BITS[place] if place < len(_BITS) else 1 << place
            if isinstance(part, str):
                literals[part] = literals.get(part, 0) | bit
            elif isinstance(part, tuple):
                if self._classes is None:
                    self._classes = {}
                self._classes[part] = self._classes.get(part, 0) | bit
        self._literals = literals
        return literals

    def _of_class(self, wanted: Ranges, literals: dict[str, int]) -> int:
        if self._found is None:
            self._found = {}
            self._sorted = sorted(literals)
            self._sums = [0, *accumulate([literals[character] for character in self._sorted], or_)]
        known = self._found.get(wanted)
        if known is not None:
            return known
        found = 0
        for low, high in wanted:
            above = self._sums[bisect_right(self._sorted, chr(high))]
            found |= above ^ self._sums[bisect_left(self._sorted, chr(low))]
        for ranges, places in self._classes.items() if self._classes is not None else ():
            if _ranges_overlap(wanted, ranges):
                found |= places
        self._found[wanted] = found
        return found


def parts_overlap(one: object, other: object) -> bool:
    """Return whether some character is allowed by both parts."""
    if one is ANY or other is ANY:
        return True
    if isinstance(one, str):
        return one == other if isinstance(other, str) else isinstance(other, tuple) and _holds(other, one)
    if isinstance(other, str):
        return isinstance(one, tuple) and _holds(one, other)
    return isinstance(one, tuple) and isinstance(other, tuple) and _ranges_overlap(one, other)


def _holds(ranges: Ranges, character: str) -> bool:
    code = ord(character)
    return any(low <= code <= high for low, high in ranges)


def _ranges_overlap(one: Ranges, other: Ranges) -> bool:
    return any(low <= high2 and low2 <= high for low, high in one for low2, high2 in other)


def merged_ranges(ranges: list[tuple[int, int]]) -> Ranges:
    """Return ranges sorted and disjoint."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def ranges_without(ranges: Ranges, holes: Ranges) -> Ranges:
    """Return ranges without some others; both are sorted and disjoint."""
    left: list[tuple[int, int]] = []
    for start, end in ranges:
        low = start
        for hole_low, hole_high in holes:
            if hole_high < low or hole_low > end:
                continue
            if hole_low > low:
                left.append((low, hole_low - 1))
            low = hole_high + 1
        if low <= end:
            left.append((low, end))
    return tuple(left)

"""Sets of sequence numbers as sorted lists of intervals."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["Interval", "count_of", "gaps_of", "intervals_of", "joined", "overlap", "ranges_sql", "without"]

#: First and last number, both included.
Interval = tuple[int, int]


def intervals_of(seqs: npt.NDArray[np.int64], gap: int = 0) -> list[Interval]:
    """Return the intervals that cover these numbers, sorted, and none but those in gaps of at most `gap` numbers."""
    if not len(seqs):
        return []
    ordered = np.sort(seqs)
    ordered = ordered[np.concatenate(([True], np.diff(ordered) > 0))]
    breaks = np.flatnonzero(np.diff(ordered) > gap + 1)
    lows = ordered[np.concatenate(([0], breaks + 1))]
    highs = ordered[np.concatenate((breaks, [len(ordered) - 1]))]
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union of intervals: sorted, with adjacent ones merged."""
    result: list[Interval] = []
    for low, high in sorted(intervals):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def without(intervals: Iterable[Interval], removed: Iterable[Interval]) -> list[Interval]:
    """Return the numbers of intervals that are not in others."""
    left = joined(intervals)
    for low, high in removed:
        parts = [((start, min(end, low - 1)), (max(start, high + 1), end)) for start, end in left]
        left = [part for pair in parts for part in pair if part[0] <= part[1]]
    return joined(left)


def overlap(seqs: npt.NDArray[np.int64], intervals: list[Interval]) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers that lie in any interval; the intervals must be sorted and disjoint."""
    if not intervals:
        return np.zeros(len(seqs), dtype=np.bool_)
    lows = np.array([low for low, _ in intervals])
    highs = np.array([high for _, high in intervals])
    place = np.searchsorted(lows, seqs, side="right") - 1
    return np.asarray((place >= 0) & (seqs <= highs[np.maximum(place, 0)]), dtype=np.bool_)


def count_of(intervals: Iterable[Interval]) -> int:
    """Return how many numbers the intervals hold."""
    return sum(high - low + 1 for low, high in intervals)


def ranges_sql(column: str, intervals: Iterable[Interval]) -> str:
    """Return an SQL condition: whether a column is in any interval."""
    return " OR ".join(f"{column} BETWEEN {low} AND {high}" for low, high in intervals) or "false"


def gaps_of(intervals: list[Interval]) -> list[Interval]:
    """Return the intervals of numbers that are missing between 1 and the last number."""
    gaps: list[Interval] = []
    expected = 1
    for low, high in intervals:
        if low > expected:
            gaps.append((expected, low - 1))
        expected = high + 1
    return gaps

"""Percentiles of durations over a sliding window, in bounded memory.

Keeping every duration would cost memory in proportion to the rate, and keeping the latest ones would shorten the window
of a busy hub. So durations are counted in narrow buckets, separately for each slice of time. A bucket is 3 % wide at
most. The reported value is the longest duration seen in the percentile's bucket: never less than the percentile, and
at most 3 % more.
"""

from collections import deque
from math import frexp

__all__ = ["Durations"]

#: Slices of the window.
_SLICES = 60
#: Buckets between a duration and its double.
_BUCKETS = 32


class _Bucket:
    """Durations within 3 % of each other."""

    __slots__ = ("count", "longest_s")

    def __init__(self) -> None:
        self.count = 0
        self.longest_s = 0.0


class Durations:
    """Durations within the window."""

    def __init__(self, window_us: int) -> None:
        self._slice_us = max(1, window_us // _SLICES)
        #: Slices with at least one duration, oldest first, each with its number.
        self._slices: deque[tuple[int, dict[int, _Bucket]]] = deque()
        self._latest: dict[int, _Bucket] = {}
        self._latest_ends = 0

    def take(self, duration_s: float, now: int) -> None:
        """Count a duration, at a time in microseconds."""
        if now >= self._latest_ends:
            self._begin(now // self._slice_us)
        mantissa, exponent = frexp(duration_s)
        number = exponent * _BUCKETS + int(mantissa * 2 * _BUCKETS)
        bucket = self._latest.get(number)
        if bucket is None:
            bucket = self._latest[number] = _Bucket()
        bucket.count += 1
        if duration_s > bucket.longest_s:
            bucket.longest_s = duration_s

    def percentile(self, share: float, now: int) -> float:
        """Return the duration that a share of all durations did not exceed; 0 if there is none."""
        self._forget(now // self._slice_us)
        buckets = [each for _, buckets in self._slices for each in buckets.items()]
        left = int(share * sum(bucket.count for _, bucket in buckets)) + 1
        longest_s, reached = 0.0, None
        for number, bucket in sorted(buckets, key=lambda each: each[0]):
            if left <= 0 and number != reached:
                break
            left -= bucket.count
            longest_s, reached = max(longest_s, bucket.longest_s), number
        return longest_s

    def _begin(self, number: int) -> None:
        self._forget(number)
        self._latest, self._latest_ends = {}, (number + 1) * self._slice_us
        self._slices.append((number, self._latest))

    def _forget(self, number: int) -> None:
        while self._slices and self._slices[0][0] <= number - _SLICES:
            self._slices.popleft()

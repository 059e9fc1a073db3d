"""Comparison of policies: figures, differences and their confidence intervals.

Windows are paired: both policies replay the same project and day. The bootstrap draws windows with replacement, sums
each policy's counts over the drawn windows, and takes the difference of the figures; the interval is the central part
of all differences. Few windows agree by chance: with two, every second difference of nothing has the same sign in both.
So there is an interval only from the number of windows on for which that is less likely than the level of confidence
allows (`windows_needed`).
"""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.lab.figures.measures import ALL, METRICS, Row, dense, level_name, levels, quantile
from tocsin.lab.settings import Settings

__all__ = ["Difference", "Figures", "compare_rows", "compared", "figures_of", "windows_needed"]

#: The rows of each window under one policy; the order of windows is the same for all policies.
Windows = Sequence[Sequence[Row]]

_COUNTS = (
    *("starved", "expired", "stale", "dead", "retries", "lowered", "boosts", "rate_limited", "refused"),
    *("escalations", "deadlocks", "rate_changes", "director_load"),
)
_QUANTILES = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}
_FloatArray = npt.NDArray[np.float64]


class Figures(msgspec.Struct, frozen=True):
    """The figures of one priority under one policy."""

    level: int
    priority: str
    sent: int
    accepted: int
    delivered: int
    #: Values by metric; null if there is nothing to measure.
    values: dict[str, float | None]


class Difference(msgspec.Struct, frozen=True):
    """Difference of one figure to the first policy's."""

    level: int
    priority: str
    metric: str
    before: float | None
    after: float | None
    change: float | None
    #: Confidence interval of the change; null with too few windows.
    low: float | None
    high: float | None
    #: Whether the interval excludes zero.
    sure: bool


def figures_of(windows: Windows) -> list[Figures]:
    """Sum windows, for each priority and for all."""
    found = []
    for level in (*levels(), ALL):
        rows = [_row(window, level) for window in windows]
        matrix = _Matrix(rows)
        values = {name: _number(found) for name, found in matrix.at(np.ones((1, len(rows)))).items()}
        found.append(
            Figures(
                level,
                level_name(level),
                sum(row.sent for row in rows),
                sum(row.accepted for row in rows),
                sum(row.delivered for row in rows),
                {name: value for name, value in values.items() if level == ALL or not METRICS[name].whole},
            )
        )
    return found


def windows_needed(confidence: float) -> int:
    """Return the number of windows that all differ in the same direction by chance less often than 1 - confidence."""
    return math.ceil(1 - math.log2(1 - confidence))


def compared(before: Windows, after: Windows, settings: Settings) -> list[Difference]:
    """Compare two policies, window by window."""
    found: list[Difference] = []
    for level in (*levels(), ALL):
        left, right = ([_row(window, level) for window in windows] for windows in (before, after))
        metrics = [metric.name for metric in METRICS.values() if level == ALL or not metric.whole]
        found += compare_rows(left, right, metrics, settings)
    return found


def compare_rows(
    before: Sequence[Row], after: Sequence[Row], metrics: Sequence[str], settings: Settings
) -> list[Difference]:
    """Compare the rows of one priority in each window, under two policies."""
    count = len(before)
    drawn = None
    if count >= windows_needed(settings.confidence):
        random = np.random.default_rng(settings.seed)
        drawn = random.multinomial(count, np.full(count, 1 / count), size=settings.bootstrap_draws)
    left, right = _Matrix(before), _Matrix(after)
    whole = np.ones((1, count))
    old, new = left.at(whole), right.at(whole)
    spread_old = left.at(drawn) if drawn is not None else {}
    spread_new = right.at(drawn) if drawn is not None else {}
    found = []
    for metric in metrics:
        spread = spread_new[metric] - spread_old[metric] if drawn is not None else None
        found.append(_difference(before[0].level, metric, old[metric], new[metric], spread, settings))
    return found


def _difference(
    level: int, metric: str, old: _FloatArray, new: _FloatArray, spread: _FloatArray | None, settings: Settings
) -> Difference:
    before, after = _number(old), _number(new)
    change = None if before is None or after is None else after - before
    low = high = None
    if spread is not None and change is not None and not np.isnan(spread).all():
        tail = (1 - settings.confidence) / 2
        low, high = (float(bound) for bound in np.nanquantile(spread, (tail, 1 - tail)))
    sure = low is not None and high is not None and (low > 0 or high < 0)
    return Difference(level, level_name(level), metric, before, after, change, low, high, sure)


class _Matrix:
    """The rows of one priority in all windows, as arrays."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._counts = {name: np.asarray([getattr(row, name) for row in rows], dtype=np.float64) for name in _COUNTS}
        self._longest = np.asarray([row.longest_us for row in rows], dtype=np.float64)
        self._histograms = np.stack([dense(row.histogram) for row in rows])

    def at(self, weights: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> Mapping[str, _FloatArray]:
        """Return every figure for each row of window weights."""
        found: dict[str, _FloatArray] = {name: weights @ counts for name, counts in self._counts.items()}
        summed = weights @ self._histograms
        found["longest_s"] = longest = np.where(weights > 0, self._longest, 0.0).max(axis=1) / 1e6
        for name, share in _QUANTILES.items():
            # The middle of the last bucket may be above the longest time in it.
            found[name] = np.minimum(quantile(summed, share), longest)
        return found


def _row(window: Sequence[Row], level: int) -> Row:
    return next((row for row in window if row.level == level), Row(level))


def _number(values: _FloatArray) -> float | None:
    value = float(values[0])
    return None if np.isnan(value) else value

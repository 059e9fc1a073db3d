"""Comparison of policies: figures, differences and their confidence intervals.

Windows are paired: both policies replay the same project and day. The bootstrap draws windows with replacement, sums
each policy's counts over the drawn windows, and takes the difference of the figures; the interval is the central part
of all differences. With a single window there is no interval.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.lab.figures.measures import ALL, METRICS, Row, dense, level_name, levels, quantile
from tocsin.lab.settings import Settings

__all__ = ["Difference", "Figures", "compared", "figures_of"]

#: The rows of each window under one policy; the order of windows is the same for all policies.
Windows = Sequence[Sequence[Row]]

_COUNTS = (
    *("starved", "expired", "stale", "dead", "boosts", "rate_limited", "refused"),
    *("escalations", "deadlocks", "director_load"),
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
    #: Confidence interval of the change; null with a single window.
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


def compared(before: Windows, after: Windows, settings: Settings) -> list[Difference]:
    """Compare two policies, window by window."""
    random = np.random.default_rng(settings.seed)
    count = len(before)
    drawn = random.multinomial(count, np.full(count, 1 / count), size=settings.bootstrap_draws) if count > 1 else None
    found: list[Difference] = []
    for level in (*levels(), ALL):
        left = _Matrix([_row(window, level) for window in before])
        right = _Matrix([_row(window, level) for window in after])
        whole = np.ones((1, count))
        old, new = left.at(whole), right.at(whole)
        spread_old = left.at(drawn) if drawn is not None else {}
        spread_new = right.at(drawn) if drawn is not None else {}
        for metric in METRICS.values():
            if metric.whole and level != ALL:
                continue
            spread = spread_new[metric.name] - spread_old[metric.name] if drawn is not None else None
            found.append(_difference(level, metric.name, old[metric.name], new[metric.name], spread, settings))
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
        for name, share in _QUANTILES.items():
            found[name] = quantile(summed, share)
        found["longest_s"] = np.where(weights > 0, self._longest, 0.0).max(axis=1) / 1e6
        return found


def _row(window: Sequence[Row], level: int) -> Row:
    return next((row for row in window if row.level == level), Row(level))


def _number(values: _FloatArray) -> float | None:
    value = float(values[0])
    return None if np.isnan(value) else value

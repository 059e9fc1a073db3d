"""Percentiles over a sliding while."""

import random

import pytest

from tocsin.hub.observability.durations import Durations

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def taken(values: list[float]) -> Durations:
    durations = Durations(60 * SECOND)
    for value in values:
        durations.take(value, START)
    return durations


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0.0),
        ([0.0], 0.0),
        ([3.0], 3.0),
        ([float(n) for n in range(1, 101)], 100.0),
        ([1.0] * 99 + [9.0], 9.0),
        ([1.0] * 200 + [9.0], 1.0),
    ],
)
def test_percentiles(values: list[float], expected: float) -> None:
    assert taken(values).percentile(0.99, START) == expected


def test_never_less_than_the_percentile_and_hardly_more() -> None:
    rng = random.Random(7)
    values = [rng.lognormvariate(-7, 2) for _ in range(5000)]
    exact = sorted(values)[int(0.99 * len(values))]
    assert exact <= taken(values).percentile(0.99, START) <= exact * (1 + 1 / 32)


def test_what_is_older_than_the_while_is_forgotten_whatever_the_rate() -> None:
    """However many came since: a slow minute ago is still seen, and not a moment longer."""
    durations = taken([5.0])
    for second in range(1, 60):
        for _ in range(3):
            durations.take(0.001, START + second * SECOND)
        assert durations.percentile(1.0, START + second * SECOND) == 5.0
    assert durations.percentile(1.0, START + 60 * SECOND) == 0.001
    assert durations.percentile(1.0, START + 200 * SECOND) == 0.0


def test_a_bucket_is_the_same_in_every_slice() -> None:
    durations = taken([1.0, 2.0])
    durations.take(1.001, START + SECOND)
    assert durations.percentile(0.0, START + SECOND) == 1.001

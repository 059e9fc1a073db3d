"""Durations and health values as people read them."""

import pytest

from tocsin.core.units import duration_text, measure_text, metric_text
from tocsin.policies import default_policy


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000042, "42 µs"),
        (0.0050825, "5.1 ms"),
        (0.05, "50 ms"),
        (0.25, "250 ms"),
        (1, "1 s"),
        (2.54, "2.5 s"),
        (59, "59 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (86400, "1 d"),
        (100_000, "1 d 3 h"),
    ],
)
def test_a_duration_has_a_suitable_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_every_metric_has_words_and_a_unit() -> None:
    for metric, limit in default_policy().health.limits.items():
        assert metric_text(metric).startswith("the ")
        text = measure_text(metric, limit)
        assert text.endswith(("s", "ms", "min")) == metric.endswith("_s"), text
    assert metric_text("own_metric_s") == "own metric"

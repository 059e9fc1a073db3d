"""Expected distribution columns, computed in plain Python."""

from typing import Any

from tocsin.pipeline.facts.histogram import BOUNDS_US, quantile


def spread(*values: int) -> dict[str, Any]:
    """Return the distribution columns of these latencies."""
    histogram = [0] * (len(BOUNDS_US) + 1)
    for value in values:
        histogram[next((i for i, bound in enumerate(BOUNDS_US) if value <= bound), len(BOUNDS_US))] += 1
    low, high = min(values, default=None), max(values, default=None)
    shares = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
    return {
        "samples": len(values),
        "sum_us": sum(values) if values else None,
        "min_us": low,
        "max_us": high,
        **{name: quantile(histogram, share, low or 0, high or 0) for name, share in shares.items()},
        "histogram": histogram,
    }

"""Metrics in Prometheus's text format."""

from collections.abc import Callable, Iterable

from prometheus_client import Metric, generate_latest
from prometheus_client.registry import Collector

__all__ = ["Collected", "exposed"]


class Collected(Collector):
    """Metrics that are made at each scrape."""

    def __init__(self, make: Callable[[], Iterable[Metric]]) -> None:
        self._make = make

    def describe(self) -> Iterable[Metric]:
        """Return the metrics, so that the registry refuses a second one of the same name."""
        return self._make()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics for a scrape."""
        return self._make()


def exposed(projects: Iterable[Iterable[Metric]]) -> bytes:
    """Return the metrics of several projects in Prometheus's text format: each metric once, with all samples."""
    merged: dict[str, Metric] = {}
    for families in projects:
        for family in families:
            if (known := merged.get(family.name)) is None:
                merged[family.name] = family
            else:
                known.samples.extend(family.samples)
    return generate_latest(Collected(merged.values))

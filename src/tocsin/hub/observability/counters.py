"""Cheap counters and histograms that are converted to Prometheus's types at each scrape.

The client library takes a lock and looks labels up for every observation: three observations cost more than deciding
the message that they are about. Here only the event loop counts, in plain numbers, and a scrape on the same loop
converts them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

__all__ = ["Counts", "Latencies"]

Labels = tuple[str, ...]


class Counts(Collector):
    """A counter with labels."""

    def __init__(self, registry: CollectorRegistry, name: str, what: str, *labels: str) -> None:
        self._name, self._what, self._labels = name, what, labels
        self._counts: dict[Labels, int] = {}
        registry.register(self)

    def add(self, *labels: str) -> None:
        """Count one."""
        counts = self._counts
        counts[labels] = counts.get(labels, 0) + 1

    def describe(self) -> Iterable[CounterMetricFamily]:
        """Return the metric's name, so that the registry refuses a second one of that name."""
        yield CounterMetricFamily(self._name, self._what, labels=self._labels)

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Return the counts for a scrape."""
        family = CounterMetricFamily(self._name, self._what, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class _Row:
    """The latencies of one set of labels."""

    __slots__ = ("counts", "total_s")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total_s = 0.0


class Latencies(Collector):
    """A histogram with labels."""

    def __init__(
        self, registry: CollectorRegistry, name: str, what: str, *labels: str, bounds_s: Sequence[float]
    ) -> None:
        self._name, self._what, self._labels = name, what, labels
        self._bounds_s = tuple(bounds_s)
        self._rows: dict[Labels, _Row] = {}
        registry.register(self)

    def add(self, seconds: float, *labels: str) -> None:
        """Count one latency; a bucket includes its upper bound."""
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = _Row(len(self._bounds_s) + 1)
        row.counts[bisect_left(self._bounds_s, seconds)] += 1
        row.total_s += seconds

    @property
    def bounds_s(self) -> tuple[float, ...]:
        """Return the upper bounds of the buckets; one more bucket holds everything above the last."""
        return self._bounds_s

    def rows(self) -> list[tuple[Labels, list[int], float]]:
        """Return each set of labels with the counts of its buckets and its sum, seconds."""
        return [(labels, list(row.counts), row.total_s) for labels, row in self._rows.items()]

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Return the metric's name, so that the registry refuses a second one of that name."""
        yield HistogramMetricFamily(self._name, self._what, labels=self._labels)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Return the histogram for a scrape."""
        family = HistogramMetricFamily(self._name, self._what, labels=self._labels)
        names = [*map(floatToGoString, self._bounds_s), "+Inf"]
        for labels, row in self._rows.items():
            below, buckets = 0, []
            for name, count in zip(names, row.counts, strict=True):
                below += count
                buckets.append((name, below))
            family.add_metric(labels, buckets, row.total_s)
        yield family

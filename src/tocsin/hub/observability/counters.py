"""Cheap counters and histograms that are converted to Prometheus's types at each scrape.

The client library takes a lock and looks labels up for every observation: three observations cost more than deciding
the message that they are about. Here only the event loop counts, in plain numbers, and a scrape on the same loop
converts them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from tocsin.hub.observability.exposition import Collected

__all__ = ["Count", "Counts", "Latencies"]

Labels = tuple[str, ...]


class Count:
    """The count of one set of labels."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Counts:
    """A counter with labels; without labels it is shown from the beginning."""

    def __init__(self, registry: CollectorRegistry, name: str, what: str, *labels: str) -> None:
        self._what = what
        #: Its name, and the names of its labels.
        self.name, self.labels = name, labels
        self._counts: dict[Labels, Count] = {}
        if not labels:
            self.of()
        registry.register(Collected(self._families))

    def of(self, *labels: str) -> Count:
        """Return the count of some labels, to count without looking it up."""
        return self._counts.get(labels) or self._new(labels)

    def add(self, *labels: str) -> None:
        """Count one."""
        count = self._counts.get(labels) or self._new(labels)
        count.value += 1

    def _new(self, labels: Labels) -> Count:
        count = self._counts[labels] = Count()
        return count

    def rows(self) -> list[tuple[Labels, int]]:
        """Return each set of labels with its count."""
        return [(labels, count.value) for labels, count in self._counts.items()]

    def _families(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self.name, self._what, labels=self.labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count.value)
        return [family]


class _Row:
    """The latencies of one set of labels."""

    __slots__ = ("counts", "total_s")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total_s = 0.0


class Latencies:
    """A histogram with labels."""

    def __init__(
        self, registry: CollectorRegistry, name: str, what: str, *labels: str, bounds_s: Sequence[float]
    ) -> None:
        self._what = what
        #: Its name, and the names of its labels.
        self.name, self.labels = name, labels
        self._bounds_s = tuple(bounds_s)
        self._rows: dict[Labels, _Row] = {}
        registry.register(Collected(self._families))

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

    def _families(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self.name, self._what, labels=self.labels)
        names = [*map(floatToGoString, self._bounds_s), "+Inf"]
        for labels, row in self._rows.items():
            below, buckets = 0, []
            for name, count in zip(names, row.counts, strict=True):
                below += count
                buckets.append((name, below))
            family.add_metric(labels, buckets, row.total_s)
        return [family]

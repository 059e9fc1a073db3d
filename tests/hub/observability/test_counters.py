"""Counts and latencies: what a scrape shows of them is what the client library itself would have shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from tocsin.hub.observability.counters import Counts, Latencies
from tocsin.hub.observability.metrics import LATENCY_BUCKETS_S

LABELS = st.sampled_from(["Info", "Critical", 'a "quoted" one', "näme"])


def shown(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return sorted(line for line in lines if "_created" not in line)


@given(st.lists(LABELS, max_size=20))
def test_counts_are_shown_as_the_library_shows_its_own(labels: list[str]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counts, counter = Counts(ours, "sent", "Sent.", "priority"), Counter("sent", "Sent.", ["priority"], registry=theirs)
    for label in labels:
        counts.add(label)
        counter.labels(label).inc()
    assert shown(ours) == shown(theirs)


@given(st.lists(st.tuples(st.one_of(st.sampled_from(LATENCY_BUCKETS_S), st.floats(0, 1e4)), LABELS), max_size=20))
def test_latencies_are_shown_as_the_library_shows_its_own(seen: list[tuple[float, str]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    latencies = Latencies(ours, "wait", "Waited.", "priority", bounds_s=LATENCY_BUCKETS_S)
    histogram = Histogram("wait", "Waited.", ["priority"], buckets=LATENCY_BUCKETS_S, registry=theirs)
    for seconds, label in seen:
        latencies.add(seconds, label)
        histogram.labels(label).observe(seconds)
    assert shown(ours) == shown(theirs)


def test_a_counter_without_labels_is_shown_before_it_counts() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    Counts(ours, "boosts", "Boosts.")
    Counter("boosts", "Boosts.", registry=theirs)
    assert shown(ours) == shown(theirs)


def test_two_counts_of_one_name_are_a_mistake() -> None:
    registry = CollectorRegistry()
    Counts(registry, "sent", "Sent.")
    with pytest.raises(ValueError, match="Duplicated"):
        Counts(registry, "sent", "Sent.")

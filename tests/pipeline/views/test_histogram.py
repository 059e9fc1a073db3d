from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.rows import Row, opened
from tests.pipeline.views.latencies import spread
from tocsin.hub.observability.metrics import LATENCY_BUCKETS_S
from tocsin.pipeline.engine.duck import rows_of
from tocsin.pipeline.facts.histogram import BOUNDS_US, added, distribution_of, quantile

latencies = st.lists(st.integers(0, 10**12), min_size=1, max_size=40)


def test_the_buckets_are_the_hubs_and_three_more() -> None:
    hubs = tuple(round(bound * 1_000_000) for bound in LATENCY_BUCKETS_S)
    assert BOUNDS_US[: len(hubs)] == hubs
    assert BOUNDS_US[len(hubs) :] == (6 * 3600 * 10**6, 86400 * 10**6, 7 * 86400 * 10**6)


def spread_out(kind: str, values: Sequence[tuple[Any, int | None]]) -> list[Row]:
    literal = ", ".join(f"('{key}'::{kind}, {'NULL' if us is None else us}::BIGINT)" for key, us in values)
    with opened(only=[]) as tables:
        query = distribution_of(f"(VALUES {literal}) AS value(key, us)", ["key"], "us", {"rows": "count(*)"})
        return rows_of(tables, f"{query} ORDER BY key")


def test_a_distribution_counts_each_value_in_the_first_bucket_that_holds_it() -> None:
    values = [("a", 50), ("a", 51), ("a", 700_000), ("b", 700_000_000_000), ("b", None), ("c", None)]
    a, b, c = spread_out("VARCHAR", values)
    assert a["histogram"] == [1, 1, *[0] * 11, 1, *[0] * 12]
    assert (a["samples"], a["sum_us"], a["min_us"], a["max_us"], a["rows"]) == (3, 700_101, 50, 700_000, 3)
    assert (a["p50_us"], a["p95_us"], a["p99_us"]) == (75, 700_000, 700_000)
    assert b["histogram"] == [*[0] * 25, 1]
    assert (b["samples"], b["rows"], b["p50_us"], b["p99_us"]) == (1, 2, 700_000_000_000, 700_000_000_000)
    assert (c["samples"], c["rows"], c["sum_us"], c["p50_us"]) == (0, 1, None, None)


def test_quantiles_of_the_tables_are_those_of_python() -> None:
    values = [(group, (group + 1) * number**2 * 37) for group in range(4) for number in range(1, 200)]
    for row in spread_out("BIGINT", values):
        wanted = spread(*(us for key, us in values if key == row["key"]))
        assert row == {"key": row["key"], "rows": 199, **wanted}


@given(latencies, latencies)
def test_rows_add_up_to_the_row_of_all(some: list[int], more: list[int]) -> None:
    both = added([spread(*some)["histogram"], spread(*more)["histogram"]])
    assert both == spread(*some, *more)["histogram"]


@given(latencies, st.floats(0.01, 0.99))
def test_a_quantile_is_in_the_bucket_of_the_true_one(values: list[int], share: float) -> None:
    histogram = spread(*values)["histogram"]
    found = quantile(histogram, share, min(values), max(values))
    rank = next(i for i in range(1, len(values) + 1) if i >= share * len(values))
    true = sorted(values)[rank - 1]
    bounds = (0, *BOUNDS_US, max(values))
    index = next((i for i, bound in enumerate(BOUNDS_US) if true <= bound), len(BOUNDS_US))
    assert found is not None
    assert min(bounds[index], max(values)) <= found <= max(bounds[index + 1], min(values))


def test_nothing_has_no_quantile() -> None:
    assert quantile([0] * 26, 0.5, 0, 0) is None

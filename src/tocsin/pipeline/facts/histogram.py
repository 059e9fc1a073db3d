"""Histograms of latencies with fixed buckets, so that rows of a fact can be summed to rows of any coarser view.

The bounds are those of the hub's Prometheus histograms, from 50 microseconds to an hour, and three more up to a week,
because messages may wait that long. A value is in the first bucket whose bound it does not exceed; the last bucket has
the values above all bounds. A fact has the bucket as one of its keys, so that a count per bucket is a plain sum.
Quantiles are interpolated inside a bucket, as in Prometheus, and limited to the smallest and largest value. `added` and
`quantile` do the same in Python, for rows that have been read.
"""

from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "BOUNDS_US",
    "DISTRIBUTION",
    "added",
    "bucket",
    "combined",
    "distribution",
    "distribution_of",
    "measure",
    "quantile",
]

#: Upper bounds, microseconds, inclusive.
BOUNDS_US = (
    *(50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000, 900_000_000, 3_600_000_000),
    *(21_600_000_000, 86_400_000_000, 604_800_000_000),
)

#: Declaration of the columns that `distribution` adds.
DISTRIBUTION = (
    ("samples", "bigint", "Number of values."),
    ("sum_us", "bigint", "Sum of the values, microseconds; divided by `samples` it is the average."),
    ("min_us", "bigint", "Smallest value, microseconds."),
    ("max_us", "bigint", "Largest value, microseconds."),
    ("p50_us", "bigint", "Median, microseconds, estimated from the histogram."),
    ("p95_us", "bigint", "95th percentile, microseconds, estimated from the histogram."),
    ("p99_us", "bigint", "99th percentile, microseconds, estimated from the histogram."),
    (
        "histogram",
        "array<bigint>",
        "Counts per bucket of `histogram.BOUNDS_US`; the last is above all bounds.",
    ),
)
_QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}


def bucket(value: str) -> str:
    """Return the SQL of the index of a value's bucket; null for null."""
    return f"CASE WHEN {value} IS NOT NULL THEN ({_search(value, 0, len(BOUNDS_US))})::TINYINT END"


def _search(value: str, low: int, high: int) -> str:
    """Find the bucket by binary search: five comparisons per row instead of twenty-five."""
    if low == high:
        return str(low)
    middle = (low + high) // 2
    below, above = _search(value, low, middle), _search(value, middle + 1, high)
    return f"CASE WHEN {value} <= {BOUNDS_US[middle]} THEN {below} ELSE {above} END"


def measure(name: str) -> str:
    """Return the SQL of a fact's columns for the values in the column `<name>_us`; the bucket is one of its keys."""
    value = f"{name}_us"
    return (
        f"sum({value})::BIGINT AS {name}_sum_us, min({value}) AS {name}_min_us, max({value}) AS {name}_max_us"
    )  # fmt: skip


def distribution(
    source: str, keys: Sequence[str], name: str, sums: Mapping[str, str], count: str = "messages", where: str = "true"
) -> str:
    """Return the SQL of a view: rows of a fact summed by keys, with further sums and the distribution of a measure.

    `count` is the column that says how many values a row of the fact stands for.
    """
    rows = (
        f"SELECT {', '.join(keys)}, {name}_bucket AS b, CASE WHEN {name}_bucket IS NULL THEN 0 ELSE {count} END AS n,"
        f" {name}_sum_us AS total, {name}_min_us AS low, {name}_max_us AS high, * EXCLUDE ({', '.join(keys)})"
        f" FROM {source} WHERE {where}"
    )
    return _spread(rows, keys, sums)


def distribution_of(source: str, keys: Sequence[str], value: str, sums: Mapping[str, str], weight: str = "1") -> str:
    """Return the SQL of a view: rows summed by keys, with further sums and the distribution of a value.

    Rows without a value count only in `sums`; a row counts as often as its weight says.
    """
    rows = (
        f"SELECT *, {bucket('v')} AS b, CASE WHEN v IS NULL THEN 0 ELSE w END AS n, v * w AS total, v AS low, v AS high"
        f" FROM (SELECT *, {value} AS v, {weight} AS w FROM {source})"
    )
    return _spread(rows, keys, sums)


def _spread(rows: str, keys: Sequence[str], sums: Mapping[str, str]) -> str:
    by = ", ".join(keys)
    lower = f"[0, {', '.join(map(str, BOUNDS_US))}]"
    upper = f"[{', '.join(map(str, BOUNDS_US))}, NULL]"
    quantiles = ", ".join(
        f"CASE WHEN sum(n) > 0 THEN floor(least(greatest(arg_min(lower_us + (coalesce(upper_us, largest::DOUBLE)"
        f" - lower_us) * (everything * {share}::DOUBLE - (below - n)) / n, b)"
        f" FILTER (WHERE n > 0 AND below >= everything * {share}::DOUBLE), min(low)), max(high)))::BIGINT END"
        f" AS {title}"
        for title, share in _QUANTILES.items()
    )
    counts = ", ".join(f"coalesce(sum(n) FILTER (WHERE b = {index}), 0)::BIGINT" for index in range(len(BOUNDS_US) + 1))
    return f"""WITH bucketed AS (
    SELECT {by}, b, sum(n)::BIGINT AS n, sum(total)::BIGINT AS total, min(low) AS low, max(high) AS high
        {"".join(f", {value} AS {title}" for title, value in sums.items())}
    FROM ({rows}) GROUP BY {by}, b),
running AS (
    SELECT *, sum(n) OVER (PARTITION BY {by} ORDER BY b) AS below, sum(n) OVER (PARTITION BY {by}) AS everything,
        max(high) OVER (PARTITION BY {by}) AS largest, ({lower})[b + 1]::DOUBLE AS lower_us,
        ({upper})[b + 1]::DOUBLE AS upper_us
    FROM bucketed)
SELECT {by}{"".join(f", {_summed(title, value)} AS {title}" for title, value in sums.items())},
    sum(n)::BIGINT AS samples, sum(total)::BIGINT AS sum_us, min(low) AS min_us, max(high) AS max_us, {quantiles},
    [{counts}] AS histogram
FROM running GROUP BY {by}"""


def _summed(title: str, value: str) -> str:
    """Return how the parts of a sum by bucket are put together."""
    return f"max({title})" if value.startswith("max(") else f"sum({title})::BIGINT"


def combined(source: str, keys: Sequence[str], **sums: str) -> str:
    """Return the SQL that sums rows of a view with a distribution to rows with fewer keys, for example over all types.

    `keys` may be expressions with a name (`x AS y`); `sums` are aggregates by name.
    """
    names = [key.rpartition(" AS ")[2] for key in keys]
    once = "".join(f", {value} AS {title}" for title, value in sums.items())
    rows = f"""SELECT {", ".join(names)}, b, histogram[b + 1] AS n, NULL AS total,
        CASE WHEN histogram[b + 1] > 0 THEN min_us END AS low, CASE WHEN histogram[b + 1] > 0 THEN max_us END AS high
        FROM (SELECT {", ".join(keys)}, histogram, min_us, max_us FROM {source}),
            range({len(BOUNDS_US) + 1}) AS all_buckets(b)"""
    return f"""WITH spread AS ({_spread(rows, names, {})}),
once AS (SELECT {", ".join(keys)}, sum(sum_us)::BIGINT AS sum_us{once} FROM {source} GROUP BY ALL)
SELECT spread.* REPLACE (once.sum_us AS sum_us), once.* EXCLUDE ({", ".join([*names, "sum_us"])})
FROM spread JOIN once ON {" AND ".join(f"spread.{name} IS NOT DISTINCT FROM once.{name}" for name in names)}"""


def added(histograms: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of histograms."""
    total = [0] * (len(BOUNDS_US) + 1)
    for histogram in histograms:
        for index, count in enumerate(histogram):
            total[index] += count
    return total


def quantile(histogram: Sequence[int], share: float, min_us: int, max_us: int) -> int | None:
    """Estimate a quantile from a histogram, as the tables do; return None if it is empty."""
    rank, below = share * sum(histogram), 0
    for index, count in enumerate(histogram):
        if count and below + count >= rank:
            lower = BOUNDS_US[index - 1] if index else 0
            upper = BOUNDS_US[index] if index < len(BOUNDS_US) else max_us
            value = lower + (upper - lower) * (rank - below) / count
            return int(min(max(value, min_us), max_us))
        below += count
    return None

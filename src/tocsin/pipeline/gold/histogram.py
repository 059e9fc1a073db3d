"""Histograms of latencies with fixed buckets, so that rows of a table can be summed to rows of a longer time.

The bounds are those of the hub's Prometheus histograms, from 50 microseconds to an hour, and three more up to a week,
because messages may wait that long. A value is in the first bucket whose bound it does not exceed; the last bucket has
the values above all bounds. Quantiles are interpolated inside a bucket, as in Prometheus, and limited to the smallest
and largest value. `added` and `quantile` do the same in Python, for rows that have been read.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["BOUNDS_US", "DISTRIBUTION", "added", "bucket", "combined", "distribution", "quantile"]

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


def bucket(value_us: Column) -> Column:
    """Return the index of a value's bucket."""
    return _search(value_us, 0, len(BOUNDS_US))


def _search(value_us: Column, low: int, high: int) -> Column:
    """Find the bucket by binary search: five comparisons per row instead of twenty-five."""
    if low == high:
        return F.lit(low)
    middle = (low + high) // 2
    return F.when(value_us <= BOUNDS_US[middle], _search(value_us, low, middle)).otherwise(
        _search(value_us, middle + 1, high)
    )


def distribution(
    frame: DataFrame, keys: Sequence[str], value_us: Column, weight: Column | None = None, **sums: Column
) -> DataFrame:
    """Group rows by keys and add the distribution of a value; `sums` are further counts and sums.

    Rows without a value count only in `sums`; a row with a weight counts that many times. Rows are first aggregated by
    bucket, so that the large aggregation has few buffers of fixed width; the rest runs on its result.
    """
    often = F.when(value_us.isNotNull(), F.lit(1) if weight is None else weight).otherwise(0)
    counted = frame.groupBy(*keys, bucket(value_us).alias("_bucket")).agg(
        F.sum(often).alias("_samples"),
        F.sum(value_us * often).alias("_sum_us"),
        F.min(value_us).alias("_min_us"),
        F.max(value_us).alias("_max_us"),
        *(column.alias(name) for name, column in sums.items()),
    )
    buckets = [
        F.coalesce(F.sum(F.when(F.col("_bucket") == index, F.col("_samples"))), F.lit(0))
        for index in range(len(BOUNDS_US) + 1)
    ]
    summed = counted.groupBy(*keys).agg(
        F.sum("_samples").alias("samples"),
        F.sum("_sum_us").alias("sum_us"),
        F.min("_min_us").alias("min_us"),
        F.max("_max_us").alias("max_us"),
        F.array(*buckets).alias("histogram"),
        *(F.sum(name).alias(name) for name in sums),
    )
    return _with_quantiles(summed)


def combined(frame: DataFrame, keys: Sequence[str], **sums: Column) -> DataFrame:
    """Sum rows of a table with a distribution to rows with fewer keys, for example over all types."""
    counts = [F.sum(F.get("histogram", F.lit(index))) for index in range(len(BOUNDS_US) + 1)]
    summed = frame.groupBy(*keys).agg(
        F.sum("samples").alias("samples"),
        F.sum("sum_us").alias("sum_us"),
        F.min("min_us").alias("min_us"),
        F.max("max_us").alias("max_us"),
        F.array(*counts).alias("histogram"),
        *(column.alias(name) for name, column in sums.items()),
    )
    return _with_quantiles(summed)


def _with_quantiles(frame: DataFrame) -> DataFrame:
    return frame.withColumns({f"p{round(share * 100)}_us": _quantile(share) for share in (0.5, 0.95, 0.99)})


def _quantile(share: float) -> Column:
    rank = F.col("samples") * F.lit(share)
    lower = F.array(*(F.lit(float(bound)) for bound in (0, *BOUNDS_US)))
    upper = F.array(*(F.lit(float(bound)) for bound in BOUNDS_US), F.col("max_us").cast("double"))
    counts = F.arrays_zip(F.col("histogram").alias("n"), lower.alias("lower"), upper.alias("upper"))
    found = F.aggregate(
        counts,
        F.struct(F.lit(0).cast("bigint").alias("below"), F.lit(None).cast("double").alias("value")),
        lambda so_far, here: F.struct(
            (so_far["below"] + here["n"]).alias("below"),
            F.when(
                so_far["value"].isNull() & (here["n"] > 0) & (so_far["below"] + here["n"] >= rank),
                here["lower"] + (here["upper"] - here["lower"]) * (rank - so_far["below"]) / here["n"],
            )
            .otherwise(so_far["value"])
            .alias("value"),
        ),
        lambda so_far: so_far["value"],
    )
    return F.when(F.col("samples") > 0, F.floor(F.least(F.greatest(found, F.col("min_us")), F.col("max_us"))))


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

"""Changes of the decay rate of new messages, with their cause."""

from tocsin.pipeline.tables.columns import columns
from tocsin.pipeline.tables.table import View

__all__ = ["DECAY_RATE"]

DECAY_RATE = View(
    name="decay_rate",
    layer="gold",
    about="Changes of the decay rate of new messages, with their cause.",
    columns=columns(
        ("project", "string", "The project."),
        ("date", "date", "Day of the change, UTC."),
        ("seq", "bigint", "Sequence number of the change."),
        ("changed_at", "timestamp", "Time at which the decay rate of new messages changed."),
        ("old_rate", "double", "Decay rate before."),
        ("new_rate", "double", "Decay rate until the next row."),
        ("average_us", "bigint", "Average processing latency that caused the change, microseconds."),
        ("samples", "bigint", "Number of latencies in the average."),
        ("threshold_us", "bigint", "Threshold that the average crossed, microseconds."),
        ("rule", "string", "`latency_high`, `latency_low` or `idle`."),
    ),
    reads=("occurrence",),
    sql="""
SELECT project, date, seq, stamp(us) AS changed_at, old_rate, new_rate,
    round(average_s * 1000000)::BIGINT AS average_us,
    samples, round(threshold_s * 1000000)::BIGINT AS threshold_us, rule
FROM occurrence WHERE kind = 'DecayRateChanged'
""",
)

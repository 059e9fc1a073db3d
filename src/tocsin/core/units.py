"""Durations and health values in the units that people use."""

__all__ = ["duration_text", "measure_text", "metric_text"]

#: Health metrics in words; durations are 99th percentiles.
_METRICS = {
    "message_routing_p99_s": "the time to route a message",
    "critical_delivery_s": "the delivery time of Critical messages",
    "blocking_delivery_s": "the delivery time of Blocking messages",
    "escalation_latency_s": "the time to open an escalation",
    "deadlock_resolution_s": "the time to break a deadlock",
    "clone_spawn_p99_s": "the time to start an agent",
    "critical_queue_depth": "the number of waiting Critical messages",
    "blocking_queue_depth": "the number of waiting Blocking messages",
    "escalations_per_minute": "the number of escalations per minute",
}


def duration_text(seconds: float) -> str:
    """Return a duration in a suitable unit: `5.1 ms`, `1 min 30 s`, `2 h`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs" if seconds > 0 else "0 s"
    if seconds < 1:
        return f"{_short(seconds * 1e3)} ms"
    if seconds < 60:
        return f"{_short(seconds)} s"
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        whole, rest = divmod(round(seconds), unit)
        if whole:
            return f"{whole} {name} {rest // smaller} {smaller_name}" if rest // smaller else f"{whole} {name}"
    return f"{_short(seconds)} s"


def metric_text(metric: str) -> str:
    """Return the name of a health metric in words."""
    return _METRICS.get(metric) or metric.removesuffix("_s").replace("_", " ")


def measure_text(metric: str, value: float) -> str:
    """Return a value of a health metric with its unit: durations end with `_s`, the others are counts."""
    return duration_text(value) if metric.endswith("_s") else f"{value:,.0f}"


def _short(value: float) -> str:
    """Return a number with one digit after the point below 10, unless it is a zero."""
    return f"{value:.1f}".removesuffix(".0") if value < 10 else f"{value:.0f}"

"""What happens to the health of a project; only changes are events, not every measurement."""

from tocsin.core.events.base import EventBase

__all__ = ["AlertCleared", "AlertEased", "AlertRaised", "AlertWorsened", "HealthBreached", "HealthRecovered"]


class HealthBreached(EventBase, frozen=True):
    """A metric went over its limit; if it stays there an alert is raised."""

    #: The metric.
    metric: str
    #: What was measured.
    value: float
    #: The limit.
    limit: float


class HealthRecovered(EventBase, frozen=True):
    """A metric came back before an alert was raised."""

    #: The metric.
    metric: str
    #: What was measured.
    value: float


class AlertRaised(EventBase, frozen=True):
    """A metric has been over its limit for too long."""

    #: The metric.
    metric: str
    #: What was measured.
    value: float
    #: The limit.
    limit: float
    #: Since when it has been over it.
    since: int
    #: How long that may last, seconds.
    threshold_s: float


class AlertEased(EventBase, frozen=True):
    """An alert's metric is well under its limit; if it stays there the alert is cleared."""

    #: The metric.
    metric: str
    #: What was measured.
    value: float


class AlertWorsened(EventBase, frozen=True):
    """An alert's metric rose again before the alert was cleared."""

    #: The metric.
    metric: str
    #: What was measured.
    value: float


class AlertCleared(EventBase, frozen=True):
    """An alert is over."""

    #: The metric.
    metric: str
    #: What was measured.
    value: float
    #: When the alert had been raised.
    raised_at: int

"""Events of health metrics and alerts; only changes are recorded, not every measurement."""

from tocsin.core.events.base import EventBase

__all__ = ["AlertCleared", "AlertEased", "AlertRaised", "AlertWorsened", "HealthBreached", "HealthRecovered"]


class HealthBreached(EventBase, frozen=True):
    """A metric went over its limit; if it stays there, an alert is raised."""

    #: The metric.
    metric: str
    #: Measured value.
    value: float
    #: The limit.
    limit: float


class HealthRecovered(EventBase, frozen=True):
    """A metric returned under its limit before an alert was raised."""

    #: The metric.
    metric: str
    #: Measured value.
    value: float


class AlertRaised(EventBase, frozen=True):
    """An alert was raised: a metric was over its limit for too long."""

    #: The metric.
    metric: str
    #: Measured value.
    value: float
    #: The limit.
    limit: float
    #: Time since which it has been over the limit.
    since: int
    #: Time for which that is allowed, seconds.
    threshold_s: float


class AlertEased(EventBase, frozen=True):
    """The metric of an alert went well under its limit; if it stays there, the alert is cleared."""

    #: The metric.
    metric: str
    #: Measured value.
    value: float


class AlertWorsened(EventBase, frozen=True):
    """The metric of an alert rose again before the alert was cleared."""

    #: The metric.
    metric: str
    #: Measured value.
    value: float


class AlertCleared(EventBase, frozen=True):
    """An alert was cleared."""

    #: The metric.
    metric: str
    #: Measured value.
    value: float
    #: Time at which the alert was raised.
    raised_at: int

"""Policy of importance decay: rates, thresholds and the queue manager."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Seconds, Share, microseconds

__all__ = ["Decay", "QueueManager"]


class Decay(Concern, frozen=True):
    """Decay of a message's importance."""

    #: Importance of a message that does not set one, 1 to 10.
    importance_default: Annotated[int, Meta(ge=1, le=10)]
    #: Interval of the decay rate, seconds: the rate is the share of the original importance lost per interval.
    interval_s: Seconds
    #: Importance below which a queued message is stale and expires.
    stale_threshold: Annotated[float, Meta(ge=0, le=10)]
    #: Decay rates are rounded to multiples of this step.
    rate_step: Annotated[float, Meta(ge=0.001, le=1)]
    #: Interval between removals of stale messages, seconds.
    sweep_interval_s: Seconds

    @cached_property
    def interval_us(self) -> int:
        """Return the interval in microseconds."""
        return microseconds(self.interval_s)

    @cached_property
    def sweep_interval_us(self) -> int:
        """Return the sweep interval in microseconds."""
        return microseconds(self.sweep_interval_s)


class QueueManager(Concern, frozen=True):
    """Adaptation of the decay rate to the processing latency."""

    #: Whether the decay rate adapts; if not, only messages with a rate of their own decay.
    enabled: bool
    #: Average processing latency above which the rate of new messages rises, seconds.
    latency_high_s: Seconds
    #: Average processing latency below which the rate falls, seconds.
    latency_low_s: Seconds
    #: Minimum rate.
    rate_min: Share
    #: Maximum rate.
    rate_max: Share
    #: Size of one change of the rate.
    rate_change: Share
    #: Minimum time between two changes, seconds.
    cooldown_s: Seconds
    #: Time window of the latencies, seconds.
    window_s: Seconds
    #: Maximum number of latencies in the window.
    samples_max: Count
    #: Minimum number of latencies for a change.
    samples_min: Count

    @cached_property
    def window_us(self) -> int:
        """Return the window in microseconds."""
        return microseconds(self.window_s)

    @cached_property
    def cooldown_us(self) -> int:
        """Return the cooldown in microseconds."""
        return microseconds(self.cooldown_s)

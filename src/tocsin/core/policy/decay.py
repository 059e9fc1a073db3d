"""How importance fades, and how fast that goes."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Seconds, Share, microseconds

__all__ = ["Decay", "QueueManager"]


class Decay(Concern, frozen=True):
    """How importance fades."""

    #: Importance of a message that does not say, 1 to 10.
    importance_default: Annotated[int, Meta(ge=1, le=10)]
    #: A decay rate is the share of the original importance lost per this time, seconds.
    interval_s: Seconds
    #: Below this importance a waiting message is stale.
    stale_threshold: Annotated[float, Meta(ge=0, le=10)]
    #: Rates are rounded to whole steps of this, so that mailboxes keep few orders apart.
    rate_step: Annotated[float, Meta(ge=0.001, le=1)]
    #: How often stale messages are looked for, seconds (DECAY §2).
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
    """The control law of the adaptive decay rate (DECAY §4)."""

    #: Off leaves every message at its own rate, or none.
    enabled: bool
    #: Average processing latency over which the rate of new messages rises, seconds.
    latency_high_s: Seconds
    #: Average processing latency under which it falls, seconds.
    latency_low_s: Seconds
    #: Lowest rate.
    rate_min: Share
    #: Highest rate.
    rate_max: Share
    #: By how much one change moves it.
    rate_change: Share
    #: Time between two changes, seconds.
    cooldown_s: Seconds
    #: How far back latencies count, seconds.
    window_s: Seconds
    #: Most latencies that count.
    samples_max: Count
    #: Fewest latencies to judge from.
    samples_min: Count

    @cached_property
    def window_us(self) -> int:
        """Return the window in microseconds."""
        return microseconds(self.window_s)

    @cached_property
    def cooldown_us(self) -> int:
        """Return the cooldown in microseconds."""
        return microseconds(self.cooldown_s)

"""Health of a subscriber: a sliding window over its counters, and states with hysteresis.

The window keeps one pair of counters per step. Between two publishes no counter changes, so steps without a publish are
filled with the last pair, and the window is exact however rarely it is read.
"""

import enum
from collections import deque

from tocsin.frames.policy import HealthPolicy


class Health(enum.Enum):
    """How a subscriber keeps up with what is offered to it. Frames shed in favour of others do not count."""

    #: It keeps up.
    HEALTHY = "healthy"
    #: It loses frames.
    DEGRADED = "degraded"
    #: It loses most frames.
    SATURATED = "saturated"


class HealthGauge:
    """The health of one subscriber."""

    __slots__ = ("_policy", "_window", "health")

    def __init__(self, policy: HealthPolicy) -> None:
        self._policy = policy
        self._window: deque[tuple[int, int]] = deque([(0, 0)], maxlen=policy.window_steps)
        #: State after the last judgement.
        self.health = Health.HEALTHY

    def slide(self, offered: int, lost: int, steps: int) -> None:
        """Move the window by some steps; the counters are those at their end."""
        for _ in range(min(steps, self._policy.window_steps)):
            self._window.append((offered, lost))

    def judge(self, offered: int, lost: int) -> float | None:
        """Judge by the present counters; return the share lost if the state changed."""
        offered_before, lost_before = self._window[0]
        frames = offered - offered_before
        if frames <= 0:
            share = 0.0
        elif frames < self._policy.judged_from:
            return None
        else:
            share = (lost - lost_before) / frames
        before, self.health = self.health, self._next(share)
        return None if self.health is before else share

    def _next(self, share: float) -> Health:
        policy = self._policy
        saturated_from = policy.unsaturated_below if self.health is Health.SATURATED else policy.saturated_from
        degraded_from = policy.degraded_from if self.health is Health.HEALTHY else policy.healthy_below
        if share >= saturated_from:
            return Health.SATURATED
        return Health.DEGRADED if share >= degraded_from else Health.HEALTHY

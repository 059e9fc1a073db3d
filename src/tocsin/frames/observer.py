"""The observer of a bus: health windows, alarms and reports, computed from the counters at intervals.

It has no clock and no thread. The bus calls `look` once the time `due` has passed, on a publish or on a `tick`.
"""

from collections.abc import Iterable
from typing import Any

from tocsin.frames.channel import Channel
from tocsin.frames.events import (
    CriticalFramesDropped,
    FrameBusEvent,
    HealthChanged,
    SheddingReported,
    SubscriberLost,
    Tally,
)
from tocsin.frames.policy import FramesPolicy, Priority
from tocsin.frames.subscription import Subscription

AnySubscription = Subscription[Any]


class Observer:
    """Tracks the health and the drop counts of a bus's subscribers."""

    def __init__(self, policy: FramesPolicy, now: float) -> None:
        self._policy = policy
        self._watchers: tuple[Channel[FrameBusEvent], ...] = ()
        self._looked_at = now
        self._reported_at = now
        self._reported = self._departed = dict.fromkeys(Priority, Tally())
        self._published_reported = 0
        #: Time at which `look` is due next.
        self.due = now + min(policy.health.step_s, policy.report.interval_s)

    def watch(self, capacity: int | None) -> Channel[FrameBusEvent]:
        """Return a channel of events; when it is full, the oldest event is dropped."""
        watcher: Channel[FrameBusEvent] = Channel(capacity or self._policy.channel.watch_capacity)
        self._watchers = (*(other for other in self._watchers if not other.closed), watcher)
        return watcher

    def look(self, now: float, published: int, subscriptions: Iterable[AnySubscription]) -> None:
        """Run what is due."""
        step_s = self._policy.health.step_s
        steps = int((now - self._looked_at) / step_s)
        if steps > 0:
            self._looked_at += steps * step_s
            for subscription in subscriptions:
                subscription.slide(published, steps)
                self.judge(now, published, subscription)
                self.alarm(now, subscription)
        if now >= self._reported_at + self._policy.report.interval_s:
            self.report(now, published, subscriptions)
        self.due = min(self._looked_at + step_s, self._reported_at + self._policy.report.interval_s)

    def judge(self, now: float, published: int, subscription: AnySubscription) -> None:
        """Judge a subscriber's health, and emit an event if it changed."""
        before = subscription.health
        lost_share = subscription.judge(published)
        if lost_share is not None:
            self._tell(
                HealthChanged(
                    at=now,
                    subscriber=subscription.id,
                    priority=subscription.priority,
                    before=before,
                    after=subscription.health,
                    lost_share=lost_share,
                )
            )

    def alarm(self, now: float, subscription: AnySubscription) -> None:
        """Emit an alarm for critical drops that no alarm has covered yet."""
        dropped = subscription.critical_dropped - subscription.alarmed
        if dropped:
            subscription.alarmed = subscription.critical_dropped
            self._tell(
                CriticalFramesDropped(
                    at=now,
                    subscriber=subscription.id,
                    dropped=dropped,
                    dropped_total=subscription.critical_dropped,
                )
            )

    def alarm_first(self, now: float, subscription: AnySubscription) -> bool:
        """Emit an alarm at once for the first critical drop since the last look; return whether it was the first."""
        if subscription.alarmed_at == self._looked_at:
            return False
        subscription.alarmed_at = self._looked_at
        self.alarm(now, subscription)
        return True

    def tallies(self, published: int, subscriptions: Iterable[AnySubscription]) -> dict[Priority, Tally]:
        """Return the sums of all frame counts per priority."""
        tallies = dict(self._departed)
        for subscription in subscriptions:
            tallies[subscription.priority] += _tally(subscription, published)
        return tallies

    def report(self, now: float, published: int, subscriptions: Iterable[AnySubscription]) -> None:
        """Emit a report of the frames since the last one."""
        tallies = self.tallies(published, subscriptions)
        self._tell(
            SheddingReported(
                at=now,
                since=self._reported_at,
                published=published - self._published_reported,
                priorities={priority: tallies[priority] - self._reported[priority] for priority in Priority},
            )
        )
        self._reported, self._reported_at, self._published_reported = tallies, now, published

    def remember(self, subscription: AnySubscription, published: int) -> None:
        """Keep the counts of a subscriber that leaves."""
        tally = self._departed[subscription.priority] + _tally(subscription, published)
        self._departed = {**self._departed, subscription.priority: tally}

    def report_lost(self, now: float, subscription: AnySubscription) -> None:
        """Emit an event for a subscriber whose channel was closed from outside."""
        self._tell(
            SubscriberLost(
                at=now,
                subscriber=subscription.id,
                priority=subscription.priority,
                reason=subscription.port.failure,
            )
        )

    def close(self) -> None:
        """Close the watchers' channels."""
        for watcher in self._watchers:
            watcher.close()

    def _tell(self, event: FrameBusEvent) -> None:
        for watcher in self._watchers:
            if not watcher.offer(event) and watcher.evict():
                watcher.offer(event)


def _tally(subscription: AnySubscription, published: int) -> Tally:
    return Tally(offered=subscription.offered(published), dropped=subscription.dropped, shed=subscription.shed)

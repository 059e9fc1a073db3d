"""One subscriber: its options and its counters.

Counters are plain integers that change only under the bus's lock. Frames sent are not counted one by one, which would
cost every publish: they are the frames published since the subscriber joined, less those it did not get.
"""

from typing import Generic

import msgspec

from tocsin.frames.health import Health, HealthGauge
from tocsin.frames.policy import FramesPolicy, OnFull, Priority
from tocsin.frames.port import F, Port


class SubscriberStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a subscriber; `sent + dropped` is the number of frames published since it joined."""

    #: Its priority.
    priority: Priority
    #: Frames that were put into its channel.
    sent: int
    #: Frames that it did not get, for any reason.
    dropped: int
    #: Dropped frames that were shed in favour of a more important subscriber.
    shed: int
    #: Dropped frames of a critical subscriber; more than 0 is an alarm.
    critical_dropped: int
    #: Frames waiting in its channel.
    depth: int
    #: Frames that its channel holds.
    capacity: int
    #: Health at the last look.
    health: Health


class Subscription(Generic[F]):
    """A subscriber on the bus."""

    __slots__ = (
        "_gauge",
        "_joined",
        "alarmed",
        "alarmed_at",
        "critical_dropped",
        "dropped",
        "evicts",
        "exerts_pressure",
        "id",
        "keeps_channel",
        "port",
        "priority",
        "refused_since",
        "shed",
        "shed_from",
        "stalled_after_s",
        "wait_s",
    )

    def __init__(
        self,
        id: str,  # noqa: A002 - the name in the interface
        port: Port[F],
        priority: Priority,
        on_full: OnFull,
        wait_s: float,
        policy: FramesPolicy,
        joined: int,
        *,
        keeps_channel: bool,
    ) -> None:
        self.id = id
        self.port = port
        self.priority = priority
        #: Fill of a more important channel from which this one is shed.
        self.shed_from = policy.shedding.threshold(priority)
        #: Time that a publisher waits for room here, seconds.
        self.wait_s = wait_s
        #: Whether the oldest frame is dropped for the newest.
        self.evicts = on_full is OnFull.DROP_OLDEST
        #: Whether a filling channel here sheds others. With DROP_OLDEST a full channel is normal, unless it is
        #: critical.
        self.exerts_pressure = priority is Priority.CRITICAL or not self.evicts
        #: Whether the channel belongs to the caller and stays open after the subscription.
        self.keeps_channel = keeps_channel
        #: Frames not received, the shed ones among them, and those lost by a critical subscriber.
        self.dropped = self.shed = self.critical_dropped = 0
        #: Critical drops that an alarm has covered.
        self.alarmed = 0
        #: Time of the look after which an alarm was raised at once; None before the first.
        self.alarmed_at: float | None = None
        #: Time since which its full channel takes no frame; None while it takes them.
        self.refused_since: float | None = None
        self.stalled_after_s = policy.shedding.stalled_after_s
        self._joined = joined
        self._gauge = HealthGauge(policy.health)

    @property
    def health(self) -> Health:
        """Return its health at the last look."""
        return self._gauge.health

    def stalled(self, now: float) -> bool:
        """Return whether it is stalled, so that neither waiting nor shedding others would help it."""
        return self.refused_since is not None and now - self.refused_since >= self.stalled_after_s

    def accept(self) -> None:
        """Record that its channel took a frame."""
        if self.refused_since is not None:
            self.refused_since = None
            self.port.settle()

    def count_shed(self) -> None:
        """Count a frame shed in favour of a more important subscriber."""
        self.dropped += 1
        self.shed += 1

    def lose(self) -> None:
        """Count a frame lost to its own full channel."""
        self.dropped += 1
        if self.priority is Priority.CRITICAL:
            self.critical_dropped += 1

    def refuse(self, now: float) -> None:
        """Count a frame that found no room in time; the bus must ask its port until one does."""
        self.lose()
        if self.refused_since is None:
            self.refused_since = now
            self.port.settle()

    def offered(self, published: int) -> int:
        """Return the number of frames published since it joined."""
        return published - self._joined

    def slide(self, published: int, steps: int) -> None:
        """Move the window of its health."""
        self._gauge.slide(self.offered(published) - self.shed, self.dropped - self.shed, steps)

    def judge(self, published: int) -> float | None:
        """Judge its health; return the share lost if its state changed."""
        return self._gauge.judge(self.offered(published) - self.shed, self.dropped - self.shed)

    def stats(self, published: int) -> SubscriberStats:
        """Return its statistics."""
        return SubscriberStats(
            priority=self.priority,
            sent=self.offered(published) - self.dropped,
            dropped=self.dropped,
            shed=self.shed,
            critical_dropped=self.critical_dropped,
            depth=self.port.depth(),
            capacity=self.port.capacity,
            health=self.health,
        )

"""One subscriber: what it asked for, and what became of its frames.

Counters are plain integers that change only under the bus's lock. Frames sent are not counted one by one, which would
cost every publish: they are the frames published since the subscriber joined, less those it did not get.
"""

from typing import Generic

import msgspec

from tocsin.frames.health import Health, HealthGauge
from tocsin.frames.policy import FramesPolicy, OnFull, Priority
from tocsin.frames.port import F, Port


class SubscriberStats(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber's account; `sent + dropped` is the number of frames published since it joined."""

    #: Its priority.
    priority: Priority
    #: Frames that are in its channel or were.
    sent: int
    #: Frames that it did not get, for whatever reason.
    dropped: int
    #: Of the dropped: those shed for the sake of a more important subscriber.
    shed: int
    #: Of the dropped: those of a critical subscriber. Above 0 is an alarm.
    critical_dropped: int
    #: Frames that wait in its channel now.
    depth: int
    #: Frames that its channel holds.
    capacity: int
    #: Its health, as of the last look.
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
        "id",
        "keeps_channel",
        "port",
        "presses",
        "priority",
        "refused_since",
        "shed",
        "shed_from",
        "stalled_after_s",
        "wait_s",
    )

    def __init__(
        self,
        id: str,  # noqa: A002 - the word of the interface
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
        #: Fill of a more important channel from which on this one goes without.
        self.shed_from = policy.shedding.threshold(priority)
        #: How long a publisher waits for room here.
        self.wait_s = wait_s
        #: True when the oldest frame gives way to the newest.
        self.evicts = on_full is OnFull.DROP_OLDEST
        #: True when a filling channel here makes others go without. Where the latest frame wins, a full channel is how
        #: it should be; but not a critical one.
        self.presses = priority is Priority.CRITICAL or not self.evicts
        #: True when the channel is the caller's and stays open after the subscription.
        self.keeps_channel = keeps_channel
        #: Frames not received, of these the shed ones, and of these the ones lost by a critical subscriber.
        self.dropped = self.shed = self.critical_dropped = 0
        #: Critical drops that the alarm has told of.
        self.alarmed = 0
        #: The look after which the alarm was raised at once; None before the first.
        self.alarmed_at: float | None = None
        #: Since when its full channel takes no frame; None while it takes them.
        self.refused_since: float | None = None
        self.stalled_after_s = policy.shedding.stalled_after_s
        self._joined = joined
        self._gauge = HealthGauge(policy.health)

    @property
    def health(self) -> Health:
        """Its health, as of the last look."""
        return self._gauge.health

    def stalled(self, now: float) -> bool:
        """Say whether it takes nothing any more, so that neither waiting nor shedding others would help it."""
        return self.refused_since is not None and now - self.refused_since >= self.stalled_after_s

    def accept(self) -> None:
        """Note that its channel took a frame."""
        if self.refused_since is not None:
            self.refused_since = None
            self.port.settle()

    def go_without(self) -> None:
        """Count a frame shed for the sake of someone more important."""
        self.dropped += 1
        self.shed += 1

    def lose(self) -> None:
        """Count a frame lost to its own full channel."""
        self.dropped += 1
        if self.priority is Priority.CRITICAL:
            self.critical_dropped += 1

    def refuse(self, now: float) -> None:
        """Count a frame that found no room, in time or at all; its port is to be asked until one does."""
        self.lose()
        if self.refused_since is None:
            self.refused_since = now
            self.port.settle()

    def offered(self, published: int) -> int:
        """Count the frames published since it joined."""
        return published - self._joined

    def slide(self, published: int, steps: int) -> None:
        """Move the window of its health on."""
        self._gauge.slide(self.offered(published) - self.shed, self.dropped - self.shed, steps)

    def judge(self, published: int) -> float | None:
        """Judge its health anew; return the share lost if that changed its state."""
        return self._gauge.judge(self.offered(published) - self.shed, self.dropped - self.shed)

    def stats(self, published: int) -> SubscriberStats:
        """Render its account."""
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

"""Statistics and events of a frame bus.

Times are seconds of the bus's own clock; a consumer that stores events adds the wall-clock time when they arrive.
"""

from collections.abc import Mapping

import msgspec

from tocsin.frames.health import Health
from tocsin.frames.policy import Priority
from tocsin.frames.subscription import SubscriberStats


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the frames for the subscribers of one priority; a frame counts once per subscriber."""

    #: Frames published to them.
    offered: int = 0
    #: Frames that they did not get.
    dropped: int = 0
    #: Dropped frames that were shed in favour of a more important subscriber.
    shed: int = 0

    @property
    def sent(self) -> int:
        """Return the number of frames that reached their channels."""
        return self.offered - self.dropped

    @property
    def dropped_share(self) -> float:
        """Return the share of offered frames that were dropped, 0 if none was offered."""
        return self.dropped / self.offered if self.offered else 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            offered=self.offered + other.offered, dropped=self.dropped + other.dropped, shed=self.shed + other.shed
        )

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(
            offered=self.offered - other.offered, dropped=self.dropped - other.dropped, shed=self.shed - other.shed
        )


class BusStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the whole bus."""

    #: Frames published since the bus was created.
    published: int
    #: Statistics of the present subscribers, by id, most important first.
    subscribers: Mapping[str, SubscriberStats]
    #: Sums per priority, including subscribers that have left.
    priorities: Mapping[Priority, Tally]

    @property
    def critical_dropped(self) -> int:
        """Return the number of frames lost by critical subscribers; more than 0 is an alarm."""
        return self.priorities[Priority.CRITICAL].dropped


class FrameBusEvent(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="event"):
    """Base of the events of a frame bus."""

    #: Time of the event, seconds of the bus's clock.
    at: float


class CriticalFramesDropped(FrameBusEvent, frozen=True, kw_only=True):
    """A critical subscriber lost frames.

    The event is raised at once for the first lost frame, then for further ones at each step of the health window.
    """

    #: Subscriber that lost frames.
    subscriber: str
    #: Frames lost since the last such event.
    dropped: int
    #: Frames lost since it joined.
    dropped_total: int


class HealthChanged(FrameBusEvent, frozen=True, kw_only=True):
    """The health of a subscriber changed."""

    #: The subscriber.
    subscriber: str
    #: Its priority.
    priority: Priority
    #: State before.
    before: Health
    #: State after.
    after: Health
    #: Share of the frames in the window that its own full channel lost.
    lost_share: float


class SubscriberLost(FrameBusEvent, frozen=True, kw_only=True):
    """A subscriber was removed because its channel was closed or broken from outside."""

    #: The subscriber.
    subscriber: str
    #: Its priority.
    priority: Priority
    #: Problem with its channel.
    reason: str


class SheddingReported(FrameBusEvent, frozen=True, kw_only=True):
    """A report of drop counts per priority since the previous report."""

    #: Beginning of the period.
    since: float
    #: Frames published in the period.
    published: int
    #: Counts per priority in the period.
    priorities: Mapping[Priority, Tally]

"""What the bus says about itself: accounts on request, events to those who watch.

Times are of the bus's own clock, in seconds; who keeps events stamps them with the wall clock when they arrive.
"""

from collections.abc import Mapping

import msgspec

from tocsin.frames.health import Health
from tocsin.frames.policy import Priority
from tocsin.frames.subscription import SubscriberStats


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the frames of one priority's subscribers; a frame counts once per subscriber."""

    #: Frames published to them.
    offered: int = 0
    #: Frames that they did not get.
    dropped: int = 0
    #: Of the dropped: those shed for the sake of someone more important.
    shed: int = 0

    @property
    def sent(self) -> int:
        """Frames that reached their channels."""
        return self.offered - self.dropped

    @property
    def dropped_share(self) -> float:
        """Share of the offered frames that were dropped, 0 when none was offered."""
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
    """The whole bus's account."""

    #: Frames published since the bus was made.
    published: int
    #: Accounts of those who are subscribed now, by id, most important first.
    subscribers: Mapping[str, SubscriberStats]
    #: Sums per priority, of those who left too.
    priorities: Mapping[Priority, Tally]

    @property
    def critical_dropped(self) -> int:
        """Frames lost by critical subscribers; above 0 is an alarm."""
        return self.priorities[Priority.CRITICAL].dropped


class FrameBusEvent(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="event"):
    """Something that happened on the bus."""

    #: When, by the bus's clock.
    at: float


class CriticalFramesDropped(FrameBusEvent, frozen=True, kw_only=True):
    """The alarm: a critical subscriber lost frames.

    It comes at once for the first of them, then for more at each step of the health window.
    """

    #: Whose.
    subscriber: str
    #: Frames lost since the last alarm.
    dropped: int
    #: Frames lost since it joined.
    dropped_total: int


class HealthChanged(FrameBusEvent, frozen=True, kw_only=True):
    """A subscriber's health is another than before."""

    #: Whose.
    subscriber: str
    #: Its priority.
    priority: Priority
    #: The state it left.
    before: Health
    #: The state it entered.
    after: Health
    #: Share of the frames in the window that its own full channel lost.
    lost_share: float


class SubscriberLost(FrameBusEvent, frozen=True, kw_only=True):
    """The bus unsubscribed someone whose channel was closed, or broken, from outside."""

    #: Who.
    subscriber: str
    #: Its priority.
    priority: Priority
    #: What was wrong with its channel.
    reason: str


class SheddingReported(FrameBusEvent, frozen=True, kw_only=True):
    """Drop counts per priority since the report before: what shows whether shedding protects whom it should."""

    #: When the time that it covers began.
    since: float
    #: Frames published in that time.
    published: int
    #: Counts per priority in that time.
    priorities: Mapping[Priority, Tally]

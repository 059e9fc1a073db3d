"""Events of frame buses."""

from tocsin.core.events.base import EventBase

__all__ = ["FramesShed"]


class FramesShed(EventBase, frozen=True):
    """A frame bus reported the frames of a period for one subscriber priority; a frame counts once per subscriber."""

    #: Subscriber priority: `critical`, `high`, `normal` or `best_effort`.
    subscriber_priority: str
    #: Beginning of the period.
    since: int
    #: Frames published in the period, to any subscriber.
    published: int
    #: Frames offered to subscribers of this priority.
    offered: int
    #: Offered frames that they did not get.
    dropped: int
    #: Dropped frames that were shed in favour of more important subscribers.
    shed: int

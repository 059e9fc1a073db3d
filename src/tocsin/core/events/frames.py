"""What a frame bus of the project tells the journal of itself."""

from tocsin.core.events.base import EventBase

__all__ = ["FramesShed"]


class FramesShed(EventBase, frozen=True):
    """What became of a while's frames for the subscribers of one priority; a frame counts once per subscriber."""

    #: Whose: `critical`, `high`, `normal` or `best_effort`.
    subscriber_priority: str
    #: When the time that it covers began.
    since: int
    #: Frames published in that time, to whomever.
    published: int
    #: Frames that were meant for them.
    offered: int
    #: Of those, that they did not get.
    dropped: int
    #: Of those, that were shed for the sake of someone more important.
    shed: int

"""What all events have in common."""

import msgspec

__all__ = ["EventBase"]


class EventBase(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Base of all events; the first array item on disk is the class name."""

    #: When it happened, microseconds since the epoch.
    at: int

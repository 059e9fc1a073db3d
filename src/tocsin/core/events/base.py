"""Base class of all events."""

import msgspec

__all__ = ["EventBase"]


class EventBase(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Base of all events; the first array item on disk is the class name."""

    #: Time of the event, microseconds since the epoch.
    at: int

"""What can go wrong on the frame bus, split by what the caller can do next.

FrameBusError
├── BusClosedError            the bus is gone: stop publishing
├── SubscribeError            the subscription was refused and nothing changed: correct the call
│   ├── DuplicateSubscriberError
│   ├── InvalidSubscriberError
│   ├── TooManySubscribersError   (retryable: someone may leave)
│   └── UnfitChannelError
├── UnknownSubscriberError    nobody of that id is here
├── ChannelError              the reader's side
│   ├── ChannelClosedError    no frame will come any more
│   └── ChannelEmptyError     (retryable: no frame yet)
└── RingError                 shared memory
    ├── FrameTooLargeError
    └── FrameOverwrittenError     (retryable: the next frame is there already)
"""

from typing import ClassVar


class FrameBusError(Exception):
    """Any error of the frame bus."""

    #: Stable name for logs and for mapping at a gateway.
    code: ClassVar[str] = "frames_error"
    #: True when the same call can succeed later.
    retryable: ClassVar[bool] = False


class BusClosedError(FrameBusError):
    """The bus has been closed."""

    code = "frames_bus_closed"

    def __init__(self) -> None:
        super().__init__("the frame bus is closed")


class SubscribeError(FrameBusError):
    """A subscription was refused; the bus is as it was."""

    code = "frames_subscribe_refused"

    def __init__(self, subscriber: str, why: str) -> None:
        super().__init__(f"cannot subscribe {subscriber!r}: {why}")
        #: The id that was asked for.
        self.subscriber = subscriber


class DuplicateSubscriberError(SubscribeError):
    """The id is taken."""

    code = "frames_duplicate_subscriber"

    def __init__(self, subscriber: str) -> None:
        super().__init__(subscriber, "this id is subscribed already")


class InvalidSubscriberError(SubscribeError):
    """The id or an option cannot be used."""

    code = "frames_invalid_subscriber"


class TooManySubscribersError(SubscribeError):
    """The bus has as many subscribers as its policy allows."""

    code = "frames_too_many_subscribers"
    retryable = True

    def __init__(self, subscriber: str, subscribers_max: int) -> None:
        super().__init__(subscriber, f"the bus has {subscribers_max} subscribers already, its limit")
        #: The limit, from policy.
        self.subscribers_max = subscribers_max


class UnfitChannelError(SubscribeError):
    """The channel is unbounded, closed, in use, or lacks what the subscription needs of it."""

    code = "frames_unfit_channel"


class UnknownSubscriberError(FrameBusError):
    """No subscriber has this id."""

    code = "frames_unknown_subscriber"

    def __init__(self, subscriber: str) -> None:
        super().__init__(f"no subscriber {subscriber!r}")
        #: The id that was asked for.
        self.subscriber = subscriber


class ChannelError(FrameBusError):
    """A reader cannot have a frame."""

    code = "frames_channel"


class ChannelClosedError(ChannelError):
    """The channel is closed and read to its end."""

    code = "frames_channel_closed"

    def __init__(self) -> None:
        super().__init__("the channel is closed and read to its end")


class ChannelEmptyError(ChannelError):
    """No frame is there, or none came in time."""

    code = "frames_channel_empty"
    retryable = True

    def __init__(self) -> None:
        super().__init__("no frame in the channel")


class RingError(FrameBusError):
    """A frame cannot be kept in, or had from, shared memory."""

    code = "frames_ring"


class FrameTooLargeError(RingError):
    """The frame is longer than a slot of the ring."""

    code = "frames_frame_too_large"

    def __init__(self, size: int, slot_bytes: int) -> None:
        super().__init__(f"a frame of {size} bytes does not fit into a slot of {slot_bytes}")
        #: Bytes of the refused frame.
        self.size = size
        #: Bytes that a slot holds.
        self.slot_bytes = slot_bytes


class FrameOverwrittenError(RingError):
    """The ring has gone round and the frame's slot holds a later one."""

    code = "frames_frame_overwritten"
    retryable = True

    def __init__(self, sequence: int) -> None:
        super().__init__(f"frame {sequence} was overwritten before it was read")
        #: Number of the lost frame in its ring.
        self.sequence = sequence

"""Exceptions of the frame bus, split by what the caller can do next.

FrameBusError
├── BusClosedError            the bus is closed: stop publishing
├── SubscribeError            the subscription was refused and nothing changed: correct the call
│   ├── DuplicateSubscriberError
│   ├── InvalidSubscriberError
│   ├── TooManySubscribersError   (retryable: a subscriber may leave)
│   └── UnfitChannelError
├── UnknownSubscriberError    no subscriber has this id
├── ChannelError              the reader's side
│   ├── ChannelClosedError    no more frames will come
│   └── ChannelEmptyError     (retryable: no frame yet)
└── RingError                 shared memory
    ├── FrameTooLargeError
    └── FrameOverwrittenError     (retryable: read the next frame)
"""

from typing import ClassVar


class FrameBusError(Exception):
    """Any error of the frame bus."""

    #: Stable name for logs and for mapping at a gateway.
    code: ClassVar[str] = "frames_error"
    #: Whether the same call can succeed later.
    retryable: ClassVar[bool] = False


class BusClosedError(FrameBusError):
    """The bus has been closed."""

    code = "frames_bus_closed"

    def __init__(self) -> None:
        super().__init__("the frame bus is closed")


class SubscribeError(FrameBusError):
    """A subscription was refused; the bus is unchanged."""

    code = "frames_subscribe_refused"

    def __init__(self, subscriber: str, why: str) -> None:
        super().__init__(f"cannot subscribe {subscriber!r}: {why}")
        #: Requested id.
        self.subscriber = subscriber


class DuplicateSubscriberError(SubscribeError):
    """The id is already subscribed."""

    code = "frames_duplicate_subscriber"

    def __init__(self, subscriber: str) -> None:
        super().__init__(subscriber, "this id is already subscribed")


class InvalidSubscriberError(SubscribeError):
    """The id or an option is invalid."""

    code = "frames_invalid_subscriber"


class TooManySubscribersError(SubscribeError):
    """The bus has reached its limit of subscribers."""

    code = "frames_too_many_subscribers"
    retryable = True

    def __init__(self, subscriber: str, subscribers_max: int) -> None:
        super().__init__(subscriber, f"the bus has reached its limit of {subscribers_max} subscribers")
        #: Limit from the policy.
        self.subscribers_max = subscribers_max


class UnfitChannelError(SubscribeError):
    """The channel is unbounded, closed, in use, or lacks a method that the subscription needs."""

    code = "frames_unfit_channel"


class UnknownSubscriberError(FrameBusError):
    """No subscriber has this id."""

    code = "frames_unknown_subscriber"

    def __init__(self, subscriber: str) -> None:
        super().__init__(f"no subscriber {subscriber!r}")
        #: Requested id.
        self.subscriber = subscriber


class ChannelError(FrameBusError):
    """A reader cannot get a frame."""

    code = "frames_channel"


class ChannelClosedError(ChannelError):
    """The channel is closed and has no frames left."""

    code = "frames_channel_closed"

    def __init__(self) -> None:
        super().__init__("the channel is closed and has no frames left")


class ChannelEmptyError(ChannelError):
    """There is no frame, or none came in time."""

    code = "frames_channel_empty"
    retryable = True

    def __init__(self) -> None:
        super().__init__("no frame in the channel")


class RingError(FrameBusError):
    """A frame cannot be written to or read from shared memory."""

    code = "frames_ring"


class FrameTooLargeError(RingError):
    """The frame is larger than a slot of the ring."""

    code = "frames_frame_too_large"

    def __init__(self, size: int, slot_bytes: int) -> None:
        super().__init__(f"a frame of {size} bytes does not fit into a slot of {slot_bytes} bytes")
        #: Size of the refused frame, bytes.
        self.size = size
        #: Size of a slot, bytes.
        self.slot_bytes = slot_bytes


class FrameOverwrittenError(RingError):
    """The frame's slot was reused for a later frame."""

    code = "frames_frame_overwritten"
    retryable = True

    def __init__(self, sequence: int) -> None:
        super().__init__(f"frame {sequence} was overwritten before it was read")
        #: Number of the lost frame in its ring.
        self.sequence = sequence

"""The frame bus: fan-out of frames, tokens or telemetry to subscribers, with load shedding by priority.

    bus = FrameBus()
    channel = bus.subscribe("person-detector", priority=Priority.CRITICAL)
    bus.publish(frame)

It imports nothing else of Tocsin and can be used on its own. A reading order: `policy`, `bus`, `shedding`, `port`,
`channel`, then `foreign` and `ring`.
"""

from tocsin.frames.bus import FrameBus
from tocsin.frames.channel import Channel
from tocsin.frames.errors import ChannelClosedError, ChannelEmptyError
from tocsin.frames.events import (
    BusStats,
    CriticalFramesDropped,
    FrameBusEvent,
    HealthChanged,
    SheddingReported,
    SubscriberLost,
    Tally,
)
from tocsin.frames.health import Health
from tocsin.frames.policy import (
    ChannelPolicy,
    FramesPolicy,
    HealthPolicy,
    OnFull,
    Priority,
    ReportPolicy,
    SheddingPolicy,
    WaitPolicy,
)
from tocsin.frames.ring import FrameRing, RingChannel, RingFrame, RingReader
from tocsin.frames.subscription import SubscriberStats

__all__ = [
    "BusStats",
    "Channel",
    "ChannelClosedError",
    "ChannelEmptyError",
    "ChannelPolicy",
    "CriticalFramesDropped",
    "FrameBus",
    "FrameBusEvent",
    "FrameRing",
    "FramesPolicy",
    "Health",
    "HealthChanged",
    "HealthPolicy",
    "OnFull",
    "Priority",
    "ReportPolicy",
    "RingChannel",
    "RingFrame",
    "RingReader",
    "SheddingPolicy",
    "SheddingReported",
    "SubscriberLost",
    "SubscriberStats",
    "Tally",
    "WaitPolicy",
]

"""The frame bus: fan-out of frames, tokens or telemetry that sheds load where it hurts least. Usable on its own."""

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

__all__ = [
    "ChannelPolicy",
    "FramesPolicy",
    "HealthPolicy",
    "OnFull",
    "Priority",
    "ReportPolicy",
    "SheddingPolicy",
    "WaitPolicy",
]

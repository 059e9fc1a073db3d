"""What all concerns have in common: their base, the ranges of their numbers, and whole microseconds."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core.errors import refusal
from tocsin.core.protocol.priority import Priority, liminal_name

__all__ = [
    "Amount",
    "Concern",
    "Count",
    "Levels",
    "Pause",
    "Retries",
    "Seconds",
    "Share",
    "level_named",
    "microseconds",
]

#: Between the core's grain, a microsecond, and a century: what can be counted.
Seconds = Annotated[float, Meta(ge=1e-6, le=3.2e9)]
Pause = Annotated[float, Meta(ge=0, le=3.2e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=10**12)]
Retries = Annotated[int, Meta(ge=0, le=1000)]
Amount = Annotated[float, Meta(ge=1e-6, le=1e12)]
Levels = dict[str, Annotated[float, Meta(ge=0, le=1e12)]]


def microseconds(seconds: float) -> int:
    """Turn seconds into whole microseconds."""
    return round(seconds * 1_000_000)


class Concern(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Base of one concern's settings."""


def level_named(name: str) -> Priority:
    """Return the priority that a policy names."""
    for level in Priority:
        if liminal_name(level) == name:
            return level
    raise refusal("E_POLICY_001", f"{name!r} is no priority", expected=", ".join(map(liminal_name, Priority)))

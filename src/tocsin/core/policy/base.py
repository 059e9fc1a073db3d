"""Base class of policy structs, the ranges of their numbers, and conversion to microseconds."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core.errors import refusal
from tocsin.core.protocol.priority import Priority, priority_name

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

#: From one microsecond, the core's resolution, to a century.
Seconds = Annotated[float, Meta(ge=1e-6, le=3.2e9)]
Pause = Annotated[float, Meta(ge=0, le=3.2e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=10**12)]
Retries = Annotated[int, Meta(ge=0, le=1000)]
Amount = Annotated[float, Meta(ge=1e-6, le=1e12)]
Levels = dict[str, Annotated[float, Meta(ge=0, le=1e12)]]


def microseconds(seconds: float) -> int:
    """Convert seconds to whole microseconds."""
    return round(seconds * 1_000_000)


class Concern(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Base of the settings of one subject."""


def level_named(name: str) -> Priority:
    """Return the priority of a name in a policy."""
    for level in Priority:
        if priority_name(level) == name:
            return level
    raise refusal("E_POLICY_001", f"{name!r} is not a priority", expected=", ".join(map(priority_name, Priority)))

"""The priority scale, and the vocabularies of the wire that map onto it.

Inside Tocsin there is one scale (LIMINAL's). The cost of a level is policy, not part of the scale.
"""

from enum import IntEnum
from typing import Literal, TypeAlias

__all__ = [
    "APM_VOCABULARY",
    "PRIORITY_NAMES",
    "VOCABULARY",
    "AnyPriorityName",
    "Priority",
    "PriorityName",
    "apm_name",
    "category",
    "priority_name",
]

#: A priority, by its name.
PriorityName: TypeAlias = Literal["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"]
#: A priority by its name in any version of the protocol: replies use the version of their caller.
AnyPriorityName: TypeAlias = Literal[
    "Info", "Coordinate", "Blocking", "Critical", "DirectorOverride", "LOW", "NORMAL", "HIGH"
]


class Priority(IntEnum):
    """Urgency of a message; higher goes first."""

    #: Telemetry, logs, non-urgent discussion.
    INFO = 0
    #: Tasking, leases, routine operations.
    COORDINATE = 1
    #: The sender is blocked until it is addressed.
    BLOCKING = 2
    #: System failures, urgent alerts.
    CRITICAL = 3
    #: Absolute priority, for directors and humans only.
    DIRECTOR_OVERRIDE = 4

    def boost(self, levels: int, top: "Priority | None" = None) -> "Priority":
        """Return the priority raised by `levels`, at most to `top`: never lower, and never up to DirectorOverride."""
        most = Priority.CRITICAL if top is None else min(top, Priority.CRITICAL)
        return max(self, Priority(min(self + levels, most)))

    def can_preempt(self, other: "Priority") -> bool:
        """Return whether it may interrupt work at `other`: two levels higher, or an override."""
        return self is Priority.DIRECTOR_OVERRIDE or self > other + 1


#: Names by level.
PRIORITY_NAMES: tuple[PriorityName, ...] = ("Info", "Coordinate", "Blocking", "Critical", "DirectorOverride")
_CATEGORY = ("INFO", "TASK", "ASK", "BLOCKER")
_APM = ("LOW", "NORMAL", "HIGH", "HIGH", "HIGH")

#: Names of protocol version 1.0.0, with their priority on arrival.
APM_VOCABULARY: dict[str, Priority] = {
    "LOW": Priority.INFO,
    "NORMAL": Priority.COORDINATE,
    "HIGH": Priority.BLOCKING,
}

#: Names accepted in protocol version 1.1.0.
VOCABULARY: dict[str, Priority] = {
    **APM_VOCABULARY,
    **{name: Priority(level) for level, name in enumerate(PRIORITY_NAMES)},
    **{name: Priority(level) for level, name in enumerate(_CATEGORY)},
}


def priority_name(priority: int) -> PriorityName:
    """Return the name in protocol version 1.1.0."""
    return PRIORITY_NAMES[priority]


def apm_name(priority: int) -> str:
    """Return the name in protocol version 1.0.0."""
    return _APM[priority]


def category(priority: int) -> str:
    """Return the signal category; an override counts as BLOCKER."""
    return _CATEGORY[min(priority, Priority.CRITICAL)]

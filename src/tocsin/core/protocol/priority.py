"""The one priority scale, and the vocabularies of the wire that map onto it.

Inside Tocsin there is only LIMINAL's scale. What it costs to use a level is policy, not part of the scale.
"""

from enum import IntEnum
from typing import Literal, TypeAlias

__all__ = [
    "APM_VOCABULARY",
    "PRIORITY_NAMES",
    "VOCABULARY",
    "Priority",
    "PriorityName",
    "apm_name",
    "category",
    "liminal_name",
]

#: A priority, by its name.
PriorityName: TypeAlias = Literal["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"]


class Priority(IntEnum):
    """How urgent a message is; higher goes first."""

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

    def boost(self, levels: int) -> "Priority":
        """Raise by `levels`: never down, never to DirectorOverride by boosting."""
        return max(self, Priority(min(self + levels, Priority.CRITICAL)))

    def can_preempt(self, other: "Priority") -> bool:
        """Tell whether work at `other` may be interrupted: two levels higher, or an override."""
        return self is Priority.DIRECTOR_OVERRIDE or self > other + 1


#: Names by level.
PRIORITY_NAMES: tuple[PriorityName, ...] = ("Info", "Coordinate", "Blocking", "Critical", "DirectorOverride")
_CATEGORY = ("INFO", "TASK", "ASK", "BLOCKER")
_APM = ("LOW", "NORMAL", "HIGH", "HIGH", "HIGH")

#: APM 1.0.0 names, and what they mean on arrival.
APM_VOCABULARY: dict[str, Priority] = {
    "LOW": Priority.INFO,
    "NORMAL": Priority.COORDINATE,
    "HIGH": Priority.BLOCKING,
}

#: Every name that the 1.1.0 wire takes.
VOCABULARY: dict[str, Priority] = {
    **APM_VOCABULARY,
    **{name: Priority(level) for level, name in enumerate(PRIORITY_NAMES)},
    **{name: Priority(level) for level, name in enumerate(_CATEGORY)},
}


def liminal_name(priority: int) -> PriorityName:
    """Return the name that 1.1.0 agents see."""
    return PRIORITY_NAMES[priority]


def apm_name(priority: int) -> str:
    """Return the name that 1.0.0 agents see."""
    return _APM[priority]


def category(priority: int) -> str:
    """Return SPEC-071's category; an override has none of its own and counts as BLOCKER."""
    return _CATEGORY[min(priority, Priority.CRITICAL)]

"""Who asks, and what all commands have in common."""

import msgspec

__all__ = [
    "SYSTEM",
    "Caller",
    "CommandBase",
]


class Caller(msgspec.Struct, frozen=True):
    """Who asks, as the token says."""

    agent: str
    #: `director`, `primary`, `clone`, `human`, or `system` for the bus itself.
    role: str


#: The bus itself: its timers, its first policy, its notices.
SYSTEM = Caller("tocsin", "system")


class CommandBase(msgspec.Struct, frozen=True):
    """Base of all commands."""

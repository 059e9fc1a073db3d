"""Commands that adopt a policy and advance the timers, and their replies."""

from typing import Any

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["AdoptPolicy", "Adopted", "Done", "Tick", "Ticked"]


class AdoptPolicy(CommandBase, frozen=True):
    """Adopt a policy."""

    #: A complete policy document.
    policy: Any
    reason: str


class Tick(CommandBase, frozen=True):
    """Process all timers that are due."""


class Adopted(msgspec.Struct, frozen=True):
    """The version of an adopted policy."""

    version: int


class Ticked(msgspec.Struct, frozen=True):
    """Timers that were processed."""

    fired: int
    #: When the next timer is due, microseconds since the epoch.
    next_due: int | None


class Done(msgspec.Struct, frozen=True):
    """Success, without further information."""

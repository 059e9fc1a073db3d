"""Governing a project, and what comes back."""

from typing import Any

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = [
    "AdoptPolicy",
    "Adopted",
    "Done",
    "Tick",
    "Ticked",
]


class AdoptPolicy(CommandBase, frozen=True):
    """Run the project by this policy from now on."""

    #: A whole policy document.
    policy: Any
    reason: str


class Tick(CommandBase, frozen=True):
    """Let what is due happen."""


class Adopted(msgspec.Struct, frozen=True):
    """The policy is in force."""

    version: int


class Ticked(msgspec.Struct, frozen=True):
    """What was due has happened."""

    fired: int
    #: When the next thing is due.
    next_due: int | None


class Done(msgspec.Struct, frozen=True):
    """It is done, and there is nothing to add."""

"""Opening a discussion, speaking and voting in it, and what comes back."""

from typing import Literal

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["CancelDiscussion", "Discussed", "OpenDiscussion", "Speak", "Vote"]


class OpenDiscussion(CommandBase, frozen=True):
    """Ask others to come to a common view."""

    question: str
    participants: tuple[str, ...]
    options: tuple[str, ...] = ("agree", "disagree")
    #: How many must have voted; the policy's where it is not said.
    voters_min: int | None = None
    consensus: Literal["majority", "two_thirds", "unanimous"] = "majority"
    #: Seconds; the policy's, which is also the longest, where it is not said.
    max_s: float | None = None


class Speak(CommandBase, frozen=True):
    """Say something in a discussion."""

    discussion: str
    text: str


class Vote(CommandBase, frozen=True):
    """Vote, or vote otherwise than before."""

    discussion: str
    option: str


class CancelDiscussion(CommandBase, frozen=True):
    """End a discussion without an outcome: its opener, or a director."""

    discussion: str


class Discussed(msgspec.Struct, frozen=True):
    """How the discussion stands."""

    discussion: str
    #: `open`, `ratifying`, or how it ended.
    state: str
    #: Votes by option.
    votes: dict[str, int]
    #: What was agreed on.
    option: str | None = None

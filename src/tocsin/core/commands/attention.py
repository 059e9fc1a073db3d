"""Commands that report what an agent works on, and their replies."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase, MessageRef

__all__ = ["Attending", "BeginWork", "FinishWork", "PutAside", "ReachPausePoint", "ResumeWork", "Resumed"]


class BeginWork(CommandBase, frozen=True):
    """Start working on a message; only interrupts are delivered until the work ends."""

    message_id: Annotated[MessageRef, Meta(description="The message to work on.")]
    interruptible: Annotated[bool, Meta(description="Whether it may be interrupted between pause points.")] = True


class ReachPausePoint(CommandBase, frozen=True):
    """Report that the work can be interrupted now, and learn whether a message interrupts it."""

    stay: Annotated[bool, Meta(description="Stay at the pause point until the work is resumed or put aside.")] = False


class PutAside(CommandBase, frozen=True):
    """Put the current work aside and save notes that are returned when it is resumed."""

    saved: Annotated[str, Meta(description="Notes to return when the work is resumed.")] = ""


class ResumeWork(CommandBase, frozen=True):
    """Resume work that was put aside, or continue from a pause point."""

    message_id: Annotated[
        MessageRef | None, Meta(description="The work to resume; the most recent one by default.")
    ] = None


class FinishWork(CommandBase, frozen=True):
    """Finish the current work."""

    processed: Annotated[bool, Meta(description="Mark the message as processed as well.")] = True


class Attending(msgspec.Struct, frozen=True):
    """What an agent is working on."""

    #: `idle`, `processing` or `pause_point`.
    status: str
    #: messageId of the current work.
    working_on: str | None = None
    #: messageId of the message that interrupts the work: put the work aside, then work on that.
    interrupted_by: str | None = None
    #: messageIds of work put aside, the most recent last.
    aside: tuple[str, ...] = ()


class Resumed(msgspec.Struct, frozen=True):
    """Work that was resumed."""

    message_id: str
    #: Notes saved when it was put aside.
    saved: str
    interruptible: bool
    #: Whether these notes were returned before.
    duplicate: bool = False

"""What an agent says of its attention, and what comes back."""

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = [
    "Attending",
    "BeginWork",
    "FinishWork",
    "PutAside",
    "ReachPausePoint",
    "ResumeWork",
    "Resumed",
]


class BeginWork(CommandBase, frozen=True):
    """Say that one works on a message from now on; that acknowledges it."""

    message_id: str
    #: Whether the work may be interrupted outside pause points.
    interruptible: bool = True


class ReachPausePoint(CommandBase, frozen=True):
    """Say that the work could safely be interrupted now."""

    #: Whether one stays there, until the work is resumed or put aside; else it is a moment's question.
    stay: bool = False


class PutAside(CommandBase, frozen=True):
    """Put the work aside for what interrupts it, or for nothing; what is saved comes back with `ResumeWork`."""

    saved: bytes = b""


class ResumeWork(CommandBase, frozen=True):
    """Go on: from a pause point, past an interrupt, or with work put aside."""

    #: Which work put aside; the latest where it is not said.
    message_id: str | None = None


class FinishWork(CommandBase, frozen=True):
    """Say that the work is done."""

    #: Whether the message is processed with it.
    processed: bool = True


class Attending(msgspec.Struct, frozen=True):
    """What the agent is busy with now."""

    #: `idle`, `processing` or `pause_point`.
    status: str
    #: messageId of what it works on.
    working_on: str | None = None
    #: messageId of what interrupts it: put the work aside, then work on that.
    interrupted_by: str | None = None
    #: messageIds of work put aside, the latest last.
    aside: tuple[str, ...] = ()


class Resumed(msgspec.Struct, frozen=True):
    """The work goes on."""

    message_id: str
    #: What was saved of it.
    saved: bytes
    interruptible: bool
    #: Whether this had been given back before: the same again, for an agent that missed the reply.
    duplicate: bool = False

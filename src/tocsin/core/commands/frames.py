"""What the owner of a frame bus reports."""

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["FrameTally", "ReportShedding"]


class FrameTally(msgspec.Struct, frozen=True):
    """What became of the frames of one priority's subscribers."""

    offered: int
    dropped: int
    shed: int


class ReportShedding(CommandBase, frozen=True):
    """Write down what a frame bus dropped since its last report: its `SheddingReported`, with the times of the wall."""

    #: When the time that it covers began.
    since: int
    #: Frames published in that time.
    published: int
    #: By subscriber priority: `critical`, `high`, `normal`, `best_effort`.
    tallies: dict[str, FrameTally]

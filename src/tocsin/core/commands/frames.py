"""The command that records frames dropped by a frame bus."""

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["FrameTally", "ReportShedding"]


class FrameTally(msgspec.Struct, frozen=True):
    """Frame counts of the subscribers of one priority."""

    offered: int
    dropped: int
    shed: int


class ReportShedding(CommandBase, frozen=True):
    """Record the frames that a frame bus dropped since its last report."""

    #: Start of the reported period, microseconds since the epoch.
    since: int
    #: Frames published in that period.
    published: int
    #: By subscriber priority: `critical`, `high`, `normal`, `best_effort`.
    tallies: dict[str, FrameTally]

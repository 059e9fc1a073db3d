"""Reporting how healthy a project is, and what comes back."""

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["HealthTaken", "ReportHealth"]


class ReportHealth(CommandBase, frozen=True):
    """Say what was measured: by the hub, or by whoever starts agents."""

    #: By metric; durations in seconds.
    values: dict[str, float]


class HealthTaken(msgspec.Struct, frozen=True):
    """What is wrong now."""

    #: Metrics with an alert.
    alerts: tuple[str, ...]

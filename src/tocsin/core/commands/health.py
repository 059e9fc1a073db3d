"""The command that reports health measurements, and its reply."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase

__all__ = ["HealthReported", "ReportHealth"]


class ReportHealth(CommandBase, frozen=True):
    """Report health measurements from outside the hub, such as the start-up time of clones."""

    values: Annotated[dict[str, float], Meta(description="Measurements by metric; durations in seconds.")]


class HealthReported(msgspec.Struct, frozen=True):
    """Alerts after a health report."""

    #: Metrics with an active alert.
    alerts: tuple[str, ...]

"""What directors and humans do about escalations, and what comes back."""

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["EscalateToHuman", "Escalated", "ResolveEscalation"]


class ResolveEscalation(CommandBase, frozen=True):
    """Say that something has been taken care of."""

    escalation: str
    #: How.
    resolution: str


class EscalateToHuman(CommandBase, frozen=True):
    """Bring something before a human."""

    escalation: str
    reason: str = ""


class Escalated(msgspec.Struct, frozen=True):
    """Where the escalation is now."""

    escalation: str
    state: str

"""Commands that resolve escalations or pass them to a human, and their reply."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase, Name

__all__ = ["EscalateToHuman", "Escalated", "ResolveEscalation"]

_Escalation = Annotated[Name, Meta(description="Id of the escalation.")]


class ResolveEscalation(CommandBase, frozen=True):
    """Close an escalation and record how it was resolved."""

    escalation: _Escalation
    resolution: Annotated[str, Meta(description="How it was resolved.")]


class EscalateToHuman(CommandBase, frozen=True):
    """Pass an escalation to a human."""

    escalation: _Escalation
    reason: Annotated[str, Meta(description="Why a human should look at it.")] = ""


class Escalated(msgspec.Struct, frozen=True):
    """State of an escalation after a change."""

    escalation: str
    state: str

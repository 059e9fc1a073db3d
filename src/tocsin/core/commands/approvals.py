"""Asking a director first, a director's word, and what comes back."""

from typing import Literal

import msgspec

from tocsin.core.commands.base import CommandBase

__all__ = ["ApprovalAsked", "ApprovalDecided", "AskApproval", "DecideApproval", "WithdrawApproval"]


class AskApproval(CommandBase, frozen=True):
    """Ask the directors before doing something, and wait for their word."""

    #: `plan_approval`, `lease_override`, `pre_merge_review` or `ratification`.
    handoff: str
    #: What for.
    subject: str
    details: str = ""


class DecideApproval(CommandBase, frozen=True):
    """Give a director's word."""

    approval: str
    verdict: Literal["approve", "refuse"]
    #: Why; a refusal must say.
    reason: str = ""
    #: The payload, as JSON, with which a held message goes instead of its own.
    payload: bytes | None = None


class WithdrawApproval(CommandBase, frozen=True):
    """Want it no longer; a held message is recalled instead."""

    approval: str


class ApprovalAsked(msgspec.Struct, frozen=True):
    """The directors are asked."""

    approval: str
    #: When their time is over.
    due_at: int


class ApprovalDecided(msgspec.Struct, frozen=True):
    """The word stands."""

    approval: str
    outcome: str

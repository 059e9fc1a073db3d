"""Commands that request, decide and withdraw approvals, and their replies."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase, Json, Name

__all__ = ["ApprovalDecided", "ApprovalRequested", "DecideApproval", "Handoff", "RequestApproval", "WithdrawApproval"]

#: Points at which work is handed to a director for approval.
Handoff: TypeAlias = Literal["plan_approval", "lease_override", "pre_merge_review", "ratification", "tool_permission"]
_Approval = Annotated[Name, Meta(description="Id of the approval request.")]


class RequestApproval(CommandBase, frozen=True):
    """Ask the directors to approve something before it is done."""

    handoff: Annotated[Handoff, Meta(description="Kind of approval.")]
    subject: Annotated[str, Meta(description="What needs approval; for lease_override, the id of the lease.")]
    details: Annotated[str, Meta(description="Details that help the director decide.")] = ""


class DecideApproval(CommandBase, frozen=True):
    """Approve or refuse an approval request."""

    approval: _Approval
    verdict: Annotated[Literal["approve", "refuse"], Meta(description="The decision.")]
    reason: Annotated[str, Meta(description="Reason for the decision; required to refuse.")] = ""
    payload: Annotated[
        Json | None, Meta(description="New payload for a held message, sent in place of the original one.")
    ] = None


class WithdrawApproval(CommandBase, frozen=True):
    """Withdraw an approval request; to withdraw a held message, recall it instead."""

    approval: _Approval


class ApprovalRequested(msgspec.Struct, frozen=True):
    """An approval request that waits for a decision."""

    approval: str
    #: When it is escalated if no director has decided.
    due_at: datetime


class ApprovalDecided(msgspec.Struct, frozen=True):
    """The outcome of an approval request."""

    approval: str
    outcome: str

"""Events of approvals."""

from tocsin.core.events.base import EventBase

__all__ = ["ApprovalEnded", "ApprovalOverdue", "ApprovalRequested"]


class ApprovalRequested(EventBase, frozen=True):
    """An approval was requested from the directors."""

    #: The approval.
    approval: str
    #: Handoff point: `plan_approval`, `lease_override`, `pre_merge_review`, `ratification` or `tool_permission`.
    handoff: str
    #: Agent that asks.
    asker: str
    #: Subject: a messageId, or a text of the asker.
    subject: str
    #: Details given by the asker.
    details: str
    #: Whether the subject is a held message.
    holds: bool
    #: Time for a decision, seconds.
    timeout_s: float
    #: End of that time.
    due_at: int


class ApprovalOverdue(EventBase, frozen=True):
    """An approval was not decided in time, or there was no director; it stays open."""

    #: The approval.
    approval: str
    #: Time that was exceeded, seconds; 0 if there was no director.
    threshold_s: float
    #: Time at which an action is given up; 0 for a held message, which ends with its TTL.
    due_at: int = 0


class ApprovalEnded(EventBase, frozen=True):
    """An approval ended."""

    #: The approval.
    approval: str
    #: Agent that asked.
    asker: str
    #: `approved`, `changed`, `refused`, `withdrawn`, `expired`, `moot`, `timeout`, `deadlock` or `retired`.
    outcome: str
    #: Agent that decided.
    by: str
    #: Reason given.
    reason: str
    #: Subject of the approval.
    subject: str

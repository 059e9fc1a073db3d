"""What happens to approvals."""

from tocsin.core.events.base import EventBase

__all__ = ["ApprovalEnded", "ApprovalOverdue", "ApprovalRequested"]


class ApprovalRequested(EventBase, frozen=True):
    """Something waits for a director's word."""

    #: The approval.
    approval: str
    #: At which point: `plan_approval`, `lease_override`, `pre_merge_review` or `ratification`.
    handoff: str
    #: Who wants it.
    asker: str
    #: What for: a messageId, or what the asker says.
    subject: str
    #: More of it, in the asker's words.
    details: str
    #: Whether it is a message that is held.
    holds: bool
    #: The directors' time, seconds.
    timeout_s: float
    #: When that is over.
    due_at: int


class ApprovalOverdue(EventBase, frozen=True):
    """No director has spoken in time, or there is none; it still waits."""

    #: The approval.
    approval: str
    #: The time that was crossed, seconds; 0 where there was nobody to wait for.
    threshold_s: float
    #: When an action is given up; 0 for a held message, which its TTL ends.
    due_at: int = 0


class ApprovalEnded(EventBase, frozen=True):
    """An approval is over."""

    #: The approval.
    approval: str
    #: Who wanted it.
    asker: str
    #: `approved`, `changed`, `refused`, `withdrawn`, `expired`, `moot`, `timeout`, `deadlock` or `retired`.
    outcome: str
    #: Who decided.
    by: str
    #: Why.
    reason: str
    #: What it was for.
    subject: str

"""What agents say of their attention, and what interrupts them."""

from tocsin.core.events.base import EventBase

__all__ = [
    "AttentionLapsed",
    "InterruptEnded",
    "InterruptRaised",
    "PausePointReached",
    "WorkBegun",
    "WorkContinued",
    "WorkFinished",
    "WorkPutAside",
    "WorkResumed",
]


class WorkBegun(EventBase, frozen=True):
    """An agent began to work on a message."""

    #: The agent.
    agent: str
    #: Sequence number of the message.
    work: int
    #: Its messageId.
    message_id: str
    #: The level that the work counts with.
    level: int
    #: Whether it may be interrupted outside pause points.
    interruptible: bool
    #: When the agent no longer counts as busy.
    due_at: int


class PausePointReached(EventBase, frozen=True):
    """An agent's work is at a point where it may safely be interrupted, and stays there for now."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: When the agent no longer counts as busy.
    due_at: int


class WorkContinued(EventBase, frozen=True):
    """An agent went on from a pause point, or did not let itself be interrupted."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: When the agent no longer counts as busy.
    due_at: int


class InterruptRaised(EventBase, frozen=True):
    """A message interrupts an agent's work; it is on its way, or the first to be taken."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Level of the work.
    work_level: int
    #: Sequence number of the message that interrupts.
    by: int
    #: Its level.
    level: int
    #: What let it: `override`, `interruptible` or `pause_point`.
    rule: str


class InterruptEnded(EventBase, frozen=True):
    """What interrupted an agent's work is not there to be turned to any more."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Sequence number of the message that interrupted.
    by: int
    #: What became of it: `processed`, `expired`, `recalled`, `dead`, or `queued` where it comes again later.
    reason: str


class WorkPutAside(EventBase, frozen=True):
    """An agent put its work aside, to be resumed."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: What the agent wants back when it resumes.
    saved: bytes
    #: `interrupted`, `chosen` by the agent itself, or `detached` where its last session ended.
    reason: str
    #: Sequence number of the message that is worked on instead; 0 where there is none.
    instead: int
    #: Its messageId; empty where there is none.
    instead_id: str
    #: Its level.
    instead_level: int
    #: When the agent no longer counts as busy.
    due_at: int


class WorkResumed(EventBase, frozen=True):
    """An agent took its work up again, and was given back what it had saved."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: When the agent no longer counts as busy.
    due_at: int


class WorkFinished(EventBase, frozen=True):
    """An agent is done with its work."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int


class AttentionLapsed(EventBase, frozen=True):
    """An agent said nothing more of its work for so long that it no longer counts as busy; the work is put aside."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: The time that it was given, seconds.
    threshold_s: float

"""Events of agents' work and interrupts."""

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
    #: Priority level of the work.
    level: int
    #: Whether it may be interrupted outside pause points.
    interruptible: bool
    #: Time at which the agent no longer counts as busy.
    due_at: int


class PausePointReached(EventBase, frozen=True):
    """An agent's work reached a pause point, where it may be interrupted."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Time at which the agent no longer counts as busy.
    due_at: int


class WorkContinued(EventBase, frozen=True):
    """An agent continued its work after a pause point or an interrupt."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Time at which the agent no longer counts as busy.
    due_at: int


class InterruptRaised(EventBase, frozen=True):
    """A message interrupted an agent's work; it was offered, or is the first of the next drain."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Priority level of the work.
    work_level: int
    #: Sequence number of the interrupting message.
    by: int
    #: Priority level of that message.
    level: int
    #: Rule that allowed it: `override`, `interruptible` or `pause_point`.
    rule: str


class InterruptEnded(EventBase, frozen=True):
    """An interrupt ended, because its message has ended or waits for a retry."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Sequence number of the message that interrupted.
    by: int
    #: State of that message: `processed`, `expired`, `recalled`, `dead`, or `queued` for a retry.
    reason: str


class WorkPutAside(EventBase, frozen=True):
    """An agent's work was put aside, to be resumed later."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Data to return when the work is resumed.
    saved: bytes
    #: `interrupted`, `chosen` by the agent itself, or `detached` when its last session ended.
    reason: str
    #: Sequence number of the message that is worked on instead; 0 for none.
    instead: int
    #: Its messageId; empty for none.
    instead_id: str
    #: Its priority level.
    instead_level: int
    #: Time at which the agent no longer counts as busy.
    due_at: int


class WorkResumed(EventBase, frozen=True):
    """An agent resumed its work and received its saved data."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Time at which the agent no longer counts as busy.
    due_at: int


class WorkFinished(EventBase, frozen=True):
    """An agent finished its work."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int


class AttentionLapsed(EventBase, frozen=True):
    """An agent did not report for too long: it no longer counts as busy, and its work was put aside."""

    #: The agent.
    agent: str
    #: Sequence number of the message worked on.
    work: int
    #: Time that it was given, seconds.
    threshold_s: float

"""State of requests, approvals, discussions, topics, escalations, alerts and attention.

The behaviour is in the module of each kind; only the appliers there change these structs. A struct with a deadline
carries it as `due_at`, so that all kinds are scheduled alike.
"""

from typing import Protocol

import msgspec

from tocsin.core.messages.model import NEVER

__all__ = [
    "Alert",
    "Approval",
    "Attention",
    "Deferred",
    "Discussion",
    "Escalation",
    "FoldedNotices",
    "Request",
    "Step",
    "TimedRecord",
    "Topic",
    "Work",
]


class TimedRecord(Protocol):
    """Common part of all kinds that have a deadline."""

    #: Time of its deadline; 0 for none.
    due_at: int


class Work(msgspec.Struct):
    """A message that an agent works on, or has put aside."""

    #: Sequence number of the message.
    message: int
    message_id: str
    #: Priority level of the work at its beginning.
    level: int
    #: Whether it may be interrupted outside pause points.
    interruptible: bool
    began_at: int
    #: Data that the agent saved when it put the work aside; kept until the work ends, for an agent that missed the
    #: reply.
    saved: bytes = b""
    #: Whether the agent has received the data that it saved last.
    resumed: bool = False


class Attention(msgspec.Struct):
    """Work of an agent that reports what it is busy with."""

    agent: str
    #: Current work; null while it is idle.
    work: Work | None = None
    #: Whether the work is at a pause point.
    paused: bool = False
    #: Sequence number of the message that interrupts the work, until the work is put aside, continued or ended.
    interrupted_by: int = NEVER
    #: Work put aside, the latest last.
    aside: list[Work] = []
    #: Time at which the agent no longer counts as busy.
    due_at: int = NEVER


class Step(msgspec.Struct, frozen=True):
    """One step of an escalation."""

    at: int
    #: Place that the step led to.
    state: str
    #: Agent that took the step: `tocsin`, a director or a human.
    by: str
    detail: str


class Escalation(msgspec.Struct):
    """A condition that needs the attention of a director or a human, from its cause to its resolution."""

    escalation: str
    #: Trigger and subject; each cause opens one escalation.
    cause: str
    #: Name of the rule.
    rule: str
    trigger: str
    #: Subject of the escalation: a messageId, a resource, an agent, a metric.
    subject: str
    detail: str
    #: Place on the path.
    state: str
    opened_at: int
    #: Sequence number of the message that it is about; 0 for none.
    about: int = NEVER
    #: Enqueueing time of that message, which differs once the message is redriven.
    waiting_since: int = NEVER
    due_at: int = NEVER
    closed_at: int = NEVER
    resolution: str = ""
    resolved_by: str = ""
    steps: list[Step] = []


class Deferred(msgspec.Struct):
    """An escalation to open once one of the open ones has closed."""

    #: Trigger and subject.
    cause: str
    trigger: str
    subject: str
    detail: str
    about: int
    #: Enqueueing time of the message that it is about.
    waiting_since: int
    level: int | None
    threshold: float
    #: Sequence number of the event that deferred it: its age.
    seq: int


class FoldedNotices(msgspec.Struct):
    """Notices about one subject that were not sent to an agent; one message will count them."""

    recipient: str
    subject: str
    count: int
    #: Highest priority among them.
    level: int

    @property
    def key(self) -> str:
        """Return its name in the state."""
        return f"{self.recipient} {self.subject}"


class Request(msgspec.Struct):
    """A message whose sender waits for the answer."""

    #: The messageId.
    request: str
    requester: str
    responder: str
    #: Sequence number of the message.
    about: int
    correlation_id: str
    timeout_s: float
    #: Whether the message is raised when the time is over, and whether it has been raised.
    boost: bool
    opened_at: int
    due_at: int
    boosted: bool = False
    #: Whether its timeout is escalated; otherwise only the requester is notified.
    escalate: bool = True


class Approval(msgspec.Struct):
    """A message or action that waits for a director's decision."""

    approval: str
    #: Handoff point.
    handoff: str
    asker: str
    #: messageId of a held message, else the subject that the asker named.
    subject: str
    details: str
    holds: bool
    timeout_s: float
    opened_at: int
    due_at: int
    #: Whether the time for a decision is over.
    overdue: bool = False

    @property
    def escalates_at(self) -> int:
        """Return when it is escalated; 0 once it was."""
        return NEVER if self.overdue else self.due_at


class Discussion(msgspec.Struct):
    """A question that some agents discuss and vote on."""

    discussion: str
    opener: str
    question: str
    participants: list[str]
    options: tuple[str, ...]
    voters_min: int
    #: `majority`, `two_thirds` or `unanimous`.
    consensus: str
    opened_at: int
    due_at: int
    #: Option chosen, by participant.
    votes: dict[str, str]
    contributions: int = 0
    #: `open`, or `ratifying` once agreed.
    state: str = "open"
    #: Option that was agreed on.
    agreed: str = ""
    #: Id of the approval that ratifies it.
    approval: str = ""


class Topic(msgspec.Struct):
    """A topic and its subscribers."""

    topic: str
    #: Agent names.
    subscribers: list[str]


class Alert(msgspec.Struct):
    """A metric that is over its limit, or was until recently."""

    metric: str
    value: float
    limit: float
    #: Time since which it has been over the limit; for an alert that eases, since when it has been well under it.
    since: int
    #: Sequence number of the event with which it went over the limit.
    breach: int
    #: Time at which the alert was raised; 0 while the limit has not been exceeded for long enough.
    raised_at: int = NEVER
    easing: bool = False

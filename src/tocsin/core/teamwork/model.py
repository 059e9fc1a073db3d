"""What a team coordinates by, as data: each kind of document, and how it is found and written down.

The behaviour is in the module of each kind; documents are changed by the appliers there and by nothing else. A document
that waits for a moment carries it as `due_at`, decided when the wait began, so that every kind is armed alike.
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
    "Request",
    "Step",
    "TimedRecord",
    "Topic",
    "Work",
]


class TimedRecord(Protocol):
    """What all kinds have in common."""

    #: When it is to be looked at; 0 for never.
    due_at: int


class Work(msgspec.Struct):
    """A message that an agent works on, or has put aside."""

    #: Sequence number of the message.
    message: int
    message_id: str
    #: The level that the work counts with, as it began.
    level: int
    #: Whether it may be interrupted outside pause points.
    interruptible: bool
    began_at: int
    #: What the agent saved of it when it was put aside; kept until the work ends, for an agent that missed the reply.
    saved: bytes = b""
    #: Whether the agent was given back what it saved last.
    resumed: bool = False


class Attention(msgspec.Struct):
    """What an agent that speaks of its attention is busy with."""

    agent: str
    #: What it works on; nothing while it is idle.
    work: Work | None = None
    #: Whether the work is at a pause point.
    paused: bool = False
    #: The message that interrupts the work, until the work is put aside, goes on or ends.
    interrupted_by: int = NEVER
    #: Work put aside, the latest last.
    aside: list[Work] = []
    #: When the agent no longer counts as busy, whatever it said.
    due_at: int = NEVER


class Step(msgspec.Struct, frozen=True):
    """One move of an escalation."""

    at: int
    #: Where it moved to.
    state: str
    #: Who moved it: `tocsin`, a director or a human.
    by: str
    detail: str


class Escalation(msgspec.Struct):
    """Something that somebody with more power should look at, from its cause to its resolution."""

    escalation: str
    #: What set it off, once: the trigger and the thing.
    cause: str
    #: Name of the rule, and its trigger.
    rule: str
    trigger: str
    #: What it is about: a messageId, a resource, an agent, a metric.
    subject: str
    detail: str
    #: Where it is on its path.
    state: str
    opened_at: int
    #: Sequence number of the message that it is about; 0 where it is about none.
    about: int = NEVER
    #: Enqueueing time of that message: it may be redriven and wait anew.
    waiting_since: int = NEVER
    due_at: int = NEVER
    closed_at: int = NEVER
    resolution: str = ""
    resolved_by: str = ""
    steps: list[Step] = []


class Deferred(msgspec.Struct):
    """Something to be escalated once one of those that are open has closed."""

    #: What set it off.
    cause: str
    trigger: str
    subject: str
    detail: str
    about: int
    #: Enqueueing time of the message that it is about.
    waiting_since: int
    level: int | None
    threshold: float
    #: Number of the event that deferred it: its age.
    seq: int


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
    #: Whether the message is raised when the time is over, and whether it has been.
    boost: bool
    opened_at: int
    due_at: int
    boosted: bool = False
    #: Whether the end of its time is escalated; otherwise only the requester is told.
    escalate: bool = True


class Approval(msgspec.Struct):
    """Something that waits for a director's word."""

    approval: str
    #: At which of LIMINAL's points.
    handoff: str
    asker: str
    #: A messageId where a message is held, else what the asker says.
    subject: str
    details: str
    holds: bool
    timeout_s: float
    opened_at: int
    due_at: int
    #: Whether the directors' time is over.
    overdue: bool = False

    @property
    def escalates_at(self) -> int:
        """Return when it is escalated; never where it was."""
        return NEVER if self.overdue else self.due_at


class Discussion(msgspec.Struct):
    """A question that some agents speak about and vote on."""

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
    #: By participant.
    votes: dict[str, str]
    contributions: int = 0
    #: `open`, or `ratifying` once agreed.
    state: str = "open"
    #: What was agreed on.
    agreed: str = ""
    #: The approval that its ratification waits for.
    approval: str = ""


class Topic(msgspec.Struct):
    """What some agents want to hear of."""

    topic: str
    #: By name.
    subscribers: list[str]


class Alert(msgspec.Struct):
    """A metric that is over its limit, or was until just now."""

    metric: str
    value: float
    limit: float
    #: Since when it has been over the limit; of an alert that eases, well under it.
    since: int
    #: Number of the event with which it went over the limit.
    breach: int
    #: When the alert was raised; 0 while it may still pass.
    raised_at: int = NEVER
    easing: bool = False

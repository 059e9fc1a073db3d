"""What happens to escalations."""

from tocsin.core.events.base import EventBase

__all__ = ["EscalationDeferred", "EscalationMoved", "EscalationOpened", "EscalationsForgotten"]


class EscalationOpened(EventBase, frozen=True):
    """A rule found something that somebody with more power should look at."""

    #: The escalation.
    escalation: str
    #: What set it off: nothing else with the same cause will.
    cause: str
    #: Name of the rule.
    rule: str
    #: Its trigger.
    trigger: str
    #: What it is about: a messageId, a resource, an agent, a metric.
    subject: str
    #: The case in a sentence.
    detail: str
    #: Sequence number of the message that it is about; 0 where it is about none.
    about: int
    #: The threshold that was crossed, in the rule's unit.
    threshold: float


class EscalationDeferred(EventBase, frozen=True):
    """Something should be escalated, and as many escalations are open as may be."""

    #: What set it off.
    cause: str
    #: The trigger.
    trigger: str
    #: What it is about.
    subject: str
    #: The case in a sentence.
    detail: str
    #: Sequence number of the message that it is about; 0 where it is about none.
    about: int
    #: Priority of the message or wait that it is about; null where it is about none.
    level: int | None
    #: The threshold that was crossed, in its unit.
    threshold: float
    #: Whether it is opened when one has closed; else the directors were told, and that was all.
    kept: bool


class EscalationMoved(EventBase, frozen=True):
    """An escalation took a step on its path."""

    #: The escalation.
    escalation: str
    #: The step.
    step: str
    #: Where it was.
    old_state: str
    #: Where it is.
    new_state: str
    #: Who moved it: `tocsin`, a director or a human.
    by: str
    #: Why, or how it was resolved.
    detail: str
    #: When it is looked at again; 0 for never.
    due_at: int


class EscalationsForgotten(EventBase, frozen=True):
    """The live state no longer remembers these closed escalations; the journal does."""

    #: The escalations.
    escalations: tuple[str, ...]
    #: Causes that waited to be opened, and whose trouble was over by then.
    causes: tuple[str, ...] = ()

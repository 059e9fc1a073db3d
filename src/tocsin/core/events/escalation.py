"""Events of escalations."""

from tocsin.core.events.base import EventBase

__all__ = ["EscalationDeferred", "EscalationMoved", "EscalationOpened", "EscalationsForgotten"]


class EscalationOpened(EventBase, frozen=True):
    """A rule opened an escalation."""

    #: The escalation.
    escalation: str
    #: Cause; the same cause never opens another escalation.
    cause: str
    #: Name of the rule.
    rule: str
    #: Its trigger.
    trigger: str
    #: Subject: a messageId, a resource, an agent, a metric.
    subject: str
    #: Description of the case.
    detail: str
    #: Sequence number of the message that it is about; 0 for none.
    about: int
    #: Threshold that was crossed, in the rule's unit.
    threshold: float


class EscalationDeferred(EventBase, frozen=True):
    """An escalation was deferred, because too many are open."""

    #: Cause of the escalation.
    cause: str
    #: The trigger.
    trigger: str
    #: Subject of the escalation.
    subject: str
    #: Description of the case.
    detail: str
    #: Sequence number of the message that it is about; 0 for none.
    about: int
    #: Priority of the message or wait that it is about; null for none.
    level: int | None
    #: Threshold that was crossed, in its unit.
    threshold: float
    #: Whether it is opened later; otherwise the directors were notified and nothing was kept.
    kept: bool


class EscalationMoved(EventBase, frozen=True):
    """An escalation took a step on its path."""

    #: The escalation.
    escalation: str
    #: The step.
    step: str
    #: Place before the step.
    old_state: str
    #: Place after the step.
    new_state: str
    #: Agent that took the step: `tocsin`, a director or a human.
    by: str
    #: Reason, or resolution.
    detail: str
    #: Next deadline; 0 for none.
    due_at: int


class EscalationsForgotten(EventBase, frozen=True):
    """Closed escalations were removed from the live state; the journal keeps them."""

    #: The escalations.
    escalations: tuple[str, ...]
    #: Deferred causes that were dropped, because their condition had ended.
    causes: tuple[str, ...] = ()

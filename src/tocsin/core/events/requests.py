"""What happens to requests."""

from tocsin.core.events.base import EventBase

__all__ = ["RequestEnded", "RequestExtended", "RequestOpened"]


class RequestOpened(EventBase, frozen=True):
    """An agent sent a message and waits for its answer."""

    #: The messageId, which is the request's id too.
    request: str
    #: Who waits.
    requester: str
    #: For whose answer.
    responder: str
    #: Sequence number of the message.
    about: int
    #: The thread in which the answer comes.
    correlation_id: str
    #: How long it waits, seconds.
    timeout_s: float
    #: Whether the message is raised, and given the same time again, when the time is over.
    boost: bool
    #: When the time is over.
    due_at: int
    #: Whether that is escalated.
    escalate: bool = True


class RequestExtended(EventBase, frozen=True):
    """No answer came in time; the message was raised and is given the same time again."""

    #: The request.
    request: str
    #: When that time is over.
    due_at: int


class RequestEnded(EventBase, frozen=True):
    """A request is over."""

    #: The request.
    request: str
    #: Who waited.
    requester: str
    #: `answered`, `timeout`, `deadlock`, `failed`, `cancelled` or `retired`.
    outcome: str
    #: The answer's messageId, or why there is none.
    detail: str

"""Events of requests."""

from tocsin.core.events.base import EventBase

__all__ = ["RequestEnded", "RequestExtended", "RequestOpened"]


class RequestOpened(EventBase, frozen=True):
    """A request was opened: its sender waits for the answer."""

    #: The messageId, which is also the request's id.
    request: str
    #: Agent that waits.
    requester: str
    #: Agent whose answer it waits for.
    responder: str
    #: Sequence number of the message.
    about: int
    #: Thread in which the answer comes.
    correlation_id: str
    #: Time that it waits, seconds.
    timeout_s: float
    #: Whether the message is raised and the time extended once when it is over.
    boost: bool
    #: End of that time.
    due_at: int
    #: Whether the timeout is escalated.
    escalate: bool = True


class RequestExtended(EventBase, frozen=True):
    """The time of a request was extended: by its requester, or once when it was over and its message was raised."""

    #: The request.
    request: str
    #: End of the extended time.
    due_at: int
    #: Agent that extended it; empty if it was not answered in time and its message was raised.
    by: str = ""


class RequestEnded(EventBase, frozen=True):
    """A request ended."""

    #: The request.
    request: str
    #: Agent that waited.
    requester: str
    #: `answered`, `timeout`, `deadlock`, `failed`, `cancelled` or `retired`.
    outcome: str
    #: The answer's messageId, or the reason why there is none.
    detail: str

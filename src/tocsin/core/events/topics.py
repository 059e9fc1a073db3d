"""Events of topics."""

from tocsin.core.events.base import EventBase

__all__ = ["Subscribed", "TopicPublished", "Unsubscribed"]


class Subscribed(EventBase, frozen=True):
    """An agent subscribed to a topic."""

    #: The topic.
    topic: str
    #: Agent that subscribed.
    subscriber: str


class Unsubscribed(EventBase, frozen=True):
    """A subscription was cancelled."""

    #: The topic.
    topic: str
    #: Agent that was subscribed.
    subscriber: str
    #: `asked` or `retired`.
    reason: str


class TopicPublished(EventBase, frozen=True):
    """A message was published to a topic, after a `BroadcastAccepted` and one `MessageAccepted` for each subscriber."""

    #: The topic.
    topic: str
    #: The messageId.
    message_id: str
    #: Agent that published it.
    publisher: str
    #: Number of subscribers that got it.
    reached: int
    #: Number of subscribers that could not take it.
    missed: int
    #: `each` or `all`.
    guarantee: str

"""What happens to topics."""

from tocsin.core.events.base import EventBase

__all__ = ["Subscribed", "TopicPublished", "Unsubscribed"]


class Subscribed(EventBase, frozen=True):
    """An agent wants what is published to a topic."""

    #: The topic.
    topic: str
    #: Who.
    subscriber: str


class Unsubscribed(EventBase, frozen=True):
    """An agent no longer wants what is published to a topic."""

    #: The topic.
    topic: str
    #: Who.
    subscriber: str
    #: `asked` or `retired`.
    reason: str


class TopicPublished(EventBase, frozen=True):
    """A message was published to a topic; a `BroadcastAccepted` and one message for each subscriber came before it."""

    #: The topic.
    topic: str
    #: Its messageId.
    message_id: str
    #: Who published it.
    publisher: str
    #: How many subscribers have it in their mailboxes.
    reached: int
    #: How many could not take it.
    missed: int
    #: `each` or `all`.
    guarantee: str

"""Commands that subscribe to topics and publish to them, and their replies."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase, Name
from tocsin.core.commands.messages import Receipt
from tocsin.core.errors import Problem
from tocsin.core.protocol.envelope import Envelope

__all__ = ["Publish", "Published", "Subscribe", "Subscriptions", "Unsubscribe"]

_Topic = Annotated[Name, Meta(description="Name of the topic.")]


class Subscribe(CommandBase, frozen=True):
    """Subscribe the calling agent to a topic."""

    topic: _Topic


class Unsubscribe(CommandBase, frozen=True):
    """Cancel the calling agent's subscription to a topic."""

    topic: _Topic


class Publish(CommandBase, frozen=True):
    """Publish a message, addressed to `*`, to all other subscribers of a topic."""

    topic: _Topic
    envelope: Envelope
    guarantee: Annotated[
        Literal["each", "all"],
        Meta(description="`each` delivers to every subscriber that can accept it; `all` delivers to all or none."),
    ] = "each"


class Subscriptions(msgspec.Struct, frozen=True):
    """Topics that an agent is subscribed to."""

    topics: tuple[str, ...]


class Published(msgspec.Struct, frozen=True):
    """Receipts of a publication."""

    topic: str
    #: One per subscriber.
    receipts: tuple[Receipt, ...] = ()
    #: Subscribers that could not accept it, and why.
    failed: dict[str, Problem] = {}
    #: `E_ROUTING_004` if a subscriber could not accept it.
    code: str | None = None

    def __post_init__(self) -> None:
        """Set the code of a partial failure."""
        if self.failed:
            msgspec.structs.force_setattr(self, "code", "E_ROUTING_004")

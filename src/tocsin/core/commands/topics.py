"""Subscribing to topics and publishing to them, and what comes back."""

from typing import Literal

import msgspec

from tocsin.core.commands.base import CommandBase
from tocsin.core.commands.messages import BroadcastReceipt
from tocsin.core.protocol.envelope import Envelope

__all__ = ["Publish", "Published", "Subscribe", "Subscriptions", "Unsubscribe"]


class Subscribe(CommandBase, frozen=True):
    """Want what is published to a topic from now on, whether attached or not."""

    topic: str


class Unsubscribe(CommandBase, frozen=True):
    """Want it no longer."""

    topic: str


class Publish(CommandBase, frozen=True):
    """Publish an envelope, addressed to `*`, to all subscribers of a topic but oneself."""

    topic: str
    envelope: Envelope
    #: `each` reaches every subscriber that can take it and names the others; `all` reaches all of them or none.
    guarantee: Literal["each", "all"] = "each"


class Subscriptions(msgspec.Struct, frozen=True):
    """What an agent is subscribed to."""

    topics: tuple[str, ...]


class Published(msgspec.Struct, frozen=True):
    """What became of a publication."""

    topic: str
    #: By subscriber; null where the topic has none.
    receipt: BroadcastReceipt | None

"""Items of the live feed, `tocsin.feed.v1`: a frame is a JSON array of these items.

An event is sent as its record from `tocsin.journal.records`, whose fields follow from the event's struct.
"""

from typing import Any, Literal, TypeAlias, get_type_hints

import msgspec

from tocsin.core.events import EVENT_TYPES
from tocsin.journal.records import DOCUMENTS

__all__ = [
    "ITEMS",
    "FeedBye",
    "FeedEvent",
    "FeedGap",
    "FeedHello",
    "FeedItem",
    "Missed",
    "Opening",
    "Parting",
    "record_shapes",
]


class Opening(msgspec.Struct, frozen=True):
    """Start of the feed."""

    project: str
    #: The feed continues after this event.
    seq: int
    #: Kinds of events that are sent.
    kinds: list[str]


class FeedHello(msgspec.Struct, frozen=True):
    """The first item of a feed."""

    hello: Opening


class FeedEvent(msgspec.Struct, frozen=True):
    """An event that has become durable."""

    event: dict[str, Any]


class Missed(msgspec.Struct, frozen=True):
    """Range of events, first and last included."""

    first_seq: int
    last_seq: int


class FeedGap(msgspec.Struct, frozen=True):
    """Events that the watcher missed because it read too slowly."""

    gap: Missed


class Parting(msgspec.Struct, frozen=True):
    """Why the feed ends."""

    reason: str


class FeedBye(msgspec.Struct, frozen=True):
    """The last item: the hub closes the feed."""

    bye: Parting


FeedItem: TypeAlias = FeedHello | FeedEvent | FeedGap | FeedBye
ITEMS = (FeedHello, FeedEvent, FeedGap, FeedBye)


def record_shapes() -> list[type[msgspec.Struct]]:
    """Return the struct of every kind of event as the feed sends it: without payload and metadata."""
    return [_record_shape(kind) for kind in EVENT_TYPES]


def _record_shape(kind: type) -> type[msgspec.Struct]:
    hints = get_type_hints(kind)
    fields: list[tuple[str, Any]] = [("kind", Literal[kind.__name__]), ("project", str), ("seq", int)]
    for name in kind.__struct_fields__:  # type: ignore[attr-defined]
        if name not in DOCUMENTS:
            fields.append((name, hints[name]))
        elif name == "policy":
            fields.append((name, dict[str, Any] | None))
    shape = msgspec.defstruct(f"{kind.__name__}Record", fields, forbid_unknown_fields=True)
    shape.__doc__ = kind.__doc__
    return shape

"""Events as JSON records, used in message histories and segment files.

A record is one JSON object: `kind`, `project`, `seq` and the event's own field names, as `docs/reference/events.md`
lists them. No event may have a field of one of those three names.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import EVENT_TYPES, Event

__all__ = ["DOCUMENTS", "life_line", "record_of"]

#: Fields that hold JSON documents of their own.
DOCUMENTS = frozenset({"payload", "metadata", "policy"})
#: Fields that identify messages by their sequence numbers.
_NUMBERS = frozenset({"message", "raised", "lowered"})
#: Fields of an acceptance in a message history; the others are in the message's columns.
_ACCEPTANCE = (
    *("at", "version", "requested", "priority", "rule", "importance", "held", "recipient_state", "publish_path"),
    *("tokens", "critical_quota", "blocking_quota"),
)

_JSON = msgspec.json.Encoder()

Getter = Callable[[Any], tuple[Any, ...]]


def _getter(names: tuple[str, ...]) -> Getter:
    if len(names) == 1:
        single = attrgetter(names[0])
        return lambda event: (single(event),)
    return attrgetter(*names)


_FIELDS: dict[type, tuple[str, ...]] = {kind: kind.__struct_fields__ for kind in EVENT_TYPES}
_LIFE: dict[type, tuple[tuple[str, ...], Getter]] = {
    kind: (names, _getter(names))
    for kind, fields in _FIELDS.items()
    if (names := _ACCEPTANCE if kind is ev.MessageAccepted else tuple(name for name in fields if name not in _NUMBERS))
}


def life_line(seq: int, event: Event) -> bytes:
    """Return one event of a message history as a line, without the message's number and content."""
    names, values = _LIFE[type(event)]
    return _JSON.encode({"seq": seq, "kind": type(event).__name__, **dict(zip(names, values(event), strict=True))})


def record_of(project: str, seq: int, event: Event, *, payloads: bool) -> dict[str, Any]:
    """Return an event as a record; payload and metadata only on request, policies always."""
    record: dict[str, Any] = {"kind": type(event).__name__, "project": project, "seq": seq}
    for name in _FIELDS[type(event)]:
        value = getattr(event, name)
        if name not in DOCUMENTS:
            record[name] = value
        elif name == "policy" or payloads:
            record[name] = msgspec.Raw(value) if value else None
    return record

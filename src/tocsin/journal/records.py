"""Events as JSON records, used in message histories and segment files.

A record is one JSON object: `kind`, `project`, `seq` and the event's own field names, as `docs/reference/events.md`
lists them. No event may have a field of one of those three names.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import EVENT_TYPES, Event
from tocsin.journal.columns import compiled

__all__ = ["DOCUMENTS", "LIFE_ENTRIES", "life_text", "record_of"]

#: Fields that hold JSON documents of their own.
DOCUMENTS = frozenset({"payload", "metadata", "policy"})
#: Fields that identify messages by their sequence numbers.
_NUMBERS = frozenset({"message", "raised", "lowered"})
#: Fields of an acceptance in a message history; the others are in the message's columns.
_ACCEPTANCE = (
    *("at", "version", "requested", "priority", "rule", "importance", "held", "recipient_state", "publish_path"),
    *("tokens", "critical_quota", "blocking_quota", "high", "messages", "limit", "window_s"),
)
#: Fields that explain a decision; where an event leaves one at its default, a message history leaves it out.
_EXPLAINING = frozenset({"high", "messages", "limit", "window_s"})

_JSON = msgspec.json.Encoder()
_FIELDS: dict[type, tuple[str, ...]] = {kind: kind.__struct_fields__ for kind in EVENT_TYPES}


class _EntryMakers(dict[type, Callable[[int, Any], msgspec.Struct]]):
    """Functions that make the entry of an event in a message history, by kind of event, built when first used.

    An entry is a struct with the fields of the JSON object, so that a history is encoded without any dictionary.
    """

    def __missing__(self, kind: type) -> Callable[[int, Any], msgspec.Struct]:
        accepted = kind is ev.MessageAccepted
        names = _ACCEPTANCE if accepted else tuple(name for name in _FIELDS[kind] if name not in _NUMBERS)
        names = tuple(sorted(names, key=_EXPLAINING.__contains__))
        defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
        fields = [(name, Any, defaults[name]) if name in _EXPLAINING else name for name in ("seq", "kind", *names)]
        entry = msgspec.defstruct(f"{kind.__name__}Entry", fields, gc=False, omit_defaults=True)
        values = ", ".join(f"event.{name}" for name in names)
        source = f"def function(seq, event): return entry(seq, {kind.__name__!r}, {values})"
        function: Callable[[int, Any], msgspec.Struct] = compiled(source, entry=entry)
        self[kind] = function
        return function


#: By kind of event, the function that makes its entry in a message history, without the message's number and content.
LIFE_ENTRIES = _EntryMakers()


def life_text(entries: list[msgspec.Struct]) -> bytes:
    """Return the entries of a message history as text, one JSON object per line."""
    return _JSON.encode_lines(entries)[:-1]


def record_of(project: str, seq: int, event: Event, *, payloads: bool) -> dict[str, Any]:
    """Return an event as a record; payload and metadata only on request, policies always.

    The metadata of the bus's own notices are always included: their subject decides which notices are folded.
    """
    record: dict[str, Any] = {"kind": type(event).__name__, "project": project, "seq": seq}
    for name in _FIELDS[type(event)]:
        value = getattr(event, name)
        if name not in DOCUMENTS:
            record[name] = value
        elif name == "policy" or payloads or (name == "metadata" and _is_notice(event, value)):
            record[name] = msgspec.Raw(value) if value else None
    return record


def _is_notice(event: Event, metadata: bytes) -> bool:
    return metadata != b"{}" and getattr(event, "sender", None) == SYSTEM.agent

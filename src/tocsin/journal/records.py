"""Events as JSON records, used in message histories and segment files.

A record is one JSON object: `kind`, `project`, `seq` and the event's own field names, as `docs/reference/events.md`
lists them. No event may have a field of one of those three names.

A message history is text with one JSON object per line, oldest event first. The history of an ordinary message, which
was accepted, offered and delivered before the tables were written, is one JSON array instead: the same values without
their names, which are most of the text. `life_of` reads both.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import EVENT_TYPES, Event
from tocsin.journal.columns import compiled

__all__ = ["DOCUMENTS", "RECORDS", "RECORDS_WITH_PAYLOADS", "life_of", "life_text", "ordinary_life", "record_of"]

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

#: Their defaults in an acceptance, which alone has them.
_UNEXPLAINED = {
    field.name: field.default for field in msgspec.structs.fields(ev.MessageAccepted) if field.name in _EXPLAINING
}

#: Entries of the history of an ordinary message.
_ORDINARY_KINDS = (ev.MessageAccepted, ev.MessageOffered, ev.MessageDelivered)
#: Their fields in the order of its array, after the number of this format. Stored arrays are read by this list: if an
#: event gets a field, a second format with another number is needed.
_ORDINARY_FORMAT = 1
_ORDINARY_FIELDS = (
    (
        *("seq", "at", "version", "requested", "priority", "rule", "importance", "held", "recipient_state"),
        *("publish_path", "tokens", "critical_quota", "blocking_quota", "high", "messages", "limit", "window_s"),
    ),
    ("seq", "at", "session", "offer", "level", "waited_us", "pushed"),
    ("seq", "at", "how"),
)
#: Numbers and events of its history.
_ORDINARY_STEPS = 6
_JSON = msgspec.json.Encoder()
_FIELDS: dict[type, tuple[str, ...]] = {kind: kind.__struct_fields__ for kind in EVENT_TYPES}


def _entry_names(kind: type) -> tuple[str, ...]:
    """Return the fields of an event that its entry in a message history has."""
    accepted = kind is ev.MessageAccepted
    names = _ACCEPTANCE if accepted else tuple(name for name in _FIELDS[kind] if name not in _NUMBERS)
    return tuple(sorted(names, key=_EXPLAINING.__contains__))


def _entry_struct(kind: type) -> type[msgspec.Struct]:
    """Return the type of the entries of an event in message histories."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    names = ("seq", "kind", *_entry_names(kind))
    fields = [(name, Any, defaults[name]) if name in _EXPLAINING else name for name in names]
    return msgspec.defstruct(f"{kind.__name__}Entry", fields, gc=False, omit_defaults=True)


class _EntryMakers(dict[type, Callable[[int, Any], msgspec.Struct]]):
    """Functions that make the entry of an event in a message history, by kind of event, built when first used.

    An entry is a struct with the fields of the JSON object, so that a history is encoded without any dictionary.
    """

    def __missing__(self, kind: type) -> Callable[[int, Any], msgspec.Struct]:
        values = ", ".join(f"event.{name}" for name in _entry_names(kind))
        source = f"def function(seq, event): return entry(seq, {kind.__name__!r}, {values})"
        function: Callable[[int, Any], msgspec.Struct] = compiled(source, entry=_entry_struct(kind))
        self[kind] = function
        return function


#: By kind of event, the function that makes its entry in a message history, without the message's number and content.
_ENTRIES = _EntryMakers()


def _ordinary_life_function() -> Callable[..., bytes]:
    """Build the function that makes the history of an ordinary message; it takes numbers and events, alternately."""
    variables, values = [], []
    for place, names in enumerate(_ORDINARY_FIELDS):
        variables += [f"seq_{place}", f"event_{place}"]
        values += [f"seq_{place}" if name == "seq" else f"event_{place}.{name}" for name in names]
    source = f"def function({', '.join(variables)}): return encode((number, {', '.join(values)}))"
    function: Callable[..., bytes] = compiled(source, encode=_JSON.encode, number=_ORDINARY_FORMAT)
    return function


_Accepted, _Offered, _Delivered = _ORDINARY_KINDS
ordinary_life = _ordinary_life_function()


def life_text(steps: list[Any]) -> bytes:
    """Return a message history as text; it is given as numbers and events, alternately."""
    if (
        len(steps) == _ORDINARY_STEPS
        and type(steps[1]) is _Accepted
        and type(steps[3]) is _Offered
        and type(steps[5]) is _Delivered
    ):
        return ordinary_life(*steps)
    entries = [_ENTRIES[type(event)](seq, event) for seq, event in zip(steps[::2], steps[1::2], strict=True)]
    return _JSON.encode_lines(entries)[:-1]


def life_of(life: bytes) -> list[dict[str, Any]]:
    """Decode a message history, oldest event first."""
    entries: list[dict[str, Any]] = []
    for line in life.splitlines():
        found = msgspec.json.decode(line)
        entries += _ordinary_entries(found) if isinstance(found, list) else [found]
    return entries


def _ordinary_entries(values: list[Any]) -> list[dict[str, Any]]:
    """Return the entries of the history of an ordinary message, as their events would give them one by one."""
    number, *rest = values
    if number != _ORDINARY_FORMAT:
        raise ValueError(f"format {number} of a message history is not known")
    entries, left = [], iter(rest)
    for kind, names in zip(_ORDINARY_KINDS, _ORDINARY_FIELDS, strict=True):
        given = {name: next(left) for name in names}
        entry = {"seq": given.pop("seq"), "kind": kind.__name__} | given
        entries.append({name: value for name, value in entry.items() if value != _UNEXPLAINED.get(name, msgspec.UNSET)})
    return entries


class _RecordMakers(dict[type, Callable[[str, int, Any], msgspec.Struct]]):
    """Functions that make the record of an event, by kind of event, built when first used.

    A record is a struct with the fields of the JSON object, so that it is encoded without any dictionary. Documents are
    included as they are. Payload and metadata only where they are asked for, policies always. The metadata of the bus's
    own notices are always included: their subject decides which notices are folded.
    """

    def __init__(self, *, payloads: bool) -> None:
        super().__init__()
        self._payloads = payloads

    def __missing__(self, kind: type) -> Callable[[str, int, Any], msgspec.Struct]:
        values = {name: value for name in _FIELDS[kind] if (value := self._value(name, _FIELDS[kind]))}
        fields = [(name, Any) for name in ("project", "seq", *values)]
        record = msgspec.defstruct(f"{kind.__name__}Record", fields, gc=False, tag_field="kind", tag=kind.__name__)
        source = f"def function(project, seq, event): return record(project, seq, {', '.join(values.values())})"
        names = {"record": record, "raw": msgspec.Raw, "UNSET": msgspec.UNSET, "BUS": SYSTEM.agent}
        function: Callable[[str, int, Any], msgspec.Struct] = compiled(source, **names)
        self[kind] = function
        return function

    def _value(self, name: str, fields: tuple[str, ...]) -> str:
        """Return the expression for a field of a record; empty if no record of that kind has the field."""
        document = f"raw(event.{name}) if event.{name} else None"
        if name not in DOCUMENTS:
            return f"event.{name}"
        if name == "policy" or self._payloads:
            return document
        if name == "metadata" and "sender" in fields:
            return f"UNSET if event.sender != BUS or event.metadata == b'{{}}' else {document}"
        return ""


#: By kind of event, the functions that make its record for a project and a sequence number.
RECORDS_WITH_PAYLOADS = _RecordMakers(payloads=True)
RECORDS = _RecordMakers(payloads=False)


def record_of(project: str, seq: int, event: Event, *, payloads: bool) -> dict[str, Any]:
    """Return an event as a record: a dictionary of what its JSON object has."""
    kind = type(event)
    record = (RECORDS_WITH_PAYLOADS if payloads else RECORDS)[kind](project, seq, event)
    values = msgspec.structs.asdict(record).items()
    return {"kind": kind.__name__} | {name: value for name, value in values if value is not msgspec.UNSET}

"""Decoders from segment lines to event records, one per kind of event.

A decoder is generated from the event's struct. It checks types and value ranges, and fills in the default of a field
that an older writer did not know.
"""

from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from tocsin.pipeline.tables.schemas import DOCUMENTS, KINDS, columns_of

__all__ = ["ABSENT", "KINDS_ABOUT_MESSAGES", "SEQ_MAX", "decoder_of", "fields_of", "integer_fields", "kind_of"]

#: Largest sequence number; `message_life` packs 16 more bits beside it.
SEQ_MAX = (1 << 46) - 1
#: Value of a JSON document field that a record does not have.
ABSENT = msgspec.Raw(b"null")
#: Kinds of events that refer to a message by its number.
KINDS_ABOUT_MESSAGES = frozenset(name for name, kind in KINDS.items() if get_type_hints(kind).get("message") is int)
#: The last microsecond that a timestamp can represent.
_AT_MAX = 253_402_300_799_999_999
_DECODERS: dict[tuple[str, str], msgspec.json.Decoder[Any]] = {}


def kind_of(line: bytes) -> bytes:
    """Return the kind of a line, wherever the key is in it; empty if the line has none."""
    try:
        kind = msgspec.json.decode(line).get("kind")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return b""
    return kind.encode() if isinstance(kind, str) else b""


def fields_of(kind: str) -> list[str]:
    """Return the fields of a decoded record of a kind, in order."""
    return ["project", "seq", "at", *(field for field in columns_of(KINDS[kind]) if field != "at")]


@cache
def integer_fields(kind: str) -> tuple[int, ...]:
    """Return the positions of the fields that are integers in every record of a kind."""
    hints = get_type_hints(KINDS[kind])
    return tuple(place for place, field in enumerate(fields_of(kind)) if field == "seq" or hints.get(field) is int)


def decoder_of(kind: str, project: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder for records of a kind in a project; it rejects records of another project."""
    found = _DECODERS.get((kind, project))
    if found is not None:
        return found
    hints = get_type_hints(KINDS[kind])
    fields: list[Any] = [
        ("project", Literal[project]),
        ("seq", Annotated[int, msgspec.Meta(ge=1, le=SEQ_MAX)]),
        ("at", Annotated[int, msgspec.Meta(ge=0, le=_AT_MAX)]),
    ]
    for info in msgspec.structs.fields(KINDS[kind]):
        if info.name == "at":
            continue
        if info.name in DOCUMENTS:
            fields.append((info.name, msgspec.Raw, ABSENT))
        elif info.required:
            fields.append((info.name, _bounded(info.name, hints[info.name])))
        else:
            fields.append((info.name, _bounded(info.name, hints[info.name]), info.default))
    record = msgspec.defstruct(kind, fields, gc=False, kw_only=True, tag_field="kind", tag=kind)
    found = _DECODERS[kind, project] = msgspec.json.Decoder(record)
    return found


def _bounded(name: str, hint: Any) -> Any:
    """Return the type that a field must have in a segment: its declared type, with the range that its name implies."""
    if hint is bytes:
        return str
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Literal[tuple(str(item.value) for item in hint)]
    if hint is int:
        if name in ("requested", "priority", "level", "old_level", "new_level"):
            return Annotated[int, msgspec.Meta(ge=0, le=4)]
        if name in ("message", "offer"):
            return Annotated[int, msgspec.Meta(ge=1, le=SEQ_MAX)]
        if name.endswith("_at"):
            return Annotated[int, msgspec.Meta(ge=0, le=_AT_MAX)]
        return Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    return hint

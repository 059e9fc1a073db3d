"""Reading of a JSON array that may have a limited number of items, without reading those beyond the limit."""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

__all__ = ["TooMany", "read_items"]

#: Limits that there are at a time: of a batch and of a frame, in the projects of a process.
_LIMITS_MAX = 16
_NONE = Raw(b"")


class TooMany(ValueError):
    """An array has more items than it may have."""


def read_items(data: bytes | str, most: int) -> list[Raw]:
    """Return the items of an array as raw JSON; raise `TooMany`, or the `DecodeError` of what is not an array.

    A list of any length would be made as a whole first, and 8 MiB are four million numbers.
    """
    try:
        found = _decoder(most).decode(data)
    except msgspec.ValidationError:
        msgspec.json.decode(data, type=_Any)  # raises if it is not an array
        raise TooMany(f"more than {most} items") from None
    return [item for item in msgspec.structs.astuple(found) if item is not _NONE]


class _Any(msgspec.Struct, array_like=True):
    """An array of whatever items; they are skipped."""


@lru_cache(_LIMITS_MAX)
def _decoder(most: int) -> "msgspec.json.Decoder[Any]":
    """Return a decoder of arrays with a place for each item: it refuses the first one without a place."""
    places = [(f"item{number}", Raw, _NONE) for number in range(most)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", places, array_like=True, forbid_unknown_fields=True))

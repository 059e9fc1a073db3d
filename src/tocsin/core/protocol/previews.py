"""Previews: the text of a payload in one short line, for lists.

A payload is any JSON object. Its text is the first field that usually has one; a payload without such a field is shown
as JSON. A list reads only the beginning of each payload, so a preview can also be made of JSON that was cut.
"""

import re
from typing import Any

import msgspec

__all__ = ["preview"]

#: Fields with the text of a message, the most telling first.
_FIELDS = (
    "text",
    "message",
    "question",
    "task",
    "taskDescription",
    "title",
    "summary",
    "description",
    "detail",
    "details",
    "errorMessage",
    "currentStep",
    "notes",
    "subject",
    "reason",
    "status",
    "plan",
)
#: A field of the outermost object of cut JSON, as far as its text goes.
_CUT_FIELD = re.compile(r'"(' + "|".join(_FIELDS) + r')"\s*:\s*"((?:[^"\\]|\\.)*)')
_BLANKS = re.compile(r"\s+")


def preview(payload: bytes, characters_max: int) -> str:
    """Return the text of a payload, or of the beginning of one, in a line of limited length."""
    try:
        text = _text_of(msgspec.json.decode(payload or b"null"))
    except msgspec.DecodeError:
        text = _text_of_cut(payload.decode("utf-8", "replace"))
    # A longer text is cut first: only its beginning can be shown.
    line = _BLANKS.sub(" ", text[: 4 * characters_max]).strip()
    return line if len(line) <= characters_max else line[: characters_max - 1].rstrip() + "…"


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return "" if value is None else msgspec.json.encode(value).decode()
    found = next((value[name] for name in _FIELDS if isinstance(value.get(name), str) and value[name]), None)
    return found if found is not None else msgspec.json.encode(value).decode() if value else ""


def _text_of_cut(excerpt: str) -> str:
    found: dict[str, str] = {name: text for name, text in reversed(_CUT_FIELD.findall(excerpt)) if text}
    name = next((name for name in _FIELDS if name in found), None)
    if name is None:
        return excerpt
    try:
        return str(msgspec.json.decode(b'"' + found[name].encode() + b'"'))
    except msgspec.DecodeError:  # cut inside an escape
        return found[name]

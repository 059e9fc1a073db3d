"""Colours, headings and times for people: ANSI codes, without a library.

Colours are used on a terminal only, and never where `NO_COLOR` is set (no-color.org) or `TERM` is dumb.
"""

import os
import re
import sys
import unicodedata
from datetime import UTC, datetime
from typing import TextIO

__all__ = [
    "coloured",
    "heading",
    "in_words",
    "is_terminal",
    "painted",
    "painted_error",
    "painted_help",
    "relative",
    "shown_time",
    "style_of",
    "width",
]

_NORMAL = "\x1b[0m"
_CODES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
}  # fmt: skip
#: Colours of values that a reader looks for: priorities, presence, states, conditions.
_VALUES = {
    "DirectorOverride": "magenta",
    "Critical": "red",
    "Blocking": "yellow",
    "Coordinate": "cyan",
    "available": "green",
    "stale": "yellow",
    "offline": "dim",
    "dead": "red",
    "expired": "dim",
    "recalled": "dim",
    "processed": "green",
    "acknowledged": "green",
    "delivered": "green",
    "serving": "green",
    "raised": "red",
    "held": "yellow",
}
#: Values of the interfaces that people read in other words.
_WORDS = {
    "not_available_stale": "stale",
    "not_available_offline": "offline",
    "pushed_to_ws": "push",
    "buffered_for_piggyback": "next call",
    "queued_offline": "queue",
}
#: Name of an option or a command at the beginning of a line of a list.
_LISTED = re.compile(r"  (\S+(?: \S+)*)(?=  |$)")
#: Units of relative times, seconds.
_STEPS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
#: Columns and fields whose name in words is not the name with blanks.
_HEADINGS = {
    "signal_id": "message id",
    "type": "type",
    "preview": "text",
    "detail": "why",
    "about": "about",
    "handoff": "approval for",
    "due_at": "due",
    "token_id": "token",
    "seq": "event",
    "publish_path": "delivered by",
    "recipient_state": "recipient is",
    "reach": "reached by",
}


def is_terminal(stream: TextIO | None = None) -> bool:
    """Tell whether a person reads a stream, standard output by default."""
    return (stream or sys.stdout).isatty()


def coloured(stream: TextIO | None = None) -> bool:
    """Tell whether a stream shows colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    return is_terminal(stream)


def painted(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """Return a text in styles, where the stream shows them."""
    if not styles or not text or not coloured(stream):
        return text
    return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}{_NORMAL}"


def painted_help(text: str, stream: TextIO | None = None) -> str:
    """Return a help text with headings in bold and the names of options and commands in colour."""
    if not coloured(stream):
        return text
    lines, listed = text.split("\n"), False
    for number, line in enumerate(lines):
        if line.startswith("Usage: "):
            lines[number] = painted("Usage:", "bold", stream=stream) + line.removeprefix("Usage:")
        elif line.endswith(":") and not line.startswith(" "):
            listed, lines[number] = True, painted(line, "bold", stream=stream)
        elif not line:
            listed = False
        elif listed and (name := _LISTED.match(line)):
            lines[number] = f"  {painted(name[1], 'cyan', stream=stream)}{line[name.end() :]}"
    return "\n".join(lines)


def painted_error(text: str, stream: TextIO) -> str:
    """Return a usage error with its message in red."""
    usage, found, message = text.rpartition("Error: ")
    if not found or not coloured(stream):
        return text
    return painted_help(usage, stream) + painted(found + message.rstrip("\n"), "red", stream=stream) + "\n"


def style_of(value: str) -> tuple[str, ...]:
    """Return the style of a value in a table; most have none."""
    found = _VALUES.get(value)
    return () if found is None else (found,)


def in_words(value: str) -> str:
    """Return a value as people read it."""
    return _WORDS.get(value, value)


def heading(name: str) -> str:
    """Return the name of a column or field in words."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    words = name.removesuffix("_at") if name != "at" else "time"
    return words.removesuffix("_s").replace("_", " ") + (" (s)" if name.endswith("_s") else "")


def shown_time(at: datetime, now: datetime | None = None) -> str:
    """Return a time: relative for people ("3 min ago"), exact elsewhere."""
    if not is_terminal():
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return relative(at, now or datetime.now(UTC))


def relative(at: datetime, now: datetime) -> str:
    """Return a time as seen from another one."""
    seconds = (at - now).total_seconds()
    if abs(seconds) < 1:
        return "now"
    unit, name = next((unit, name) for unit, name in _STEPS if abs(seconds) >= unit)
    count = f"{abs(seconds) / unit:.0f} {name}"
    return f"in {count}" if seconds > 0 else f"{count} ago"


def width(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_column_width(character) for character in text)


def _column_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1

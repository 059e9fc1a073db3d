"""Structured logs on standard error: one JSON object per line, or lines for people where it is a terminal.

A record has a time, a level, a message and the fields given as `extra={"fields": {…}}`. Tokens and payloads must not be
logged.
"""

import logging
import os
import sys
import time

import msgspec

from tocsin.core.protocol.timestamps import iso

__all__ = ["JsonFormatter", "TextFormatter", "log_to_stderr"]


#: ANSI codes by level: requests are dim, problems yellow and red.
_COLOURS = {logging.DEBUG: "2", logging.INFO: "2", logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}
#: Control characters, which could change what a terminal shows.
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160)])


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "at": iso(round(record.created * 1_000_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= fields
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class TextFormatter(logging.Formatter):
    """Formats a record as a line for people: time, level, message and fields; in colour where `colour` is set."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colours = _COLOURS if colour else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        fields = getattr(record, "fields", None)
        more = "".join(f"  {name} {value}" for name, value in fields.items()) if isinstance(fields, dict) else ""
        line = f"{at} {record.levelname.lower():<7} {record.getMessage()}{more}".translate(_CONTROLS)
        if record.exc_info is not None:
            line += "\n" + self.formatException(record.exc_info)
        code = self._colours.get(record.levelno)
        return line if code is None else f"\x1b[{code}m{line}\x1b[0m"


def log_to_stderr(level: str = "info") -> None:
    """Send all logs of the process to standard error: for people where it is a terminal, as JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    if sys.stderr.isatty():
        colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        handler.setFormatter(TextFormatter(colour=colour))
    else:
        handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel(max(root.level, logging.WARNING))

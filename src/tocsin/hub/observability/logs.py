"""Structured logs: one JSON object per line on standard error.

A record has a time, a level, a message and the fields given as `extra={"fields": {…}}`. Tokens and payloads must not be
logged.
"""

import logging
import sys

import msgspec

from tocsin.core.protocol.envelope import iso

__all__ = ["JsonFormatter", "log_to_stderr"]


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


def log_to_stderr(level: str = "info") -> None:
    """Send all logs of the process to standard error, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel(max(root.level, logging.WARNING))

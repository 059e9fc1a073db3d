"""What a tool is, what comes of calling one, and the envelope that some of them send."""

import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from tocsin.gateways.mcp.tool_call import Mail

__all__ = ["Outcome", "ToolRow", "envelope_of"]

#: Tells the ids of this process from those of any other.
_OURS = secrets.token_hex(6)
_numbers = count(1)


class Outcome(msgspec.Struct, frozen=True):
    """What came of a call."""

    #: For programs.
    result: dict[str, Any]
    #: For models.
    text: str
    #: What was handed out, where the tool does that itself.
    mail: Mail | None = None


class ToolRow(msgspec.Struct, frozen=True):
    """A row of the table of tools."""

    handler: Callable[[Any, Any], Awaitable[Outcome]]
    arguments: type[msgspec.Struct]
    result: type[msgspec.Struct]
    title: str
    #: Whether it changes nothing.
    reads: bool = False
    #: Whether calling it again with the same arguments changes nothing more.
    repeats: bool = False
    #: Whether it can undo something.
    destroys: bool = False

    @property
    def name(self) -> str:
        """Return its name."""
        return self.handler.__name__


def envelope_of(given: Any, agent: str, kind: str) -> dict[str, Any]:
    """Write what the arguments say as an envelope of the caller's."""
    now = datetime.now(UTC)
    payload = dict(given.payload or {})
    if given.text is not None:
        payload["text"] = given.text
    envelope: dict[str, Any] = {
        "version": "1.1.0",
        "messageId": given.own_id or f"msg_{now:%Y%m%d}_{now:%H%M%S}_{_OURS}_{next(_numbers)}",
        "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "sender": {"agentId": agent, "type": kind},
        "payload": payload,
    }
    if given.priority is not None:
        envelope["priority"] = given.priority
    metadata = dict(given.metadata or {})
    if given.ttl_s is not None:
        metadata["ttl"] = given.ttl_s
    return envelope | ({"metadata": metadata} if metadata else {})

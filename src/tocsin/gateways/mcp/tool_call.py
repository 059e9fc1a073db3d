"""The interface between tools and the bus, and the limits of an answer."""

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tocsin.core.protocol.envelope import AgentRef
from tocsin.core.protocol.parsing import has_brackets

if TYPE_CHECKING:
    from tocsin.hub.config import ServerConfig

__all__ = ["DEFAULT_TYPE", "AnswerLimits", "ToolCall", "as_json", "limit_depth", "limits_of"]

#: Type of an agent before it registers.
DEFAULT_TYPE = "AdHoc"


class AnswerLimits(msgspec.Struct, frozen=True):
    """Limits of what one answer shows."""

    #: Maximum number of urgent messages in any answer.
    urgent_max: int
    #: Maximum bytes of their payloads in all.
    urgent_bytes_max: int
    #: Maximum number of messages of one fetch.
    inbox_max: int
    #: Maximum bytes of the payloads of one fetch; a larger message is returned in parts of that size.
    inbox_bytes_max: int
    #: Maximum bytes of the metadata of one message; entries that do not fit are omitted.
    metadata_bytes_max: int
    #: Maximum nesting; deeper parts are shown as JSON text.
    depth_max: int


def limits_of(config: "ServerConfig") -> AnswerLimits:
    """Return the limits that a hub's configuration sets."""
    return AnswerLimits(
        config.mcp_urgent_max,
        config.mcp_urgent_bytes_max,
        config.mcp_inbox_max,
        config.mcp_inbox_bytes_max,
        config.mcp_metadata_bytes_max,
        config.mcp_depth_max,
    )


def as_json(reply: Any, depth_max: int) -> Any:
    """Return a reply as JSON values, its deeper parts as text, so that every answer can be written."""
    written = msgspec.json.encode(reply)
    value = msgspec.json.decode(written)
    # With no more brackets than levels, nothing can be nested too deeply.
    return limit_depth(value, depth_max) if has_brackets(written, depth_max + 1) else value


def limit_depth(value: Any, depth_max: int) -> Any:
    """Return JSON values with the parts below a depth as text."""
    if isinstance(value, dict):
        return {key: limit_depth(part, depth_max - 1) for key, part in value.items()} if depth_max else _text(value)
    if isinstance(value, list):
        return [limit_depth(part, depth_max - 1) for part in value] if depth_max else _text(value)
    return value


def _text(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return "(nested too deeply to show)"


class ToolCall(Protocol):
    """One tool call of one agent.

    Messages that it fetches are offered to the agent's piggyback session. A later call that quotes the cursor of the
    answer confirms them.
    """

    limits: AnswerLimits
    #: Whether the cursors of answers are quoted without the model's help; then no answer shows one.
    quotes_by_itself: bool
    #: Names of the toolsets that the caller asked for; empty for those of its role.
    toolsets: tuple[str, ...]

    async def confirm(self, receipt: str) -> None:
        """Confirm the messages of the cursors that the model quotes; an unknown cursor changes nothing."""

    async def ask(self, operation: str, arguments: dict[str, Any] | None = None, envelope: bytes | None = None) -> Any:
        """Perform an operation and return its reply as JSON values; a refusal is raised as `TocsinError`."""

    async def sender(self) -> AgentRef:
        """Return the calling agent as its envelopes name it."""

    async def role(self) -> str:
        """Return the role of the calling agent; empty if it cannot be found out."""

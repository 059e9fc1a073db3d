"""What a tool may ask of the bus, and how it is refused; where the bus is, a tool does not know."""

from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.hub.config import ServerConfig
from tocsin.wire.problems import ProblemDocument

__all__ = ["CURRENT", "NOTHING_WAITS", "Carrying", "Mail", "Refused", "ToolCall", "carrying_of", "levelled"]

#: What waits for somebody for whom nothing waits.
NOTHING_WAITS = {liminal_name(level): 0 for level in Priority}


class Refused(Exception):
    """The bus, or the check of the arguments, refuses; carries the problem document."""

    def __init__(self, document: ProblemDocument, repair: str = "") -> None:
        super().__init__(f"{document.code}: {document.detail}")
        self.document = document
        #: What to do next, where whoever refuses knows better than the code says.
        self.repair = repair


class Mail(msgspec.Struct, frozen=True):
    """What is handed out in an answer, and how much still waits."""

    #: Envelopes, most urgent first, in the agent's protocol version.
    envelopes: list[dict[str, Any]]
    #: How many still wait, by priority.
    waiting: dict[str, int]


class Carrying(msgspec.Struct, frozen=True):
    """How much an answer carries."""

    #: Urgent messages that any answer carries.
    urgent_max: int
    #: Bytes of their payloads, in all.
    urgent_bytes_max: int
    #: Bytes of the payloads of one fetch; a larger message comes alone.
    inbox_bytes_max: int
    #: Bytes of the metadata of one message; what does not fit is left out.
    metadata_bytes_max: int
    #: Levels of what is shown; what is deeper is shown as JSON text.
    depth_max: int


def carrying_of(config: ServerConfig) -> Carrying:
    """Return how much an answer carries by a hub's configuration."""
    return Carrying(
        config.mcp_urgent_max,
        config.mcp_urgent_bytes_max,
        config.mcp_inbox_bytes_max,
        config.mcp_metadata_bytes_max,
        config.mcp_depth_max,
    )


def levelled(value: Any, depth_max: int) -> Any:
    """Write what is nested too deeply as text, so that no message can be such that an answer cannot be written."""
    if isinstance(value, dict):
        return {key: levelled(part, depth_max - 1) for key, part in value.items()} if depth_max else _text(value)
    if isinstance(value, list):
        return [levelled(part, depth_max - 1) for part in value] if depth_max else _text(value)
    return value


def _text(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return "(nested too deeply to be shown)"


class ToolCall(Protocol):
    """One call of one agent.

    What it hands out is offered to the agent's piggyback session. It is confirmed by the agent's next call, and only
    if that came after this answer had left.
    """

    carrying: Carrying

    async def ask(
        self, operation: str, path: dict[str, str] | None = None, query: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Do one operation of the HTTP table, and return its answer as it goes over the wire; a refusal is raised."""

    async def me(self) -> tuple[str, str]:
        """Return the agent and its type; `AdHoc` before it is registered."""

    async def fetch(self, limit: int, at_least: str, bytes_max: int | None) -> Mail:
        """Hand out what waits, most urgent first."""

    async def urgent(self) -> Mail:
        """Hand out what an answer carries of the urgent; nothing for one who is not registered."""


#: The visit that the present call is.
CURRENT: ContextVar[ToolCall] = ContextVar("tocsin_mcp_visit")

"""Streams of an MCP server that report the messages that pass, in their order."""

from collections.abc import Callable
from typing import Any

import anyio
from mcp.shared.message import SessionMessage

__all__ = ["Heard", "Watched"]


class Heard:
    """An incoming stream that reports each message before it is handled; the library handles them in any order."""

    def __init__(self, stream: Any, heard: Callable[[Any], None]) -> None:
        self._stream = stream
        self._heard = heard

    async def receive(self) -> Any:
        """Return the next message."""
        item = await self._stream.receive()
        if isinstance(item, SessionMessage):
            self._heard(item.message)
        return item

    def __aiter__(self) -> "Heard":
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> "Heard":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Watched:
    """An outgoing stream that reports each message that has left."""

    def __init__(self, stream: Any, sent: Callable[[Any], None]) -> None:
        self._stream = stream
        self._sent = sent

    async def send(self, item: Any) -> None:
        """Send a message, and report it."""
        await self._stream.send(item)
        self._sent(item.message)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def close(self) -> None:
        """Close the stream at once."""
        self._stream.close()

    async def __aenter__(self) -> "Watched":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

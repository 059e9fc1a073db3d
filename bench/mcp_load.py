"""Sending with the official MCP client, for `bench.load`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

__all__ = ["sender"]

Send = Callable[[str, dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def sender(url: str, token: str) -> AsyncIterator[Send]:
    """Connect, register, and return how to send a message to an agent."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):

        async def send(recipient: str, payload: dict[str, Any]) -> None:
            arguments = {"to": recipient, "message_type": "TaskAssigned", "payload": payload}
            result = await client.call_tool("send_message", arguments)
            if result.is_error:
                raise SystemExit(f"refused: {result.content}")

        yield send

"""An agent that uses the official MCP client, for `bench.load`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

__all__ = ["McpAgent", "connect_agent"]


class McpAgent:
    """One connected agent."""

    def __init__(self, client: Client) -> None:
        self._client = client
        #: Cursor of the last answer, which the next fetch quotes.
        self._cursor = ""

    async def send(self, recipient: str, payload: dict[str, Any]) -> str:
        """Send a message and return its id."""
        arguments = {"to": recipient, "type": "TaskAssigned", "payload": payload}
        return str((await self._call("post_message", arguments))["receipt"]["signal_id"])

    async def fetch(self) -> list[str]:
        """Fetch waiting messages and return their ids."""
        answer = await self._call("fetch_inbox", {"receipt": self._cursor})
        self._cursor = answer.get("inbox", {}).get("cursor", "")
        return [message["message_id"] for message in answer["messages"]]

    async def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        if result.is_error or result.structured_content is None:
            raise SystemExit(f"refused: {result.content}")
        return dict(result.structured_content)


@asynccontextmanager
async def connect_agent(url: str, token: str) -> AsyncIterator[McpAgent]:
    """Connect an agent."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield McpAgent(client)

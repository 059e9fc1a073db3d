"""A coding agent: the official MCP client, over streamable HTTP or through a `tocsin mcp` of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from tests.acceptance.agents.base import LOOK_S, Driver, Letter, Refused
from tests.forks import MCP, stand_in
from tests.loopback import async_client
from tests.patience import PATIENCE_S


class McpDriver(Driver):
    """Calls tools; every answer may carry what is urgent."""

    def __init__(self, agent: str, client: Client) -> None:
        super().__init__(agent)
        self._client = client
        self._cursors: list[str] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        cursors, self._cursors = self._cursors, []
        given = {name: value for name, value in arguments.items() if value is not None}
        if cursors:
            given["receipt"] = ",".join(cursors)
        result = await self._client.call_tool(tool, given)
        assert isinstance(result, CallToolResult)
        content = result.structured_content
        assert isinstance(content, dict)
        inbox = content.get("inbox", {})
        self._keep(inbox.get("urgent", []))
        if "cursor" in inbox:
            self._cursors.append(inbox["cursor"])
        if result.is_error:
            raise Refused(content["problem"])
        return content

    async def send(self, receiver: str, letter: Letter) -> dict[str, Any]:
        sent = await self.call(
            "post_message",
            to=receiver,
            type=letter.message_type,
            payload=letter.payload,
            message_id=letter.message_id,
            correlation_id=letter.correlation_id,
            priority=letter.priority,
            ttl_s=letter.ttl_s,
        )
        # A tool leaves out what its caller knows, and what is as usual.
        usual = {"message_id": letter.message_id, "recipient": receiver, "duplicate": False, "copies": 1}
        return usual | (sent.get("receipt") or {})

    async def look(self) -> None:
        before = len(self.kept)
        self._keep((await self.call("fetch_inbox"))["messages"])
        if len(self.kept) == before:
            await asyncio.sleep(LOOK_S)

    async def acknowledge(self, letter: Letter) -> None:
        await self.call("acknowledge_message", message_id=letter.message_id, status="received")

    async def reject(self, letter: Letter, *, can_retry: bool) -> None:
        await self.call("reject_message", message_id=letter.message_id, reason="no", can_retry=can_retry)

    async def recall(self, message_id: str) -> str:
        return str((await self.call("recall_message", message_id=message_id))["outcome"])

    def _keep(self, mails: list[dict[str, Any]]) -> None:
        for mail in mails:
            letter = Letter(
                mail["from"],
                mail["type"],
                mail["payload"],
                mail["correlation_id"],
                mail["message_id"],
                mail["priority"],
            )
            self.kept.append(letter)


@asynccontextmanager
async def over_mcp_http(url: str, agent: str, token: str) -> AsyncIterator[McpDriver]:
    """Attach an agent; its first call opens its session."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        async_client(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url + "/mcp", http_client=http)) as client,
    ):
        driver = McpDriver(agent, client)
        await driver.look()
        yield driver


@asynccontextmanager
async def over_mcp_stdio(url: str, agent: str, token: str, place: Path) -> AsyncIterator[McpDriver]:
    """Attach an agent through a process of its own."""
    command, *arguments = stand_in(["tocsin", "--url", url, "mcp"], MCP)
    server = StdioServerParameters(command=command, args=arguments, env={"TOCSIN_TOKEN": token}, cwd=str(place))
    with (place / f"{agent}.stderr").open("w") as stderr:
        async with Client(stdio_client(server, errlog=stderr)) as client:
            driver = McpDriver(agent, client)
            await driver.look()
            yield driver

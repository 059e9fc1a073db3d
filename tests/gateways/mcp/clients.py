"""The official client library against a real hub: over streamable HTTP, and through `tocsin mcp` as a process."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.cli.processes import RunningHub
from tests.forks import MCP, stand_in
from tests.loopback import async_client
from tests.patience import PATIENCE_S
from tocsin.cli.remote import Remote
from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.gateways.mcp.schemas import output_schema
from tocsin.gateways.mcp.tools import TOOLS
from tocsin.hub.token_files import keep_secret

Way = Callable[..., AbstractAsyncContextManager["Caller"]]
#: Where this process has the code from, where that is said: a client of the library hands little on to the server.
SOURCES = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


class Hub(RunningHub):
    """A hub in a process of its own, with agents made on the fly."""

    def __enter__(self) -> "Hub":
        super().__enter__()
        return self

    def admin(self) -> Remote:
        return Remote(self.url, (self.data / "admin.token").read_text().strip())

    def join(self, agent: str, role: str = "primary", kind: str | None = "AdHoc", **more: Any) -> str:
        body = {"agent": agent, "role": role, "type": kind, **more}
        token: str = self.admin().post("v1", "admin", "tokens", body=body)["token"]
        keep_secret(self.data / "tokens" / f"{agent}.token", token)
        return token

    def token(self, agent: str) -> str:
        return (self.data / "tokens" / f"{agent}.token").read_text().strip()

    def state(self, message_id: str) -> str:
        found: str = self.admin().get("v1", "messages", message_id)[0]["state"]
        return found


class Caller:
    """A coding agent, as far as the bus is concerned: it quotes the cursors of the answers that it has read."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._cursors: list[str] = []

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        cursors, self._cursors = self._cursors, []
        result = await self.client.call_tool(tool, arguments | ({"receipt": ",".join(cursors)} if cursors else {}))
        assert isinstance(result, CallToolResult)
        cursor = (result.structured_content or {}).get("inbox", {}).get("cursor")
        if cursor:
            assert cursor in text_of(result), "the model is told how to confirm"
            self._cursors.append(cursor)
        return result

    async def do(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and expect what its schema says."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        validator_of(tool).validate(result.structured_content)
        assert isinstance(result.structured_content, dict)
        return whole(result.structured_content)

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and expect to be refused."""
        result = await self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        assert isinstance(result.structured_content, dict)
        problem: dict[str, Any] = result.structured_content["problem"]
        assert problem["repair"]
        assert problem["code"] in text_of(result)
        assert problem["repair"] in text_of(result)
        assert "Traceback" not in text_of(result)
        return problem


def whole(content: dict[str, Any]) -> dict[str, Any]:
    """Return a result with what it leaves out: the inbox where nothing waits, and ids that are in the receipt."""
    inbox = {"urgent": []} | content.get("inbox", {})
    inbox["waiting"] = dict.fromkeys(PRIORITY_NAMES, 0) | inbox.get("waiting", {})
    receipt = content.get("receipt") or {}
    names = {"message_id": receipt["signal_id"]} if "signal_id" in receipt else {}
    content = names | content | {"inbox": inbox}
    return {"correlation_id": content["message_id"]} | content if receipt else content


@cache
def validator_of(tool: str) -> jsonschema.Draft202012Validator:
    """Return what answers of a tool must pass; its schema is checked once, which takes longer than a call."""
    schema = exact(output_schema(TOOLS[tool]))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def exact(schema: Any) -> Any:
    """Return a schema that fits nothing but what it names: what an answer has, its schema must say."""
    if isinstance(schema, list):
        return [exact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return closed | {name: exact(part) for name, part in schema.items()}


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@asynccontextmanager
async def over_http(
    hub: Hub, agent: str, mode: str = "auto", *, path: str = "/mcp", **headers: str
) -> AsyncIterator[Caller]:
    headers = {"Authorization": f"Bearer {hub.token(agent)}"} | headers
    async with (
        async_client(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(hub.url + path, http_client=http), mode=mode) as client,
    ):
        yield Caller(client)


@asynccontextmanager
async def over_stdio(hub: Hub, agent: str, mode: str = "auto", *options: str) -> AsyncIterator[Caller]:
    words = ["tocsin", "--url", hub.url, "--data", str(hub.data), "--as", agent, "mcp", *options]
    command, *arguments = stand_in(words, MCP)
    server = StdioServerParameters(command=command, args=arguments, cwd=str(hub.data.parent), env=SOURCES)
    with (hub.data.parent / f"{agent}.stderr").open("w") as stderr:
        async with Client(stdio_client(server, errlog=stderr), mode=mode) as client:
            yield Caller(client)


WAYS: dict[str, Way] = {"http": over_http, "stdio": over_stdio}


def new_hub(path: Path, *options: str) -> Hub:
    """Start a hub that has imported the library of MCP: to do so with the first call takes longer than all the rest."""
    return Hub(path / "data", *options, imported=MCP)

"""The interfaces that play the conformance story."""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_origin

import msgspec

from tests.gateways.websocket.sockets import Client
from tests.loopback import async_client
from tests.operations.story import ROLES
from tocsin.cli.remote import Refused, Remote
from tocsin.client import Agent, client_config
from tocsin.client.operations import Operations
from tocsin.core import commands as cmd
from tocsin.core.errors import TocsinError
from tocsin.fleet.assembly import project_app
from tocsin.fleet.home import open_projects
from tocsin.fleet.router import Router
from tocsin.gateways.http.server import QuietServer, listen, server_settings
from tocsin.gateways.mcp.tools import TOOLS
from tocsin.hub.config import load_config
from tocsin.hub.embedded import Tocsin
from tocsin.hub.operations import Call, perform
from tocsin.hub.service import Hub
from tocsin.policies import parse_policy
from tocsin.wire.drafts import Written
from tocsin.wire.messages import SendMessages
from tocsin.wire.operation import NamedPage, Operation
from tocsin.wire.socket import SUBPROTOCOL

__all__ = ["HUB_INTERFACES", "Answer", "Interface", "embedded", "hub_interface"]

POLICY = "storage: {projection_interval_s: 0.02}"
HUB_INTERFACES = ("http", "socket", "mcp", "sdk", "cli")


class Answer(msgspec.Struct, frozen=True):
    """The outcome of a call: a reply as JSON values, or the code and field of a refusal."""

    reply: Any = None
    code: str = ""
    field: str | None = None


class Interface(ABC):
    """One way to call operations."""

    @abstractmethod
    async def call(
        self, agent: str, operation: Operation, arguments: dict[str, Any], envelope: dict[str, Any] | None
    ) -> Answer:
        """Call an operation."""

    async def close(self) -> None:  # noqa: B027
        """Close what was opened."""


def _refusal(problem: Any) -> Answer:
    found = problem if isinstance(problem, dict) else msgspec.to_builtins(problem)
    return Answer(code=found["code"], field=found.get("field"))


class EmbeddedInterface(Interface):
    """Operations of an embedded bus, called as its agents' links call them."""

    def __init__(self, bus: Tocsin) -> None:
        self._bus = bus

    async def call(
        self, agent: str, operation: Operation, arguments: dict[str, Any], envelope: dict[str, Any] | None
    ) -> Answer:
        call = Call(self._bus.project, cmd.Caller(agent, ROLES[agent][0]))
        try:
            if operation.request is SendMessages:
                request: Any = SendMessages([msgspec.Raw(msgspec.json.encode(envelope))])
            else:
                raw = None if envelope is None else msgspec.json.encode(envelope)
                request = call.read(operation, arguments, raw)
            reply = await perform(call, operation, request)
        except TocsinError as error:
            return _refusal(error.problem)
        return Answer(msgspec.json.decode(msgspec.json.encode(reply)))


class HttpInterface(Interface):
    """HTTP requests made from the row."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self.port = port
        self.tokens = tokens
        self.client = async_client(base_url=f"http://127.0.0.1:{port}")

    def headers(self, agent: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[agent]}"}

    async def call(
        self, agent: str, operation: Operation, arguments: dict[str, Any], envelope: dict[str, Any] | None
    ) -> Answer:
        path, others = operation.path, dict(arguments)
        for name in [name for name in arguments if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", str(others.pop(name)))
        if "{" in path:
            return Answer(code="E_VALIDATION_001", field="$." + path.split("{")[1].split("}")[0])
        if operation.request is SendMessages:
            content, params = msgspec.json.encode([envelope]), {}
        elif envelope is not None:
            content, params = msgspec.json.encode(envelope), others
        elif operation.method in ("GET", "DELETE"):
            content, params = b"", {name: _word(value) for name, value in others.items()}
        else:
            content, params = msgspec.json.encode(others), {}
        response = await self.client.request(
            operation.method, path, params=params, content=content, headers=self.headers(agent)
        )
        answer = response.json()
        return Answer(answer) if response.status_code < 300 else _refusal(answer)

    async def close(self) -> None:
        await self.client.aclose()


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


class SocketInterface(HttpInterface):
    """`call` over a WebSocket."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        super().__init__(port, tokens)
        self._clients: dict[str, Client] = {}

    async def close(self) -> None:
        for client in self._clients.values():
            await client.socket.close()
            await client.closed()
        await super().close()

    async def _client(self, agent: str) -> Client:
        if agent not in self._clients:
            from websockets.asyncio.client import connect

            socket = await connect(
                f"ws://127.0.0.1:{self.port}/v1/socket",
                additional_headers=self.headers(agent),
                subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
                compression=None,
            )
            self._clients[agent] = Client(socket)
            await self._clients[agent].hello(window=0)
        return self._clients[agent]

    async def call(
        self, agent: str, operation: Operation, arguments: dict[str, Any], envelope: dict[str, Any] | None
    ) -> Answer:
        if operation.request is SendMessages:
            return await super().call(agent, operation, arguments, envelope)
        client = await self._client(agent)
        more = {} if envelope is None else {"envelope": envelope}
        answer = await client.one("call", operation=operation.name, arguments=arguments, **more)
        return Answer(answer["ok"]) if "ok" in answer else _refusal(answer["problem"])


class McpInterface(HttpInterface):
    """Tools of the MCP server; operations that are no tools go over HTTP."""

    async def call(
        self, agent: str, operation: Operation, arguments: dict[str, Any], envelope: dict[str, Any] | None
    ) -> Answer:
        if operation.tool_name not in TOOLS or envelope is not None or operation.name == "fetch_inbox":
            return await super().call(agent, operation, arguments, envelope)
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": operation.tool_name, "arguments": arguments},
        }
        headers = self.headers(agent) | {"Accept": "application/json, text/event-stream"}
        response = await self.client.post("/mcp", json=request, headers=headers)
        result = response.json()["result"]
        content = result["structuredContent"]
        if result.get("isError"):
            answer = _refusal(content.get("problem", content))
            # Tools name an argument without the path of a JSON document.
            return Answer(code=answer.code, field=None if answer.field is None else f"$.{answer.field}")
        for name in ("inbox", "note"):
            content.pop(name, None)
        return Answer(content["items"] if get_origin(operation.reply) is list else content)


class SdkInterface(HttpInterface):
    """Generated methods of the SDK; what the SDK has richer verbs for goes over HTTP."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        super().__init__(port, tokens)
        self._agents: dict[str, Agent] = {}

    async def close(self) -> None:
        for agent in self._agents.values():
            await agent.close()
        await super().close()

    async def _agent(self, name: str) -> Agent:
        if name not in self._agents:
            url, config = f"http://127.0.0.1:{self.port}", client_config(connect_timeout_s=10)
            self._agents[name] = await Agent.connect(url, token=self.tokens[name], config=config)
        return self._agents[name]

    async def call(
        self, agent: str, operation: Operation, arguments: dict[str, Any], envelope: dict[str, Any] | None
    ) -> Answer:
        method = getattr(Operations, operation.name, None)
        known = method is not None and agent != "worker" and operation.access.value != "admin"
        if (
            not known
            or not set(arguments) <= {*operation.request.__struct_fields__}
            or not _complete(operation, arguments)
        ):
            return await super().call(agent, operation, arguments, envelope)
        try:
            reply = await getattr(await self._agent(agent), operation.name)(**arguments)
        except TocsinError as error:
            return _refusal(error.problem)
        if get_origin(operation.reply) is NamedPage:
            reply = {"items": reply}  # the SDK reads all pages
        return Answer(msgspec.json.decode(msgspec.json.encode(reply)))


def _complete(operation: Operation, arguments: dict[str, Any]) -> bool:
    """Tell whether Python itself would not refuse the call for a missing argument."""
    return all(field.name in arguments for field in msgspec.structs.fields(operation.request) if field.required)


class CliInterface(HttpInterface):
    """The command line's way to a hub."""

    async def call(
        self, agent: str, operation: Operation, arguments: dict[str, Any], envelope: dict[str, Any] | None
    ) -> Answer:
        if operation.request is SendMessages or not _complete(operation, {**arguments, "envelope": envelope}):
            return await super().call(agent, operation, arguments, envelope)
        remote = Remote(f"http://127.0.0.1:{self.port}", self.tokens[agent])
        written = None
        if envelope is not None:
            written = Written(envelope["messageId"], msgspec.Raw(msgspec.json.encode(envelope)), None)
        try:
            reply = await asyncio.to_thread(remote.ask, operation.name, arguments, written)
        except Refused as error:
            return _refusal(error.problem)
        except TocsinError as error:
            return _refusal(error.problem)
        return Answer(msgspec.json.decode(msgspec.json.encode(reply)))


_KINDS: dict[str, type[HttpInterface]] = {
    "http": HttpInterface,
    "socket": SocketInterface,
    "mcp": McpInterface,
    "sdk": SdkInterface,
    "cli": CliInterface,
}


@asynccontextmanager
async def hub_interface(path: Path, kind: str) -> AsyncIterator[Interface]:
    """Serve a hub with all gateways on a port, with the story's agents registered."""
    settings = load_config(health_interval_s=86400)
    hub = await Hub.open(path / "data", parse_policy(POLICY), settings, project="story")
    tokens: dict[str, str] = {}
    for agent, (role, kind_of) in ROLES.items():
        tokens[agent] = hub.authority.issue(agent, role, admin=agent == "root").secret.spell()
        await hub.host.submit(cmd.RegisterAgent(kind_of), cmd.Caller(agent, role))
    async with contextlib.AsyncExitStack() as stack:
        app = Router("story", await project_app(hub, stack), hub.authority, await open_projects(hub, ""))
        listener = listen("127.0.0.1", 0)
        server = QuietServer(server_settings(app, settings))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        interface = _KINDS[kind](listener.getsockname()[1], tokens)
        try:
            yield interface
        finally:
            await interface.close()
            hub.closing.set()
            server.stop()
            await serving
            await hub.close()


@asynccontextmanager
async def embedded(path: Path) -> AsyncIterator[Interface]:
    """Open an embedded bus with the story's agents registered."""
    bus = await Tocsin.open(path / "data", project="story", policy=parse_policy(POLICY))
    try:
        for agent, (role, kind) in ROLES.items():
            await bus.call(cmd.RegisterAgent(kind), cmd.Caller(agent, role))
        yield EmbeddedInterface(bus)
    finally:
        await bus.close()

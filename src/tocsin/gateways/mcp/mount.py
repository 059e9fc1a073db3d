"""The `/mcp` endpoint of a hub: streamable HTTP, one request at a time and no state between requests.

Identity and limits are those of HTTP; a request that is refused before a tool is called is answered with a problem
document. There is no session to lose, so a client continues after the hub was restarted. Only POST is served: no
notification is pushed, because every answer carries the agent's urgent messages.
"""

import asyncio
import importlib
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from tocsin.core.errors import TocsinError, refusal
from tocsin.gateways.complete_route import CompleteRoute
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.identity import identify
from tocsin.gateways.json_answer import JsonAnswer
from tocsin.gateways.limits import BodyTimeout, read_body
from tocsin.gateways.mcp.calling import call_tool
from tocsin.gateways.mcp.hub_call import HubToolCall
from tocsin.gateways.mcp.tool_call import ToolCall, limits_of
from tocsin.gateways.mcp.tools import tool_named
from tocsin.gateways.mcp.toolsets import parse_toolsets
from tocsin.gateways.problems import problem_response, unhandled
from tocsin.gateways.requests import HubRequest
from tocsin.hub.config import ServerConfig, is_loopback
from tocsin.hub.service import Hub
from tocsin.wire.traces import trace_in

if TYPE_CHECKING:
    from tocsin.gateways.mcp.library import Context, Library

__all__ = ["ENDPOINTS", "PATH", "mcp_route"]

PATH = "/mcp"
ENDPOINTS = (
    Endpoint(
        http=f"POST {PATH}",
        name="mcp",
        summary="Call a tool, or send another MCP request.",
        tag="mcp",
        answers={200: ("application/json",)},
        protocol="MCP over streamable HTTP",
    ),
)
_TOOL_CALL = "tocsin.tool_call"
_RECEIPT = "tocsin-receipt"
_TOOLSETS = "tocsin-toolsets"
_log = logging.getLogger("tocsin.mcp")
_is_loopback = lru_cache(maxsize=64)(is_loopback)


@asynccontextmanager
async def mcp_route(hub: Hub) -> AsyncIterator[CompleteRoute]:
    """Serve MCP beside the HTTP gateway for as long as the context lasts."""
    library = _LateLibrary(hub.config)
    try:
        yield CompleteRoute(PATH, _Endpoint(hub, library), name="mcp", called=["POST"])
    finally:
        await library.close()


class _LateLibrary:
    """The MCP library, imported in a thread when the first request needs it.

    A hub that no MCP client calls starts, opens projects and takes them over without it.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[Library] | None = None
        self._serving: asyncio.Task[None] | None = None

    async def opened(self) -> "Library":
        """Return what answers requests."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._serving = asyncio.create_task(self._serve(self._opened))
        return self._opened.result() if self._opened.done() else await asyncio.shield(self._opened)

    async def _serve(self, opened: "asyncio.Future[Library]") -> None:
        """Keep the library's tasks in one task, whichever request opens it and whichever closes it."""
        try:
            module = await asyncio.to_thread(importlib.import_module, "tocsin.gateways.mcp.library")
            async with module.open_library(_tool_call_of, self._config) as library:
                opened.set_result(library)
                await self._closing.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def close(self) -> None:
        """End what the library has running."""
        self._closing.set()
        if self._serving is not None:
            await self._serving


def _tool_call_of(context: "Context") -> ToolCall:
    request: Request = context.request  # type: ignore[assignment]
    tool_call: HubToolCall = request.scope[_TOOL_CALL]
    tool_call.trace = trace_in(context.meta or {}) or trace_in(request.headers)
    return tool_call


class _Ask(msgspec.Struct):
    """The parts of a JSON-RPC request that metrics and the log need."""

    method: str = ""
    params: Any = None

    @property
    def tool(self) -> Any:
        """Return the name of the tool that it calls; None if it calls none."""
        return self.params.get("name") if self.method == "tools/call" and isinstance(self.params, dict) else None


class _Endpoint:
    """Answers tool calls, and passes other requests to the MCP server."""

    def __init__(self, hub: Hub, library: _LateLibrary) -> None:
        self._hub = hub
        self._library = library
        self._limits = limits_of(hub.config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and log it without tokens or payloads."""
        started = time.perf_counter()
        exchange = _Exchange(receive, send)
        try:
            await self._serve(scope, exchange)
        except TocsinError as error:
            await problem_response(error.problem)(scope, receive, exchange.send)
        except BodyTimeout:
            await unhandled(408, "the body did not arrive in time")(scope, receive, exchange.send)
        except Exception:
            if exchange.begun:
                raise
            _log.exception("a request failed")
            await unhandled(500, "the hub failed to answer; its log has the reason")(scope, receive, exchange.send)
        took_s = time.perf_counter() - started
        metrics, name, status = self._hub.metrics, exchange.name, exchange.status
        metrics.requests.add(name, str(status))
        metrics.request_seconds.add(took_s, name)
        if _log.isEnabledFor(logging.INFO):
            fields = {"operation": name, "status": status, "agent": exchange.agent, "took_ms": round(took_s * 1000, 3)}
            _log.info("%s %s", scope["method"], PATH, extra={"fields": fields})

    async def _serve(self, scope: Scope, exchange: "_Exchange") -> None:
        request, config = HubRequest(scope, exchange.receive), self._hub.config
        headers = request.headers
        if scope["method"] != "POST":
            response = unhandled(405, "MCP requests are sent with POST; nothing is pushed")
            response.headers["Allow"] = "POST"
            await response(scope, exchange.receive, exchange.send)
            return
        _check_origin(request, config)
        grant = identify(self._hub, request, browser=False)  # coding agents have tokens, pages have no tools
        exchange.agent = grant.agent
        self._hub.must_be_open()
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            response = unhandled(415, "the body of an MCP request is application/json")
            await response(scope, exchange.receive, exchange.send)
            return
        asked = request.query_params.get("toolsets") if scope["query_string"] else None
        toolsets = parse_toolsets(asked or headers.get(_TOOLSETS, ""))
        with self._hub.request_limits.one_of(grant.agent):
            body = await read_body(request, config.mcp_bytes_max, config)
            library = await self._library.opened()
            direct = library.direct.read(request, body)
            exchange.called(_parsed(body).tool if direct is None else direct.name)
            caller, piggyback = grant.caller, self._hub.project.piggyback
            receipt = piggyback.next_call(caller, ",".join(headers.getlist(_RECEIPT)))
            tool_call = HubToolCall(self._hub.project, grant, self._limits, toolsets, cancellable=direct is None)
            await piggyback.attach(caller)
            if receipt is not None:
                await receipt
            if direct is None:
                exchange.body = body
                await library.manager.handle_request({**scope, _TOOL_CALL: tool_call}, exchange.replay, exchange.send)
                return
            tool_call.trace = trace_in(direct.meta) or trace_in(headers)
            result = await call_tool(tool_call, direct.name, direct.arguments, tool_call.inbox)
        exchange.status, exchange.begun = 200, True
        await JsonAnswer(library.direct.answer(direct, result))(scope, exchange.receive, exchange.send)


def _parsed(body: bytes) -> _Ask:
    """Parse a request; the library refuses what is not JSON, this refuses what is nested too deeply."""
    try:
        return msgspec.json.decode(body, type=_Ask)
    except RecursionError:
        raise refusal("E_PROTOCOL_002", "the request is nested too deeply", expected="a few hundred levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Ask()


def _check_origin(request: Request, config: ServerConfig) -> None:
    """Refuse pages of other sites; a page that was led to a loopback address by DNS still sends its origin."""
    origin = request.headers.get("origin")
    if origin is not None and origin not in config.mcp_origins and not _is_loopback(_host_of(origin)):
        expected = "no Origin, a loopback origin, or one of mcp_origins"
        raise refusal("E_AUTH_003", "pages of other sites may not call this hub", found=origin[:200], expected=expected)
    host = request.headers.get("host", "")
    if _is_loopback(config.address) and not _is_loopback(_host_of(f"//{host}")):
        raise refusal("E_AUTH_003", "this hub answers to loopback names only", found=host[:200], expected="127.0.0.1")


@lru_cache(maxsize=64)
def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


class _Exchange:
    """One request and its answer: the body is read once, and the status of the answer is kept."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self._send = send
        self.body: bytes | None = None
        #: The name to count and log it under.
        self.name = "mcp"
        self.agent: str | None = None
        #: HTTP status of the answer; 499 if the client had gone.
        self.status = 499
        self.begun = False

    def called(self, tool: Any) -> None:
        """Note which tool is called."""
        row = tool_named(tool) if isinstance(tool, str) else None
        if row is not None:
            self.name = f"mcp_{row.tool_name}"

    async def replay(self) -> Message:
        """Return the body that was read, then further messages."""
        if self.body is not None:
            body, self.body = self.body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self.receive()

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.status, self.begun = message["status"], True
        await self._send(message)

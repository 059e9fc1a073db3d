"""`/mcp` of a hub: streamable HTTP, one request at a time and no state between them.

The way in is the HTTP gateway's: the bearer token says who calls, the same limits hold, and what is wrong before a tool
is reached is a problem document. There is no session to lose, so a hub that was restarted goes on where it was. Only
POST is served: an agent is not woken by notifications, its next call carries what is urgent.
"""

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from tocsin.core.commands import Caller
from tocsin.core.errors import TocsinError, refusal
from tocsin.gateways.http.operation import Gateway
from tocsin.gateways.identity import identify
from tocsin.gateways.limits import BodyTimeout, read_body
from tocsin.gateways.mcp.hub_call import HubToolCall
from tocsin.gateways.mcp.server import build_server
from tocsin.gateways.mcp.tool_call import ToolCall, carrying_of
from tocsin.gateways.mcp.tools import TOOLS
from tocsin.gateways.problems import problem_response, unhandled
from tocsin.hub.config import ServerConfig, is_loopback
from tocsin.wire.traces import trace_in

__all__ = ["PATH", "mcp_route"]

PATH = "/mcp"
_VISIT = "tocsin.visit"
_NAMES = {row.name for row in TOOLS}
_log = logging.getLogger("tocsin.mcp")
_is_loopback = lru_cache(maxsize=64)(is_loopback)


@asynccontextmanager
async def mcp_route(gateway: Gateway) -> AsyncIterator[Route]:
    """Serve MCP beside the HTTP gateway, for as long as the context lasts."""
    logging.getLogger("mcp").setLevel(logging.WARNING)
    server = build_server(_visit_of)
    manager = StreamableHTTPSessionManager(
        server._lowlevel_server,
        json_response=True,
        stateless=True,
        max_request_body_size=gateway.hub.config.mcp_bytes_max,
    )
    async with manager.run():
        yield Route(PATH, _Endpoint(gateway, manager), name="mcp")


def _visit_of(context: ServerRequestContext[Any, Any]) -> ToolCall:
    request: Request = context.request  # type: ignore[assignment]
    tool_call: HubToolCall = request.scope[_VISIT]
    tool_call.trace = trace_in(context.meta or {}) or trace_in(request.headers)
    return tool_call


class _Ask(msgspec.Struct):
    """As much of a JSON-RPC request as is needed to count and log it."""

    method: str = ""
    params: Any = None

    @property
    def name(self) -> str:
        """Return the tool that is called, or what else it is."""
        if self.method != "tools/call":
            return "mcp"
        tool = self.params.get("name") if isinstance(self.params, dict) else None
        return f"mcp_{tool}" if tool in _NAMES else "mcp"


class _Endpoint:
    """Takes a request up to the tools, and its answer back."""

    def __init__(self, gateway: Gateway, manager: StreamableHTTPSessionManager) -> None:
        self._gateway = gateway
        self._hub = gateway.hub
        self._manager = manager
        self._carrying = carrying_of(gateway.hub.config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and leave a line in the log: never a token or a payload."""
        started = time.perf_counter()
        exchange = _Exchange(receive, send)
        try:
            await self._serve(scope, exchange)
        except TocsinError as error:
            await problem_response(error.problem)(scope, receive, exchange.send)
        except BodyTimeout:
            await unhandled(408, "the body did not come in time")(scope, receive, exchange.send)
        except Exception:
            if exchange.begun:
                raise
            _log.exception("a request failed")
            await unhandled(500, "the hub failed to answer; its log says why")(scope, receive, exchange.send)
        took_s = time.perf_counter() - started
        metrics, name, status = self._hub.metrics, exchange.ask.name, exchange.status
        metrics.requests.add(name, str(status))
        metrics.request_seconds.add(took_s, name)
        fields = {"operation": name, "status": status, "agent": exchange.agent, "took_ms": round(took_s * 1000, 3)}
        _log.info("%s %s", scope["method"], PATH, extra={"fields": fields})

    async def _serve(self, scope: Scope, exchange: "_Exchange") -> None:
        request, config = Request(scope, exchange.receive), self._hub.config
        if request.method != "POST":
            response = unhandled(405, "MCP is asked by POST: nothing is pushed over this door")
            response.headers["Allow"] = "POST"
            await response(scope, exchange.receive, exchange.send)
            return
        _check_origin(request, config)
        grant = identify(self._hub, request)
        exchange.agent = grant.agent
        if self._hub.closing.is_set():
            raise refusal("E_HUB_003", "the hub is shutting down")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            response = unhandled(415, "MCP is asked with a body of application/json")
            await response(scope, exchange.receive, exchange.send)
            return
        with self._gateway.under_way.one_of(grant.agent):
            exchange.body = await read_body(request, config.mcp_bytes_max, config.body_timeout_s)
            exchange.ask = _understood(exchange.body)
            caller = Caller(grant.agent, grant.role)
            receipt = self._gateway.piggyback.next_call(caller, confirms=exchange.ask.method == "tools/call")
            tool_call = exchange.tool_call = HubToolCall(self._gateway, grant, self._carrying)
            try:
                await self._gateway.piggyback.attach(caller)
                if receipt is not None:
                    await receipt
                await self._manager.handle_request({**scope, _VISIT: tool_call}, exchange.replay, exchange.send)
            finally:
                tool_call.ended(taken=exchange.taken)


def _understood(body: bytes) -> _Ask:
    """Look at a request; what is not JSON is for the library to refuse, what is nested without end is refused here."""
    try:
        return msgspec.json.decode(body, type=_Ask)
    except RecursionError:
        raise refusal("E_PROTOCOL_002", "the request is nested too deeply", expected="a few hundred levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Ask()


def _check_origin(request: Request, config: ServerConfig) -> None:
    """Keep the pages of a browser out: a page that was led to a loopback address still says where it is from."""
    origin = request.headers.get("origin")
    if origin is not None and origin not in config.mcp_origins and not _is_loopback(_host_of(origin)):
        expected = "no Origin, one on this machine, or one of mcp_origins"
        raise refusal("E_AUTH_003", "pages from elsewhere may not call this hub", found=origin[:200], expected=expected)
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
    """One request and its answer as they go by: the body read once, and whether the answer was taken."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self._send = send
        self.body: bytes | None = None
        self.ask = _Ask()
        self.agent: str | None = None
        self.tool_call: HubToolCall | None = None
        #: HTTP status of the answer; 499 where there was nobody to take one.
        self.status = 499
        self.begun = False
        #: Whether the whole answer, with what it hands out, went to somebody who was there.
        self.taken = False
        self._there = False

    async def replay(self) -> Message:
        """Give the body that was read, then whatever comes."""
        if self.body is not None:
            body, self.body = self.body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self.receive()

    async def send(self, message: Message) -> None:
        """Pass the answer on."""
        if message["type"] == "http.response.start":
            self.status, self.begun = message["status"], True
            if self.tool_call is not None and self.tool_call.hands_out:
                self._there = not await Request({"type": "http"}, self.receive).is_disconnected()
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.taken = self._there

"""`tocsin mcp`: the tools over stdio, and the bus over HTTP.

A coding agent starts this as a process of its own and speaks MCP with it over stdin and stdout. Every call asks the hub
anew, with the token as it is then: a hub that was restarted and a token that was rotated are both found again by
themselves. The bridge itself knows when an answer has left, so it confirms by explicit receipts: a call confirms what
had left before it came.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import JSONRPCError, JSONRPCResponse

from tocsin.cli.remote import EXPLICIT, Remote, Unreachable, Unusable, agent_token
from tocsin.cli.remote import Refused as HttpRefused
from tocsin.core.errors import Problem
from tocsin.gateways.http.app import OPERATIONS
from tocsin.gateways.mcp.refusals import refused
from tocsin.gateways.mcp.server import build_server
from tocsin.gateways.mcp.tool_call import NOTHING_WAITS, Carrying, Mail, Refused, carrying_of, levelled
from tocsin.hub.config import load_config
from tocsin.hub.logs import log_to_stderr
from tocsin.wire.problems import ProblemDocument
from tocsin.wire.traces import trace_in

__all__ = ["Bridge", "serve_stdio"]

_TABLE = {operation.name: operation for operation in OPERATIONS}
_NO_TOKEN = "no token: `tocsin mcp` needs TOCSIN_TOKEN, TOCSIN_TOKEN_FILE, --token-file or --as"  # noqa: S105
#: Receipts in one request.
_RECEIPTS_MAX = 100
_log = logging.getLogger("tocsin.mcp")


class Bridge:
    """What the calls of one coding agent share."""

    def __init__(self, remote: Callable[[], Remote | None], carrying: Carrying) -> None:
        #: Makes the way to the hub anew; nothing where there is no token.
        self._remote = remote
        self.carrying = carrying
        #: Signal ids whose answer has left and that no call has confirmed yet.
        self.left: list[str] = []
        #: What the hub handed out in an answer that did not leave: it goes with the next.
        self.kept: list[dict[str, Any]] = []
        #: The agent and its type, once known.
        self.known: tuple[str, str] | None = None
        self._under_way: dict[Any, RemoteToolCall] = {}

    def visit_of(self, context: ServerRequestContext[Any, Any]) -> "RemoteToolCall":
        """Take a call in."""
        if context.method == "notifications/cancelled":
            self._end((context.params or {}).get("requestId"), taken=False)
        tool_call = RemoteToolCall(self, trace_in(context.meta or {}))
        if context.method == "tools/call":
            tool_call.confirms, self.left = self.left, []
            self._under_way[context.request_id] = tool_call
        return tool_call

    def answered(self, message: Any) -> None:
        """Note that an answer has left."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._end(message.id, taken=isinstance(message, JSONRPCResponse))

    def _end(self, request_id: Any, *, taken: bool) -> None:
        tool_call = self._under_way.pop(request_id, None)
        if tool_call is not None:
            tool_call.end(taken=taken)

    async def call(
        self,
        method: str,
        path: tuple[str, ...],
        body: Any,
        query: dict[str, Any],
        *,
        signed: bool = False,
        trace: dict[str, str] | None = None,
    ) -> Any:
        """Make one request; a refusal is raised."""
        try:
            remote = self._remote()
            if remote is None:
                raise refused(Problem("E_AUTH_001", _NO_TOKEN, expected="a token of this project"))
            answer = await asyncio.to_thread(remote.call, method, path, body, query, signed=signed, headers=trace)
            return levelled(answer, self.carrying.depth_max)
        except Unreachable as error:
            self.known = None
            detail = f"{error}. Start one with `tocsin serve`, or say where it is with TOCSIN_URL"
            raise refused(Problem("E_ROUTING_003", detail, retryable=True)) from None
        except Unusable as error:
            raise refused(Problem("E_AUTH_001", str(error), expected="a token of this project")) from None
        except HttpRefused as error:
            self.known = None
            raise Refused(_document(error)) from None
        except RecursionError:
            raise refused(Problem("E_PROTOCOL_002", "it is nested too deeply to be sent or shown")) from None


class RemoteToolCall:
    """One call of a coding agent."""

    def __init__(self, bridge: Bridge, trace: dict[str, str]) -> None:
        self.carrying = bridge.carrying
        self._bridge = bridge
        self._trace = trace
        #: What had left when this call came.
        self.confirms: list[str] = []
        self._handed: list[dict[str, Any]] = []
        self._ended: bool | None = None

    async def ask(
        self, operation: str, path: dict[str, str] | None = None, query: dict[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Do one operation of the HTTP table, and return its answer as it goes over the wire; a refusal is raised."""
        await self._confirm()
        row = _TABLE[operation]
        parts = tuple((path or {}).get(part[1:-1], part) for part in row.path.strip("/").split("/"))
        if operation == "register":
            self._bridge.known = None
        content = {} if body is None and row.method != "GET" else body
        return await self._bridge.call(row.method, parts, content, query or {}, signed=row.envelope, trace=self._trace)

    async def me(self) -> tuple[str, str]:
        """Return the agent and its type; `AdHoc` before it is registered."""
        if self._bridge.known is None:
            me = await self.ask("me")
            if me["registered"] is None:
                return me["agent"], "AdHoc"
            self._bridge.known = (me["agent"], me["registered"]["type"])
        return self._bridge.known

    async def fetch(self, limit: int, at_least: str, bytes_max: int | None) -> Mail:
        """Hand out what waits, most urgent first."""
        asking = self._drain({"limit": limit, "at_least": at_least, "bytes_max": bytes_max})
        return await asyncio.shield(asyncio.ensure_future(asking))

    async def urgent(self) -> Mail:
        """Hand out what an answer carries of the urgent; nothing for one who is not registered."""
        try:
            return await self.fetch(self.carrying.urgent_max, "Blocking", self.carrying.urgent_bytes_max)
        except Refused as error:
            if error.document.code == "E_AUTH_007":
                return Mail([], NOTHING_WAITS)
            raise

    def end(self, *, taken: bool) -> None:
        """Note that the answer has left, or that it never will: then what it was to carry goes with the next."""
        self._ended = taken
        handed, self._handed = self._handed, []
        if taken:
            self._bridge.left += [delivery["signal_id"] for delivery in handed]
        else:
            self._bridge.kept += handed

    async def _drain(self, body: dict[str, Any]) -> Mail:
        kept, self._bridge.kept = self._bridge.kept, []
        try:
            answer = await self.ask("drain", body=body)
        except BaseException:
            self._bridge.kept += kept
            raise
        deliveries = kept + answer["deliveries"]
        self._handed += deliveries
        if self._ended is not None:
            self.end(taken=False)
        return Mail([delivery["envelope"] for delivery in deliveries], answer["waiting"])

    async def _confirm(self) -> None:
        """Confirm what had left; what does not get through is tried again with the next call."""
        confirms, self.confirms = self.confirms, []
        for start in range(0, len(confirms), _RECEIPTS_MAX):
            ids = confirms[start : start + _RECEIPTS_MAX]
            try:
                await self._bridge.call("POST", ("v1", "inbox", "receipts"), {"message_ids": ids}, {})
            except Refused as error:
                _log.info("receipts did not get through: %s", error)
                self._bridge.left += ids


def _document(error: HttpRefused) -> ProblemDocument:
    try:
        return msgspec.convert(error.problem, ProblemDocument)
    except msgspec.ValidationError:
        text = str(error)[:200]
        return ProblemDocument("about:blank", "No hub", error.status, text, "not_a_hub", "E_HUB_001", retryable=False)


class _Watched:
    """The stream of what goes out, of which somebody wants to know what has left."""

    def __init__(self, stream: Any, sent: Callable[[Any], None]) -> None:
        self._stream = stream
        self._sent = sent

    async def send(self, item: Any) -> None:
        await self._stream.send(item)
        self._sent(item.message)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def close(self) -> None:
        self._stream.close()

    async def __aenter__(self) -> "_Watched":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def serve_stdio(url: str, data: Path, agent: str | None, token_file: Path | None, log_level: str) -> None:
    """Speak MCP over stdin and stdout until stdin ends; nothing else is written to stdout."""
    log_to_stderr(log_level)

    def remote() -> Remote | None:
        token = agent_token(data, agent, token_file)
        if token is None and agent is None:
            return None
        return Remote(url, token, agent=agent or "", headers=EXPLICIT)

    if remote() is None:
        _log.warning(_NO_TOKEN)
    Thread(target=_look_for_hub, args=(url,), daemon=True).start()
    _run(Bridge(remote, carrying_of(load_config(data / "server.yaml"))))


def _look_for_hub(url: str) -> None:
    try:
        Remote(url, None).get("health")
    except (Unreachable, HttpRefused) as error:
        _log.warning("%s. The tools will say so until one does: start it with `tocsin serve`", error)


def _run(bridge: Bridge) -> None:
    server = build_server(bridge.visit_of)._lowlevel_server

    async def run() -> None:
        async with stdio_server() as (incoming, outgoing):
            watched: Any = _Watched(outgoing, bridge.answered)
            await server.run(incoming, watched, server.create_initialization_options())

    anyio.run(run)

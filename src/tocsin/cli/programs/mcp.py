"""`tocsin mcp`: the tools over stdio, and the bus over HTTP.

A coding agent starts this as a process and speaks MCP with it over stdin and stdout (`stdio`); tool calls become
requests to the hub (`bridge`). What the tools need is imported in a thread after the handshake was answered.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from tocsin.cli.hooks.firings import noted_server
from tocsin.cli.identity import Identity, identify
from tocsin.cli.programs.stdio import Request, StdioServer
from tocsin.cli.remote import NO_AGENT_TOKEN, Refused, Remote, Unreachable
from tocsin.gateways.mcp.protocol import METHOD_NOT_FOUND, MethodError
from tocsin.hub.observability.logs import log_to_stderr

if TYPE_CHECKING:
    from tocsin.cli.programs.bridge import Bridge
    from tocsin.cli.programs.channel import Channel
    from tocsin.client.connection.transport import Transport
    from tocsin.gateways.mcp.methods import Method, Toolsets

__all__ = ["serve_stdio"]

_CHANNEL_CAPABILITIES: dict[str, Any] = {"claude/channel": {}, "claude/channel/permission": {}}
_PERMISSION_REQUEST = "notifications/claude/channel/permission_request"
_SHARED = "each message reaches only one of them; give each its own agent, with TOCSIN_TOKEN_FILE"
_log = logging.getLogger("tocsin.mcp")


class _Place(NamedTuple):
    """The hub, and the agent in whose name it is called."""

    url: str
    identity: Identity

    def remote(self, trace: dict[str, str]) -> Remote | None:
        """Return a client of the hub; null without a token or a name."""
        identity = self.identity
        if not identity.is_known:
            return None
        name = identity.agent or ""
        return Remote(self.url, identity.token(), agent=name, headers=trace, no_token=identity.missing())


class _Tools(NamedTuple):
    """What answers requests after the handshake."""

    methods: "dict[str, Method]"
    bridge: "Bridge"
    #: Toolsets by role.
    toolsets: "Toolsets"

    @classmethod
    def load(cls, place: _Place, asked: str) -> "_Tools":
        """Import the tools and read the configuration."""
        from tocsin.cli.programs.bridge import Bridge
        from tocsin.gateways.mcp.methods import METHODS
        from tocsin.gateways.mcp.tool_call import limits_of
        from tocsin.gateways.mcp.toolsets import parse_toolsets
        from tocsin.hub.config import load_config

        config = load_config(place.identity.data / "server.yaml")
        return cls(METHODS, Bridge(place.remote, limits_of(config), parse_toolsets(asked)), config.mcp_toolsets)


class _Service:
    """Serves one coding agent."""

    def __init__(self, place: _Place, toolsets: str, *, channel: bool) -> None:
        #: Modern versions have no notifications that nobody asked for, so a channel needs the handshake.
        self.modern = not channel
        self.experimental: dict[str, Any] = _CHANNEL_CAPABILITIES if channel else {}
        self._place, self._asked = place, toolsets
        self._server = StdioServer(self)
        self._loading: asyncio.Future[_Tools] | None = None
        self._tools: _Tools | None = None
        self._channel: asyncio.Future[Channel] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until standard input ends."""
        try:
            await self._server.run()
        finally:
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ready(self) -> _Tools:
        """Return the tools, which are loaded once."""
        if self._loading is None:
            self._loading = asyncio.ensure_future(asyncio.to_thread(_Tools.load, self._place, self._asked))
            Thread(target=_look_for_hub, args=(self._place.url,), daemon=True).start()
        self._tools = await asyncio.shield(self._loading)
        return self._tools

    async def serve(self, request: Request) -> Coroutine[Any, Any, dict[str, Any]]:
        """Begin the tool call of a request, and return what answers it."""
        tools = await self._ready()
        method = tools.methods.get(request.method)
        if method is None:
            raise MethodError(METHOD_NOT_FOUND, "Method not found", request.method)
        tool_call = tools.bridge.begin(request.method, request.key, request.params.get("_meta"))
        return method(tool_call, tools.toolsets, request.params)

    def cancelled(self, request: str) -> None:
        """Tell the bridge."""
        if self._tools is not None:
            self._tools.bridge.cancelled(request)

    def answered(self, request: str, *, received: bool) -> None:
        """Tell the bridge."""
        if self._tools is not None:
            self._tools.bridge.answered(request, received=received)

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Open the channel when the client is ready for notifications, and relay its permission prompts."""
        if not self.experimental:
            return
        if method == "notifications/initialized" and self._channel is None:
            self._channel = asyncio.get_running_loop().create_future()
            self._start(self._announce(self._channel))
        elif method == _PERMISSION_REQUEST and self._channel is not None:
            self._start(self._ask_permission(self._channel, params))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce(self, opened: "asyncio.Future[Channel]") -> None:
        """Run the channel."""
        bridge = (await self._ready()).bridge
        from tocsin.cli.programs.channel import Channel
        from tocsin.client.config import client_config
        from tocsin.client.connection.endpoint import transport_to

        place = self._place

        def transport() -> "Transport":
            token = place.identity.token()
            name = None if token is not None else place.identity.agent
            return transport_to(place.url, token, name, None, client_config())

        async def notify(method: str, params: dict[str, Any]) -> None:
            self._server.notify(method, params)

        async def perform(operation: str, arguments: dict[str, Any]) -> Any:
            return await bridge.perform(operation, arguments, None, {})

        channel = Channel(transport, client_config(), perform, notify)
        opened.set_result(channel)
        await channel.run()

    async def _ask_permission(self, opened: "asyncio.Future[Channel]", params: Mapping[str, Any]) -> None:
        """Relay a permission prompt; unlike other parameters of MCP its are in snake case."""
        request, *shown = (
            str(params.get(name, "")) for name in ("request_id", "tool_name", "description", "input_preview")
        )
        channel = await asyncio.shield(opened)
        await channel.ask_permission(request, *shown)


def serve_stdio(
    url: str,
    data: Path,
    agent: str | None,
    token_file: Path | None,
    log_level: str,
    toolsets: str = "",
    *,
    channel: bool = False,
) -> None:
    """Serve MCP over stdin and stdout until stdin ends; nothing else is written to stdout."""
    log_to_stderr(log_level)
    identity = identify(data, agent, token_file)
    place = _Place(url, identity)
    if toolsets:
        _Tools.load(place, toolsets)  # An unknown one is refused at once.
    with noted_server(identity) as others:
        _log_identity(identity, others)
        asyncio.run(_serve(place, toolsets, channel=channel))


def _log_identity(identity: Identity, others: list[int]) -> None:
    """Log what is wrong with an identity, and which other processes have the same."""
    if missing := identity.missing() if identity.is_known else NO_AGENT_TOKEN:
        _log.warning(missing)
    if identity.instead_of is not None:
        _log.warning("runs as %s (%s), not as %s", identity.agent, identity.source, identity.instead_of)
    if others:
        named = ", ".join(map(str, others))
        _log.warning("%s is served by another `tocsin mcp` too (process %s): %s", identity.key(), named, _SHARED)


async def _serve(place: _Place, toolsets: str, *, channel: bool) -> None:
    await _Service(place, toolsets, channel=channel).run()


def _look_for_hub(url: str) -> None:
    try:
        Remote(url, None).get("health")
    except (Unreachable, Refused) as error:
        _log.warning("%s. The tools report this until one does: start it with `tocsin serve`", error)

"""The gateway of all WebSockets of a hub: admission, connection limits and regular checks.

A periodic sweep checks every open socket: clients that are silent, clients that do not read, tokens that are no longer
valid, sessions that have ended. When the hub shuts down, every socket is closed with a goodbye.
"""

import asyncio
import logging
from collections import Counter
from importlib.metadata import version

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from tocsin.core.errors import TocsinError, refusal
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.identity import identify
from tocsin.gateways.problems import problem_response
from tocsin.gateways.websocket import asyncapi
from tocsin.gateways.websocket.connection import GOING_AWAY, Connection
from tocsin.gateways.websocket.counters import SocketMetrics
from tocsin.gateways.websocket.fair_queue import FairQueue
from tocsin.gateways.websocket.frames import take_over
from tocsin.gateways.websocket.notices import ChannelNotices
from tocsin.gateways.websocket.priority_scan import PriorityScan
from tocsin.gateways.websocket.sessions import Sessions
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.service import Hub
from tocsin.wire.socket import SUBPROTOCOL

__all__ = ["ENDPOINTS", "PATH", "SocketGateway"]

PATH = "/v1/socket"
#: Its HTTP endpoints.
ENDPOINTS = (
    Endpoint(
        http="GET /asyncapi.json",
        name="describe_socket",
        summary="Describe the WebSocket protocol as AsyncAPI 3.",
        tag="hub",
        answers={200: ("application/json",)},
    ),
)
_log = logging.getLogger("tocsin.websocket")
#: Sockets checked per iteration of the event loop.
_SLICE = 500


class SocketGateway:
    """All WebSockets of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._config = hub.config.socket
        self._sessions = Sessions(hub.host, self._config.resume_grace_s)
        self._connections: set[Connection] = set()
        self._by_agent: Counter[str] = Counter()
        self._sweeper: asyncio.Task[None] | None = None
        self._metrics = SocketMetrics(hub.metrics)
        self._fair_queue = FairQueue(self._config.turn_operations_max)
        self._priority_scan = PriorityScan(lambda: hub.host.exchange.state.policy)
        self._notices = ChannelNotices(hub.host)
        hub.host.follow(self._notices.follow)
        hub.metrics.socket_connections.set_function(lambda: len(self._connections))
        hub.metrics.socket_bytes_queued.set_function(lambda: sum(one.outbox.queued_bytes for one in self._connections))
        if hub.keeps_sessions and self._sessions.adopt():
            self._start_sweeping()

    def routes(self) -> list[BaseRoute]:
        """Return the routes to mount beside the HTTP gateway."""
        return [
            WebSocketRoute(PATH, self._serve, name="socket"),
            Route("/asyncapi.json", self._describe, methods=["GET"], name="asyncapi"),
        ]

    async def _describe(self, request: Request) -> Response:
        try:
            identify(self._hub, request)
        except TocsinError as error:
            return problem_response(error.problem)
        return Response(_DOCUMENT, media_type="application/json")

    async def _serve(self, socket: WebSocket) -> None:
        try:
            grant = self._admit(socket)
        except TocsinError as error:
            self._metrics.count_problem(error.code)
            await socket.send_denial_response(problem_response(error.problem))
            return
        self._by_agent[grant.agent] += 1
        connection = Connection(
            self._hub, self._sessions, self._metrics, self._fair_queue, self._priority_scan, self._notices, grant
        )
        connection.forwarded = "tocsin-forwarded" in socket.headers
        self._connections.add(connection)
        self._start_sweeping()
        try:
            await socket.accept(SUBPROTOCOL)
            config = self._config
            await connection.run(take_over(socket, connection, config.frame_bytes_max, config.close_timeout_s))
        finally:
            self._connections.discard(connection)
            self._by_agent[grant.agent] -= 1
            if not self._by_agent[grant.agent]:
                del self._by_agent[grant.agent]

    def _admit(self, socket: WebSocket) -> Grant:
        """Return the grant of the caller, or refuse the handshake."""
        grant = identify(self._hub, socket)
        self._hub.must_be_open()
        if SUBPROTOCOL not in socket.scope["subprotocols"]:
            raise refusal(
                "E_PROTOCOL_001",
                "the handshake does not offer the subprotocol of this endpoint",
                expected=f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
            )
        config = self._config
        if self._by_agent[grant.agent] >= config.connections_per_agent_max:
            detail = f"{grant.agent} has {config.connections_per_agent_max} sockets open, the maximum"
            raise refusal("E_ADMISSION_008", detail, retry_after_s=1.0)
        if len(self._connections) >= config.connections_max:
            raise refusal(
                "E_ADMISSION_008", f"the hub has {config.connections_max} sockets open, the maximum", retry_after_s=1.0
            )
        return grant

    def _start_sweeping(self) -> None:
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep_regularly())

    async def _sweep_regularly(self) -> None:
        """Check all sockets at intervals until the hub shuts down; then close them."""
        while not self._hub.closing.is_set():
            try:
                async with asyncio.timeout(self._config.sweep_interval_s):
                    await self._hub.closing.wait()
            except TimeoutError:
                try:
                    await self._sweep()
                except Exception:
                    # The next sweep must run even if this one failed.
                    _log.exception("a sweep of the sockets failed")
        for connection in list(self._connections):
            moves_to = self._hub.moves_to
            reason = "the hub is shutting down" if moves_to is None else "another hub serves the project"
            connection.end(GOING_AWAY, reason, resume=True, address=None if connection.forwarded else moves_to or None)

    async def _sweep(self) -> None:
        for index, connection in enumerate(list(self._connections), 1):
            try:
                self._check(connection)
            except Exception:
                _log.exception("checking a socket failed")
                connection.abort("the hub failed")
            if not index % _SLICE:
                await asyncio.sleep(0)
        self._sessions.sweep()

    def _check(self, connection: Connection) -> None:
        config, now = self._config, asyncio.get_running_loop().time()
        blocked_since = connection.outbox.blocked_since
        if blocked_since is not None and now - blocked_since > config.slow_reader_timeout_s:
            connection.abort("the client read too slowly")
        elif connection.ending or not connection.check_token():
            return
        elif connection.session is None:
            if now - connection.opened_at > config.hello_timeout_s:
                connection.end(4408, f"no hello within {config.hello_timeout_s:g} s", resume=False)
        elif self._sessions.find(connection.session) is None:
            connection.release("the session has ended: it has lapsed, or its agent was retired")
        elif now - connection.active_at > config.silence_max_s:
            connection.end(4408, f"no frame for {config.silence_max_s:g} s", resume=True)
        else:
            connection.send_heartbeat(config.heartbeat_s / 2)
            connection.check_alive(now, config.ping_interval_s, config.ping_timeout_s)


_DOCUMENT = msgspec.json.encode(asyncapi.document(version("tocsin")))

"""The hub's HTTP server: listening, serving, and stopping in order.

On a signal it sets `Hub.closing`, so that open connections can be closed with a reason, accepts no new connections,
finishes the requests under way within `shutdown_timeout_s`, drops connections that do not read their answers, commits
everything and closes the project.
"""

import asyncio
import contextlib
import errno
import itertools
import logging
import math
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp

from tocsin.gateways.http.listening import Listening, begin
from tocsin.gateways.http.transport import http_protocol
from tocsin.gateways.websocket.transport import socket_protocol
from tocsin.hub.config import ServerConfig

__all__ = [
    "CannotListen",
    "PortTaken",
    "QuietServer",
    "Served",
    "allow_connections",
    "listen",
    "serve",
    "server_settings",
]

_log = logging.getLogger("tocsin.hub")
#: Open files that a hub needs in addition to its connections: databases, segments, logs.
_OWN_FILES = 128
#: Interval at which a server that stops looks whether everything has ended, seconds.
_LOOK_S = 0.005


class PortTaken(Exception):
    """Another process listens on the port."""


class CannotListen(Exception):
    """The address does not exist here, or this user may not listen on the port."""


def listen(address: str, port: int) -> socket.socket:
    """Listen on a port, or raise `PortTaken` or `CannotListen`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        where = f"cannot listen on {address} port {port}"
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"{where}: {error.strerror}") from None
        raise CannotListen(f"{where}: {_why_not(error)}") from None
    return listener


def _why_not(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"this machine has no such address ({error.strerror}); choose another with --address"
    if isinstance(error, PermissionError):
        return f"not permitted ({error.strerror}); ports below 1024 are often reserved, choose another with --port"
    return error.strerror or str(error)


def allow_connections(wanted: int) -> int:
    """Raise the limit of open files to what a hub may need; return the limit that is in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    return max(soft, most)


class QuietServer(uvicorn.Server):
    """A uvicorn server that installs no signal handlers, has no lifespan, and ends without a pause.

    uvicorn notices at its next tick, after up to 100 ms, that it is to end, and then sleeps for 100 ms once or more.
    Its sockets accept connections by `listening`, which says what happens when open files run out.
    """

    def __init__(self, config: uvicorn.Config, tick_s: float = 0.1) -> None:
        """Every tenth tick makes the Date header anew."""
        super().__init__(config)
        self._tick_s = tick_s
        self._told = asyncio.Event()
        self._beginning: set[asyncio.Task[None]] = set()
        #: The sockets that accept connections.
        self.listening: list[Listening] = []

    def stop(self) -> None:
        """Accept no more connections, and end when those that are open have ended."""
        self.should_exit = True
        self._told.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept the connections of some sockets."""
        self.listening = [Listening(one, self._begin) for one in sockets or ()]
        self.started = True

    def protocol(self) -> asyncio.Protocol:
        """Make the protocol of a connection."""
        config = self.config
        if not config.loaded:
            config.load()
        make: Any = config.http_protocol_class
        made: asyncio.Protocol = make(config=config, server_state=self.server_state, app_state={})
        return made

    def _begin(self, connection: socket.socket) -> None:
        beginning = asyncio.get_running_loop().create_task(begin(connection, self.protocol))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    async def main_loop(self) -> None:
        """Tick until told to stop."""
        ticks = itertools.count()
        while not await self.on_tick(next(ticks)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._tick_s):
                    await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, and wait for connections and requests until the time for that is used up."""
        for end in (*self.listening, *(sockets or ())):
            end.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        state = self.server_state
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while (state.connections or state.tasks) and not self.force_exit:
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            _log.error("requests cancelled: they did not end in time", extra={"fields": {"number": len(state.tasks)}})
            for task in state.tasks:
                task.cancel("the hub is stopping")


def server_settings(app: ASGIApp, config: ServerConfig) -> uvicorn.Config:
    """Return uvicorn's settings for an application, with the hub's limits."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        http=http_protocol(config),
        ws=socket_protocol(config.socket.close_timeout_s),
        ws_max_size=config.socket.frame_bytes_max,
        ws_ping_interval=config.socket.ping_interval_s,
        ws_ping_timeout=config.socket.ping_timeout_s,
        ws_per_message_deflate=False,
        timeout_keep_alive=int(config.keep_alive_s) or 1,
        # Stalled connections are dropped before; this ends handlers that do not end by themselves.
        timeout_graceful_shutdown=math.ceil(config.shutdown_timeout_s) + 1,
    )


def _drop_stalled(server: uvicorn.Server) -> None:
    """Drop the connections that are still open after the shutdown timeout: their callers read nothing."""
    stalled = list(server.server_state.connections)
    if stalled:
        _log.warning("connections dropped: they were not read in time", extra={"fields": {"number": len(stalled)}})
    for connection in stalled:
        connection.transport.abort()


class Served(Protocol):
    """A hub, or a process of one that serves other projects than the home project."""

    config: ServerConfig
    #: Set when it starts to shut down.
    closing: asyncio.Event

    async def stopped(self) -> str:
        """Wait until it cannot serve any more, and return the reason."""

    async def drain(self) -> None:
        """Hand over what others can serve, while callers are still answered."""

    async def close(self) -> None:
        """Close it."""


Accepting = Callable[[Callable[[], asyncio.Protocol]], Awaitable[Callable[[], None]]]


async def serve(
    hub: Served, app: ASGIApp, listener: socket.socket, started: Callable[[], None], accepting: Accepting | None = None
) -> str:
    """Serve until a signal or until the hub stops; return the reason if it stopped by itself.

    `accepting` accepts connections in place of the server: it is called with the maker of their protocols, and returns
    how to stop.
    """
    config = hub.config
    wanted = config.socket.connections_max + config.connections_max + _OWN_FILES
    if (allowed := allow_connections(wanted)) < wanted:
        _log.warning(
            "the limit of open files is lower than the configured connections need",
            extra={"fields": {"wanted": wanted, "allowed": allowed}},
        )
    server = QuietServer(server_settings(app, config))

    loop = asyncio.get_running_loop()

    async def drain() -> None:
        try:
            async with asyncio.timeout(config.shutdown_timeout_s):
                await hub.drain()
        except Exception:
            _log.exception("not everything could be handed over")
        finally:
            server.stop()

    draining: list[asyncio.Task[None]] = []

    def stop() -> None:
        if not hub.closing.is_set():
            loop.call_later(config.shutdown_timeout_s, _drop_stalled, server)
            hub.closing.set()
            draining.append(loop.create_task(drain(), name="drain"))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    ended = asyncio.ensure_future(hub.stopped())
    ended.add_done_callback(lambda _: stop())
    _log.info("serving", extra={"fields": {"port": listener.getsockname()[1]}})
    end_accepting: Callable[[], None] | None = None
    try:
        if accepting is not None:
            end_accepting = await accepting(server.protocol)
        started()
        await server.serve(sockets=[listener] if accepting is None else [])
        _drop_stalled(server)
        reason = ended.result() if ended.done() and not ended.cancelled() else ""
    finally:
        if end_accepting is not None:
            end_accepting()
        ended.cancel()
        await hub.close()
    _log.info("stopped", extra={"fields": {"reason": reason}})
    return reason

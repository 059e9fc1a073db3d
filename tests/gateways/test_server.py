"""The HTTP server as it stops: it waits neither for a tick nor for a request that does not end."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.patience import PATIENCE_S
from tocsin.gateways.http.server import QuietServer, listen, server_settings
from tocsin.hub.config import load_config

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Holding:
    """An application that answers each request when it is let go."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()
        self.cancelled = False

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.asked.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def asked(
    app: ASGIApp, graceful_s: int | None = None, tick_s: float = 0.1
) -> AsyncIterator[tuple[QuietServer, asyncio.Task[None], asyncio.StreamReader]]:
    """Serve an application, and send it one request."""
    server = QuietServer(server_settings(app, load_config()), tick_s)
    if graceful_s is not None:
        server.config.timeout_graceful_shutdown = graceful_s
    listener = listen("127.0.0.1", 0)
    address = listener.getsockname()
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    reader, writer = await asyncio.open_connection(*address)
    writer.write(REQUEST)
    try:
        yield server, serving, reader
    finally:
        writer.close()
        server.stop()
        await serving


async def test_it_stops_between_two_ticks() -> None:
    app = Holding()
    app.let_go.set()
    async with asked(app, tick_s=3600) as (server, serving, reader), asyncio.timeout(PATIENCE_S):
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        server.stop()
        await serving
        assert await reader.read() == b""


async def test_it_answers_what_was_asked_before_it_stops() -> None:
    app = Holding()
    async with asked(app) as (server, serving, reader), asyncio.timeout(PATIENCE_S):
        await app.asked.wait()
        server.stop()
        while server.listening[0].listener.fileno() >= 0:
            await asyncio.sleep(0.001)
        assert not serving.done()
        app.let_go.set()
        await serving
        assert (await reader.read()).endswith(b"ok")


async def test_a_request_that_does_not_end_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    app = Holding()
    async with asked(app, graceful_s=0) as (server, serving, _), asyncio.timeout(PATIENCE_S):
        await app.asked.wait()
        server.stop()
        await serving
        while not app.cancelled:
            await asyncio.sleep(0.001)
    assert "requests cancelled: they did not end in time" in caplog.messages

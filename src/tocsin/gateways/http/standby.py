"""HTTP answers of a standby hub: its health, and the hub that serves the project at present.

It listens from the start on the port on which it will serve, so that a supervisor can check it.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from tocsin.core.errors import Problem
from tocsin.gateways.http.server import QuietServer, server_settings
from tocsin.gateways.problems import problem_response
from tocsin.hub.config import ServerConfig
from tocsin.hub.service import Hub

__all__ = ["stand_by"]

#: Returns the name and the address of the hub that serves the project.
FindOwner = Callable[[], tuple[str, str]]


async def stand_by(
    opening: Coroutine[Any, Any, Hub],
    listener: socket.socket,
    config: ServerConfig,
    find_owner: FindOwner,
    started: Callable[[], None],
) -> Hub | None:
    """Answer for a project that another hub serves until this one owns it; return null after a stop signal."""
    server = QuietServer(server_settings(_app(find_owner), config))
    waiting = asyncio.ensure_future(opening)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, waiting.cancel)
    # The server closes its socket; the one that serves the project later needs the port.
    answering = asyncio.ensure_future(server.serve(sockets=[listener.dup()]))
    started()
    try:
        return await waiting
    except asyncio.CancelledError:
        return None
    finally:
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await answering


def _app(find_owner: FindOwner) -> Starlette:
    async def health(request: Request) -> Response:
        return JSONResponse({"condition": "standing_by", "reason": ""})

    async def refusal() -> Response:
        owner, address = await asyncio.to_thread(find_owner)
        detail = "this hub is a standby" + (f": {owner} serves the project at {address}" if owner else "")
        facts = {"owner": owner, "address": address}
        return problem_response(Problem("E_HUB_002", detail, retryable=True, retry_after_s=1.0, facts=facts))

    async def elsewhere(request: Request) -> Response:
        return await refusal()

    async def socket_elsewhere(socket: WebSocket) -> None:
        await socket.send_denial_response(await refusal())

    methods = ["GET", "POST", "PUT", "DELETE", "PATCH"]
    return Starlette(
        routes=[
            Route("/health", health, methods=["GET"]),
            Route("/{path:path}", elsewhere, methods=methods),
            WebSocketRoute("/{path:path}", socket_elsewhere),
        ]
    )

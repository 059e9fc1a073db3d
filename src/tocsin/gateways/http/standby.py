"""HTTP answers of a standby hub: its health, and the hub that serves the project at present.

It listens from the start on the port on which it will serve, so that a supervisor can check it. It answers from what
the standby has seen itself: a caller costs neither a database connection nor a thread, and cannot delay a takeover.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from tocsin.core.errors import Problem
from tocsin.gateways.http.server import QuietServer, server_settings
from tocsin.gateways.problems import problem_response
from tocsin.hub.config import ServerConfig
from tocsin.hub.service import Hub

if TYPE_CHECKING:
    from tocsin.hub.ownership import Seen  # its driver is optional

__all__ = ["StandbyApp", "stand_by"]

#: Time for callers of a standby to read their answers when it takes over, seconds.
_CLOSE_S = 1


async def stand_by(
    opening: Coroutine[Any, Any, Hub],
    listener: socket.socket,
    config: ServerConfig,
    seen: "Callable[[], Seen]",
    started: Callable[[], None],
) -> Hub | None:
    """Answer for a project that another hub serves until this one owns it; return null after a stop signal."""
    server = QuietServer(server_settings(StandbyApp(seen), config))
    server.config.timeout_graceful_shutdown = _CLOSE_S
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
        # Every answer of a standby is made at once, so there is none to wait for.
        server.force_exit = True
        server.stop()
        with contextlib.suppress(asyncio.CancelledError):
            await answering


class StandbyApp:
    """The application of a standby: the same two answers to everything, made once for each look at the owner."""

    def __init__(self, seen: "Callable[[], Seen]") -> None:
        self._seen = seen
        self._answered: Seen | None = None
        self._health: Response
        self._refusal: Response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse a WebSocket."""
        seen = self._seen()
        if seen is not self._answered:
            self._answered = seen
            self._health = JSONResponse({"condition": "standing_by", "reason": seen.failure})
            self._refusal = problem_response(_problem(seen))
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(self._refusal)
        elif scope["path"] == "/health":
            await self._health(scope, receive, send)
        else:
            await self._refusal(scope, receive, send)


def _problem(seen: "Seen") -> Problem:
    """Say why this hub does not serve, and who does."""
    owner = seen.owner
    facts = {"owner": "" if owner is None else owner.hub, "address": "" if owner is None else owner.address}
    if seen.failure:
        detail = f"this hub is a standby, and cannot reach the database: {seen.failure}"
        return Problem("E_HUB_007", detail, retryable=True, retry_after_s=1.0, facts=facts)
    if seen.taking_over:
        detail = "this hub is taking over the project: try again in a moment"
    else:
        detail = "this hub is a standby" + (f": {owner.hub} serves the project at {owner.address}" if owner else "")
    return Problem("E_HUB_002", detail, retryable=True, retry_after_s=1.0, facts=facts)

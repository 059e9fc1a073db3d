"""Serving of send-only WebSockets, shared by the live feed and the dashboard.

The caller provides what is sent, and the form of the closing message.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from tocsin.core.errors import TocsinError
from tocsin.hub.service import Hub

__all__ = ["show"]

#: Closing codes: the browser session or token has ended; the hub shuts down.
_SIGNED_OUT, _GOING_AWAY = 4401, 1001


async def show(
    hub: Hub, socket: WebSocket, showing: Coroutine[Any, Any, None], goodbye: Callable[[str], Awaitable[None]]
) -> None:
    """Send until the watcher leaves, its token ends or the hub shuts down; in the last two cases send a goodbye."""
    tasks = {
        asyncio.create_task(_gone(socket)),
        asyncio.create_task(showing),
        asyncio.create_task(hub.closing.wait()),
    }
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, TocsinError):
            await _part(socket, _SIGNED_OUT, outcome.problem.detail, goodbye)
        elif isinstance(outcome, Exception) and not isinstance(outcome, WebSocketDisconnect | RuntimeError):
            raise outcome
    if hub.closing.is_set():
        await _part(socket, _GOING_AWAY, "the hub is shutting down", goodbye)


async def _gone(socket: WebSocket) -> None:
    """Wait until the watcher leaves; what it sends is ignored."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _part(socket: WebSocket, code: int, reason: str, goodbye: Callable[[str], Awaitable[None]]) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await goodbye(reason)
        await socket.close(code, reason[:100])

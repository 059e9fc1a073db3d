"""The outgoing queue of one socket: collects items and writes them as frames.

Items that are added during one iteration of the event loop leave together, in frames of limited size. A writer task
runs only while there is something to write, so an idle socket costs nothing. `blocked_since` shows since when the
client has not read a frame; the owner decides what to do about it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from prometheus_client import Counter
from starlette.websockets import WebSocket, WebSocketDisconnect

from tocsin.wire.socket import Goodbye, Item, encode_frame

__all__ = ["Outbox"]

_log = logging.getLogger("tocsin.websocket")


class Outbox:
    """The writing half of one socket."""

    __slots__ = (
        "_batch_max",
        "_bytes_max",
        "_failed",
        "_farewell",
        "_items",
        "_loop",
        "_progressed",
        "_socket",
        "_writer",
        "_written",
        "blocked_since",
        "closed",
        "frames",
        "queued_bytes",
    )

    def __init__(
        self,
        socket: WebSocket,
        batch_max: int,
        bytes_max: int,
        written: Counter,
        progressed: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._socket = socket
        self._batch_max = batch_max
        self._bytes_max = bytes_max
        self._written = written
        self._progressed = progressed
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._items: deque[tuple[Item, int]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._farewell: tuple[Goodbye | None, int, str] | None = None
        #: Approximate size of the waiting items.
        self.queued_bytes = 0
        #: Frames written.
        self.frames = 0
        #: When the frame that is being written was started, in the loop's time; None while nothing is written.
        self.blocked_since: float | None = None
        #: Whether nothing more can be written.
        self.closed = False

    def put(self, item: Item, size: int) -> None:
        """Add an item to the next frame."""
        if not self.closed:
            self._items.append((item, size))
            self.queued_bytes += size
            if self._writer is None:
                self._writer = self._loop.create_task(self._write())

    def close(self, goodbye: Goodbye | None, code: int, reason: str) -> None:
        """Close the socket after the items that are waiting."""
        if not self.closed and self._farewell is None:
            self._farewell = (goodbye, code, reason)
            if self._writer is None:
                self._writer = self._loop.create_task(self._write())

    def abandon(self) -> None:
        """Discard all items and stop writing: the client is disconnected."""
        self._drop()
        if self._writer is not None:
            self._writer.cancel()

    def _drop(self) -> None:
        self.closed = True
        self._items.clear()
        self.queued_bytes = 0
        self._progressed()

    async def _write(self) -> None:
        try:
            while self._items:
                await self._send(self._next_frame())
                self._progressed()
            if self._farewell is not None:
                await self._close(*self._farewell)
        except (WebSocketDisconnect, RuntimeError):
            # The client is disconnected; the reader of the socket notices it too.
            self._drop()
        except Exception:
            _log.exception("writing to a socket failed")
            self._writer = None
            self._failed("the hub failed to write")
        finally:
            self._writer = None

    async def _close(self, goodbye: Goodbye | None, code: int, reason: str) -> None:
        self.closed = True
        if goodbye is not None:
            await self._send([goodbye])
        await self._socket.close(code, reason)

    async def _send(self, items: list[Item]) -> None:
        text = encode_frame(items)
        self.blocked_since = self._loop.time()
        await self._socket.send({"type": "websocket.send", "text": text})
        self.blocked_since = None
        self.frames += 1
        self._written.inc()

    def _next_frame(self) -> list[Item]:
        waiting, size = self._items, 0
        frame: list[Item] = []
        while waiting and len(frame) < self._batch_max:
            item, bytes_ = waiting[0]
            if frame and size + bytes_ > self._bytes_max:
                break
            waiting.popleft()
            frame.append(item)
            size += bytes_
        self.queued_bytes -= size
        return frame

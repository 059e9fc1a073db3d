"""The outgoing queue of one socket: collects items and writes them as frames.

Items that are added during one iteration of the event loop leave together, in frames of limited size. Urgent items are
written at once, before those that wait. While the client does not read, the items wait. `blocked_since` shows since
when it has not; the owner decides what to do about it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from tocsin.gateways.websocket.frames import Frames
from tocsin.hub.observability.counters import Count
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
        "_frames",
        "_items",
        "_loop",
        "_progressed",
        "_scheduled",
        "_urgent",
        "_written",
        "blocked_since",
        "closed",
        "frames",
        "queued_bytes",
    )

    def __init__(
        self,
        batch_max: int,
        bytes_max: int,
        written: Count,
        progressed: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._frames: Frames | None = None
        self._batch_max = batch_max
        self._bytes_max = bytes_max
        self._written = written
        self._progressed = progressed
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._items: deque[tuple[Item, int]] = deque()
        #: Items that leave before the others; they wait only while the client does not read.
        self._urgent: deque[tuple[Item, int]] = deque()
        self._scheduled = False
        self._farewell: tuple[Goodbye | None, int, str] | None = None
        #: Approximate size of the waiting items.
        self.queued_bytes = 0
        #: Frames written.
        self.frames = 0
        #: Since when the client has not read, in the loop's time; None while it reads.
        self.blocked_since: float | None = None
        #: Whether nothing more can be written.
        self.closed = False

    def open(self, frames: Frames) -> None:
        """Write to these frames."""
        self._frames = frames

    def put(self, item: Item, size: int) -> None:
        """Add an item to the next frame."""
        if not self.closed:
            self._items.append((item, size))
            self.queued_bytes += size
            if not self._scheduled:
                self._schedule()

    def put_urgent(self, item: Item, size: int) -> None:
        """Write an item now, or before all others once the client reads."""
        if not self.closed:
            self._urgent.append((item, size))
            self.queued_bytes += size
            if self.blocked_since is None and self._frames is not None:
                self._attempt(self._write_urgent, self._frames)

    def close(self, goodbye: Goodbye | None, code: int, reason: str) -> None:
        """Close the socket after the items that are waiting."""
        if not self.closed and self._farewell is None:
            self._farewell = (goodbye, code, reason)
            self._schedule()

    def abandon(self) -> None:
        """Discard all items and stop writing: the client is disconnected."""
        self.closed = True
        self._items.clear()
        self._urgent.clear()
        self.queued_bytes = 0
        self._progressed()

    def writable(self, *, now: bool) -> None:
        """Continue writing, or stop until the client has read what was written."""
        self.blocked_since = None if now else self._loop.time()
        if now and (self._items or self._urgent or self._farewell is not None):
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self.blocked_since is None:
            self._scheduled = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._scheduled = False
        if not self.closed and self._frames is not None:
            self._attempt(self._write_all, self._frames)

    def _attempt(self, write: Callable[[Frames], None], frames: Frames) -> None:
        try:
            write(frames)
        except Exception:
            _log.exception("writing to a socket failed")
            self._failed("the hub failed to write")

    def _write_urgent(self, frames: Frames) -> None:
        while self._urgent and self.blocked_since is None:
            self._send(frames, self._next_frame(self._urgent))

    def _write_all(self, frames: Frames) -> None:
        self._write_urgent(frames)
        while self._items and self.blocked_since is None:
            self._send(frames, self._next_frame(self._items))
        self._progressed()
        waits = self._items or self._urgent or self.blocked_since is not None
        if self._farewell is not None and not waits and not self.closed:
            self._close(frames, *self._farewell)

    def _close(self, frames: Frames, goodbye: Goodbye | None, code: int, reason: str) -> None:
        self.closed = True
        if goodbye is not None:
            self._send(frames, [goodbye])
        frames.close(code, reason)

    def _send(self, frames: Frames, items: list[Item]) -> None:
        frames.send(encode_frame(items))
        self.frames += 1
        self._written.value += 1

    def _next_frame(self, waiting: deque[tuple[Item, int]]) -> list[Item]:
        size = 0
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

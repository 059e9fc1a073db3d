"""uvicorn's HTTP protocol, with limits on callers of whom nothing is known yet, and an end to those who take nothing.

A connection waits for the hub while requests are unanswered, and else for its caller: for a head, for what is left of
a body that nobody wants any more, or for the next request. Each wait for the caller has its time. A head has its size,
whether it is complete or not. Connections have their number: one more takes the place of the one that has waited for
its caller longest, and is refused where none waits. A connection that has become a WebSocket is no longer one of them:
sockets have limits of their own.

What is wrong before there is a request is answered with a problem document, too, unless other answers are still due
on the connection: then these are given, and it is closed after the last of them. Whoever does not take what was written
in time is dropped, and whoever answers it learns that.
"""

import asyncio
import logging
from collections import deque
from enum import StrEnum
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tocsin.core.errors import Problem
from tocsin.gateways.problems import HEAD_TIMEOUT, problem_response, unhandled
from tocsin.hub.config import ServerConfig

__all__ = ["http_protocol"]

_log = logging.getLogger("tocsin.http")
#: What a header counts beside its characters, as in HTTP/2: a thousand empty ones are not for nothing.
_HEADER_BYTES = 32
#: Read at a time: so much of a head can be there without being counted yet.
_SLICE_BYTES = 16_384


class _Part(StrEnum):
    """Part of a request that comes next."""

    HEAD = "head"
    BODY = "body"
    NEXT = "next"


class _Refused(Exception):
    """Stops the parser; the refusal is kept."""


class _ReaderDropped(Exception):
    """Nobody takes the answer."""


def http_protocol(config: ServerConfig) -> type[HttpToolsProtocol]:
    """Return the protocol for the connections of one hub."""
    connections = _Connections(config.connections_max)
    patience = {_Part.HEAD: config.head_timeout_s, _Part.BODY: config.body_timeout_s, _Part.NEXT: config.keep_alive_s}

    class Limited(_HttpProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.limits = config
            self.patience = patience
            self.all = connections

    return Limited


class _Connections:
    """The HTTP connections of one hub."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: set[_HttpProtocol] = set()
        #: Those who wait for their caller, the longest first.
        self._waiting: dict[_HttpProtocol, None] = {}

    def admit(self, newcomer: "_HttpProtocol") -> bool:
        """Take a connection, in the place of another if need be."""
        if len(self._open) >= self.most:
            longest = next((one for one in self._waiting if not one.transport.get_write_buffer_size()), None)
            if longest is None:
                return False
            self.leave(longest)
            longest.transport.abort()
        self._open.add(newcomer)
        return True

    def waits(self, connection: "_HttpProtocol", *, waiting: bool) -> None:
        """Remember whether a connection waits for its caller."""
        self._waiting.pop(connection, None)
        if waiting and connection in self._open:
            self._waiting[connection] = None

    def leave(self, connection: "_HttpProtocol") -> None:
        """Forget a connection that ends or becomes a socket."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)


class _HttpProtocol(HttpToolsProtocol):
    """One connection."""

    limits: ServerConfig
    patience: dict[_Part, float]
    all: _Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hub_app, self.app = self.app, self._served
        self._reading = _Part.HEAD
        #: Whether anything of the head came.
        self._begun = False
        #: Size of the head so far, and what came since without completing any piece of a request.
        self._head_bytes = 0
        self._loose_bytes = 0
        self._unanswered: deque[RequestResponseCycle] = deque()
        #: What the caller has to do in time now; nothing while it waits itself.
        self._awaited: _Part | None = None
        self._patience_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._refusal: Response | None = None
        self._deaf = False
        self._dropped = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or say that there are too many."""
        super().connection_made(transport)
        if self.all.admit(self):
            self._watch()
        else:
            detail = f"the hub has its {self.all.most} connections open, and none is idle"
            _log.info("a connection too many")
            self._refuse(unhandled(503, detail, retry_after_s=1.0))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everyone who still answers."""
        self._leave()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Let it close, in time."""
        super().eof_received()
        self._see_out()

    def data_received(self, data: bytes) -> None:
        """Read on, as far as the limits allow."""
        for start in range(0, len(data), _SLICE_BYTES):
            if self._deaf or self.transport.is_closing() or self.transport.get_protocol() is not self:
                return
            piece = data[start : start + _SLICE_BYTES]
            self._loose_bytes += len(piece)
            super().data_received(piece)
            if self._head_bytes + self._loose_bytes > self.limits.head_bytes_max:
                self._refuse(self._head_too_large())
        if self.transport.get_protocol() is self:
            self._watch()

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._reading, self._begun = _Part.HEAD, True
        self._head_bytes = self._loose_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count it."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count it, also where it comes after a body."""
        self._count(len(name) + len(value) + _HEADER_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Take the request, unless too many are before it."""
        self._reading = _Part.BODY
        self._head_bytes = self._loose_bytes = 0
        if len(self._unanswered) >= self.limits.pipelined_max:
            raise _Refused
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._unanswered.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Pass it on."""
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next."""
        self._reading, self._loose_bytes = _Part.NEXT, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        self._unanswered.popleft()
        super().on_response_complete()
        if self.transport.is_closing():
            self._see_out()
        else:
            self._watch()

    def handle_websocket_upgrade(self) -> None:
        """Let the connection become a socket, unless answers are still due on it."""
        if self._unanswered:
            self._refuse(unhandled(400, "a socket is not opened behind other requests"))
            return
        self._leave()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP from the catalogue."""
        self._refuse(self._refusal or unhandled(400, "this cannot be read as a request of HTTP/1.1"))

    def pause_writing(self) -> None:
        """Give the reader its time."""
        super().pause_writing()
        self._see_out()

    def resume_writing(self) -> None:
        """See that it took something."""
        super().resume_writing()
        if self._reader_timer is not None and not self.transport.is_closing():
            self._reader_timer.cancel()
            self._reader_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close what was idle for too long, in time."""
        super().timeout_keep_alive_handler()
        self._see_out()

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; who answers a reader that was dropped is told, and it is no error of ours."""

        async def sent(message: Message) -> None:
            await send(message)
            if self._dropped:
                raise _ReaderDropped

        try:
            await self._hub_app(scope, receive, sent)
        except Exception:
            if not self._dropped:
                raise

    def _count(self, size: int) -> None:
        self._loose_bytes = 0
        self._head_bytes += size
        if self._head_bytes > self.limits.head_bytes_max:
            self._refusal = self._head_too_large()
            raise _Refused

    def _head_too_large(self) -> Response:
        return unhandled(431, f"the head of a request has at most {self.limits.head_bytes_max} bytes")

    def _watch(self) -> None:
        """See to it that the caller does in time what is awaited of it."""
        awaited = None if self._unanswered else self._reading
        if awaited is self._awaited:
            return
        self._awaited = awaited
        self.all.waits(self, waiting=awaited is not None)
        if self._patience_timer is not None:
            self._patience_timer.cancel()
            self._patience_timer = None
        if awaited is not None:
            self._patience_timer = self.loop.call_later(self.patience[awaited], self._give_up)

    def _give_up(self) -> None:
        self._patience_timer = None
        if self._awaited is _Part.HEAD and self._begun:
            detail = f"the head did not come within {self.limits.head_timeout_s:g} s"
            self._refuse(problem_response(Problem(HEAD_TIMEOUT.code, detail, retryable=True), HEAD_TIMEOUT))
        else:
            self.transport.close()
            self._see_out()

    def _refuse(self, response: Response) -> None:
        """Hear nothing more; answer with this if it is its turn, and close once all is answered."""
        self._deaf = True
        due = self._unanswered
        if len(due) > 1 or (due and (due[0].response_started or self._reading is not _Part.BODY)):
            due[-1].keep_alive = False
            return
        headers = [*self.server_state.default_headers, *response.raw_headers, (b"connection", b"close")]
        lines = [f"HTTP/1.1 {response.status_code} {HTTPStatus(response.status_code).phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()
        self._see_out()

    def _see_out(self) -> None:
        """Wait no longer for what was written to be taken than a reader may take."""
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(self.limits.write_timeout_s, self._drop)

    def _drop(self) -> None:
        _log.info("a reader was dropped", extra={"fields": {"bytes": self.transport.get_write_buffer_size()}})
        self._dropped = True
        self.transport.abort()

    def _leave(self) -> None:
        """Stop watching: the connection is gone, or is a socket now."""
        self.all.leave(self)
        for timer in (self._patience_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()

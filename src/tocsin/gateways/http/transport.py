"""uvicorn's HTTP protocol with limits on connections, request heads, waiting times and slow readers.

A connection with unanswered requests waits for the hub. Otherwise it waits for its caller: for a head, for the rest of
a body that is no longer read, or for the next request. Each wait for the caller has a timeout. The size of a head is
limited, complete or not. The number of connections is limited: a new one above the limit replaces the one that has
waited for its caller longest, and is refused if none waits. A connection that has become a WebSocket is not counted:
sockets have limits of their own.

Errors before there is a request are answered with a problem document. If other answers are still due on the connection,
those are given instead, and it is closed after the last of them. A caller that does not read its response in time is
dropped, and the handler that answers it gets an exception.

`docs/decisions/uvicorn-subclass.md` records why uvicorn is subclassed.
"""

import asyncio
import logging
from collections import deque
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tocsin.core.errors import Problem
from tocsin.gateways.json_answer import WRITE_JSON
from tocsin.gateways.limits import TAKE_BODY
from tocsin.gateways.problems import HEAD_TIMEOUT, problem_response, unhandled
from tocsin.hub.config import ServerConfig

__all__ = ["ResponseTransport", "http_protocol"]

_log = logging.getLogger("tocsin.http")
#: Bytes counted for a header in addition to its characters, as in HTTP/2, so that empty headers count too.
_HEADER_BYTES = 32
#: Bytes given to the parser at a time: a head may exceed its limit by this much before that is noticed.
_SLICE_BYTES = 16_384
#: Largest part of a body that is copied to be written with the head.
_JOINED_BYTES_MAX = 65_536


#: A whole answer: the server's headers, the size of the body, the body.
_JSON_ANSWER = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n%b"


class _Part(StrEnum):
    """Part of a request that comes next."""

    HEAD = "head"
    BODY = "body"
    NEXT = "next"


class _Refused(Exception):
    """Stops the parser; the answer is in `_refusal`."""


class _ReaderDropped(Exception):
    """The caller does not read the answer."""


def http_protocol(config: ServerConfig) -> type[HttpToolsProtocol]:
    """Return the protocol class for the connections of one hub."""
    connections = _Connections(config.connections_max)
    timeouts = {_Part.HEAD: config.head_timeout_s, _Part.BODY: config.body_timeout_s, _Part.NEXT: config.keep_alive_s}

    class Limited(_HttpProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.limits = config
            self.timeouts = timeouts
            self.all = connections

    return Limited


class _Connections:
    """The HTTP connections of one hub."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: set[_HttpProtocol] = set()
        #: Connections that wait for their caller, the longest wait first.
        self._waiting: dict[_HttpProtocol, None] = {}

    def admit(self, newcomer: "_HttpProtocol") -> bool:
        """Admit a connection, replacing a waiting one if the limit is reached."""
        if len(self._open) >= self.most:
            longest = next((one for one in self._waiting if not one.transport.get_write_buffer_size()), None)
            if longest is None:
                return False
            self.leave(longest)
            longest.transport.abort()
        self._open.add(newcomer)
        return True

    def waits(self, connection: "_HttpProtocol", *, waiting: bool) -> None:
        """Note whether a connection waits for its caller."""
        self._waiting.pop(connection, None)
        if waiting and connection in self._open:
            self._waiting[connection] = None

    def leave(self, connection: "_HttpProtocol") -> None:
        """Remove a connection that ends or becomes a WebSocket."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)


class ResponseTransport:
    """The transport of one response: what it writes first, its head, leaves with what follows at once.

    A body that follows later does not delay the head: that is written when the loop continues.
    """

    __slots__ = ("_begun", "_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._begun = False
        self._head = b""

    def write(self, data: bytes) -> None:
        """Write data, together with what was kept."""
        if not self._begun:
            self._begun, self._head = True, data
            self._loop.call_soon(self.flush)
            return
        if self._head and len(data) <= _JOINED_BYTES_MAX:
            self._head, data = b"", self._head + data
        self.flush()
        self._transport.write(data)

    def close(self) -> None:
        """Write what was kept, and close the connection."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Tell whether the connection is being closed."""
        return self._transport.is_closing()

    def flush(self) -> None:
        """Write what was kept."""
        if self._head:
            self._head, head = b"", self._head
            self._transport.write(head)


class _HttpProtocol(HttpToolsProtocol):
    """One connection."""

    limits: ServerConfig
    timeouts: dict[_Part, float]
    all: _Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hub_app, self.app = self.app, self._served
        self._reading = _Part.HEAD
        #: Whether a part of the head has arrived.
        self._begun = False
        #: Size of the head so far, and bytes since then that have not completed a piece of a request.
        self._head_bytes = 0
        self._loose_bytes = 0
        self._unanswered: deque[RequestResponseCycle] = deque()
        #: What the caller has to send in time; null while the connection waits for the hub.
        self._awaited: _Part | None = None
        self._caller_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._refusal: Response | None = None
        self._refusing = False
        self._dropped = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or refuse it if there are too many."""
        super().connection_made(transport)
        if self.all.admit(self):
            self._watch()
        else:
            detail = f"the hub has its limit of {self.all.most} connections, and none is idle: try again later"
            _log.info("connection refused: the limit is reached")
            self._refuse(unhandled(503, detail, retry_after_s=1.0))

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark every unanswered request as disconnected."""
        self._leave()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Close the connection, within the write timeout."""
        super().eof_received()
        self._limit_writing()

    def data_received(self, data: bytes) -> None:
        """Parse the data in slices, within the limits."""
        for start in range(0, len(data), _SLICE_BYTES):
            if self._refusing or self.transport.is_closing() or self.transport.get_protocol() is not self:
                return
            piece = data[start : start + _SLICE_BYTES]
            self._loose_bytes += len(piece)
            super().data_received(piece)
            if self._head_bytes + self._loose_bytes > self.limits.head_bytes_max:
                self._refuse(self._head_too_large())
        if self.transport.get_protocol() is self:
            self._watch()

    def on_message_begin(self) -> None:
        """Reset the size of the head."""
        self._reading, self._begun = _Part.HEAD, True
        self._head_bytes = self._loose_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the URL."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the header, also one that follows a body, and keep it."""
        # `_count` and uvicorn's method, except for `Expect`: three calls for each header of each request take long.
        self._loose_bytes = 0
        self._head_bytes = size = self._head_bytes + len(name) + len(value) + _HEADER_BYTES
        if size > self.limits.head_bytes_max:
            self._refuse_head()
        name = name.lower()
        if name == b"expect":
            super().on_header(name, value)
        else:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Start the request, unless too many are unanswered."""
        self._reading = _Part.BODY
        self._head_bytes = self._loose_bytes = 0
        if len(self._unanswered) >= self.limits.pipelined_max:
            raise _Refused
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self.cycle.transport = ResponseTransport(self.transport, self.loop)  # type: ignore[assignment]
            self.scope[TAKE_BODY] = partial(self._take_body, self.cycle)  # type: ignore[literal-required]
            self.scope[WRITE_JSON] = partial(self._write_json, self.cycle)  # type: ignore[literal-required]
            self._unanswered.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request."""
        self._reading, self._loose_bytes = _Part.NEXT, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request, or wait for one."""
        self._unanswered.popleft().transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()
        if self.transport.is_closing():
            self._limit_writing()
        else:
            self._watch()

    def handle_websocket_upgrade(self) -> None:
        """Turn the connection into a WebSocket, unless answers are still due on it."""
        if self._unanswered:
            self._refuse(
                unhandled(400, "a WebSocket cannot be opened while other requests on the connection are unanswered")
            )
            return
        self._leave()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer malformed input with a problem document."""
        self._refuse(self._refusal or unhandled(400, "this is not a valid HTTP/1.1 request"))

    def pause_writing(self) -> None:
        """Start the write timeout."""
        super().pause_writing()
        self._limit_writing()

    def resume_writing(self) -> None:
        """Stop the write timeout: the caller has read something."""
        super().resume_writing()
        if self._reader_timer is not None and not self.transport.is_closing():
            self._reader_timer.cancel()
            self._reader_timer = None

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, within the write timeout."""
        super().timeout_keep_alive_handler()
        self._limit_writing()

    def _take_body(self, cycle: RequestResponseCycle) -> bytes | None:
        """Return a body that has arrived completely, as uvicorn would; it needs no timeout."""
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        self.flow.resume_reading()
        return body

    def _write_json(self, cycle: RequestResponseCycle, body: bytes) -> bool:
        """Write a whole answer with status 200, as uvicorn would; False leaves an unusual one to uvicorn."""
        if (
            cycle.response_started
            or cycle.disconnected
            or not cycle.keep_alive
            or cycle.scope["method"] == "HEAD"
            or self.flow.write_paused
            or self.transport.is_closing()
            or len(body) > _JOINED_BYTES_MAX
        ):
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        headers = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        self.transport.write(_JSON_ANSWER % (headers, len(body), body))
        cycle.message_event.set()
        cycle.on_response()
        return True

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; sending to a dropped caller raises, and that is not logged as an error."""

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
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refusal = self._head_too_large()
        raise _Refused

    def _head_too_large(self) -> Response:
        return unhandled(431, f"the request head is larger than {self.limits.head_bytes_max} bytes")

    def _watch(self) -> None:
        """Start the timeout of what the caller has to send next."""
        awaited = None if self._unanswered else self._reading
        if awaited is self._awaited:
            return
        self._awaited = awaited
        self.all.waits(self, waiting=awaited is not None)
        if self._caller_timer is not None:
            self._caller_timer.cancel()
            self._caller_timer = None
        if awaited is not None:
            self._caller_timer = self.loop.call_later(self.timeouts[awaited], self._time_out)

    def _time_out(self) -> None:
        self._caller_timer = None
        if self._awaited is _Part.HEAD and self._begun:
            detail = f"the request head did not arrive within {self.limits.head_timeout_s:g} s"
            self._refuse(problem_response(Problem(HEAD_TIMEOUT.code, detail, retryable=True), HEAD_TIMEOUT))
        else:
            self.transport.close()
            self._limit_writing()

    def _refuse(self, response: Response) -> None:
        """Read nothing more; send this answer if no other is due, and close after the last answer."""
        self._refusing = True
        due = self._unanswered
        if len(due) > 1 or (due and (due[0].response_started or self._reading is not _Part.BODY)):
            due[-1].keep_alive = False
            return
        headers = [*self.server_state.default_headers, *response.raw_headers, (b"connection", b"close")]
        lines = [f"HTTP/1.1 {response.status_code} {HTTPStatus(response.status_code).phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()
        self._limit_writing()

    def _limit_writing(self) -> None:
        """Start the write timeout, unless it runs already."""
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(self.limits.write_timeout_s, self._drop)

    def _drop(self) -> None:
        _log.info(
            "connection dropped: the response was not read in time",
            extra={"fields": {"bytes": self.transport.get_write_buffer_size()}},
        )
        self._dropped = True
        self.transport.abort()

    def _leave(self) -> None:
        """Stop all timeouts: the connection is closed or has become a WebSocket."""
        self.all.leave(self)
        for timer in (self._caller_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()

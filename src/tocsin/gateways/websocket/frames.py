"""Frames of one socket: read and written by picows, on a connection that uvicorn has upgraded.

Theory of operation. uvicorn and Starlette serve the handshake, so routes, authentication and refusals are those of
every other endpoint. Once it is accepted, `take_over` replaces uvicorn's protocol on the connection. picows then parses
and writes the frames in C and calls `Receiver` without a task or a queue in between, which costs about a seventh of the
ASGI path per frame (`docs/decisions/websocket-library.md`). picows can only begin with a handshake of its own, so it is
given a constant one, and its answer is discarded.

Fragments are joined here, up to the size limit of a frame. The owner decides when reading pauses, sends pings and drops
a client that does not answer them.
"""

import asyncio
import logging
from typing import Any, Protocol

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport
from starlette.websockets import WebSocket

from tocsin.framing import server_protocol

__all__ = ["EXTENSION", "Frames", "Receiver", "take_over"]

#: Name of the ASGI extension that gives access to the connection.
EXTENSION = "tocsin.connection"

_log = logging.getLogger("tocsin.websocket")
_HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_PROTOCOL_ERROR, _TOO_LARGE = 1002, 1009
_CONTINUATION, _TEXT = WSMsgType.CONTINUATION, WSMsgType.TEXT
_PONG, _CLOSE = WSMsgType.PONG, WSMsgType.CLOSE


class Receiver(Protocol):
    """Receives what happens on a socket."""

    def received(self, data: bytes, *, text: bool) -> None:
        """Take a whole message."""

    def writable(self, *, now: bool) -> None:
        """Note that the client has stopped reading, or reads again."""

    def disconnected(self) -> None:
        """Note that the connection has ended."""


class UpgradedConnection(Protocol):
    """A connection whose handshake uvicorn has served; `gateways.websocket.transport` has the implementation."""

    def hand_over(self) -> asyncio.Transport:
        """Return the transport, and leave it alone from now on."""

    def ended(self) -> None:
        """Note that the transport is closed."""


class Frames(WSListener):
    """The frames of one socket."""

    def __init__(self, receiver: Receiver, connection: UpgradedConnection, bytes_max: int, close_timeout_s: float):
        self._receiver = receiver
        self._connection = connection
        self._bytes_max = bytes_max
        self._close_timeout_s = close_timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: WSTransport
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._parts_are_text = False
        self._closing = False
        #: Ends a connection whose client does not answer a close frame.
        self._timer: asyncio.TimerHandle | None = None
        self._lost = False
        #: When a ping without an answer was sent, in the loop's time; None if there is none.
        self.pinged_at: float | None = None
        #: When the last answer to a ping arrived, in the loop's time.
        self.ponged_at = 0.0

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Give a whole message to the receiver."""
        kind = frame.msg_type
        if kind == _CLOSE:
            self._closed_by_client()
        elif self._closing:
            return
        elif frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(_PROTOCOL_ERROR, "reserved bits are set")
        elif kind == _PONG:
            self.pinged_at, self.ponged_at = None, self._loop.time()
        elif kind == _CONTINUATION or self._parts or not frame.fin:
            self._join(frame)
        else:
            self._receiver.received(frame.get_payload_as_bytes(), text=kind == _TEXT)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Report the end of the connection."""
        self.lost()

    def lost(self) -> None:
        """Report the end of the connection, once."""
        if not self._lost:
            self._lost = True
            if self._timer is not None:
                self._timer.cancel()
            self._connection.ended()
            self._receiver.disconnected()

    def pause_writing(self) -> None:
        """Report that the client does not read."""
        self._receiver.writable(now=False)

    def resume_writing(self) -> None:
        """Report that the client reads again."""
        self._receiver.writable(now=True)

    def send(self, data: bytes) -> None:
        """Write a text frame."""
        self._transport.send(_TEXT, data)

    def ping(self) -> None:
        """Send a ping."""
        self.pinged_at = self._loop.time()
        self._transport.send_ping()

    def pause_reading(self) -> None:
        """Read nothing more from the connection; messages that were read already still arrive."""
        if not self._lost:
            self._transport.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if not self._lost:
            self._transport.underlying_transport.resume_reading()

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and end the connection when the client has answered or the close timeout has passed."""
        if not self._closing:
            self._closing = True
            self._transport.send_close(code, reason.encode())  # type: ignore[arg-type]
            self.resume_reading()
            self._abort_later()

    def abort(self) -> None:
        """End the connection at once."""
        if not self._lost:
            self._transport.disconnect(graceful=False)

    def _abort_later(self) -> None:
        self._timer = self._loop.call_later(self._close_timeout_s, self.abort)

    def failed(self) -> None:
        """Drop what still comes from a client whose frames cannot be parsed; picows has sent it the close code."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._transport.underlying_transport.set_protocol, _Discarding(self))
            self._abort_later()

    def _closed_by_client(self) -> None:
        if not self._closing:
            self._closing = True
            received = self._transport.close_handshake.recv
            self._transport.send_close(WSCloseCode.NO_INFO if received is None else received.code)
            self._abort_later()
        self._transport.disconnect()

    def _join(self, frame: WSFrame) -> None:
        kind = frame.msg_type
        if (kind == _CONTINUATION) is not bool(self._parts):
            self.close(_PROTOCOL_ERROR, "fragments are out of order")
            return
        if kind != _CONTINUATION:
            self._parts_are_text = kind == _TEXT
        self._parts_bytes += frame.payload_size
        if self._parts_bytes > self._bytes_max:
            self.close(_TOO_LARGE, f"a message is larger than {self._bytes_max} bytes")
            return
        self._parts.append(frame.get_payload_as_bytes())
        if frame.fin:
            whole, self._parts, self._parts_bytes = b"".join(self._parts), [], 0
            self._receiver.received(whole, text=self._parts_are_text)


class _Discarding(asyncio.Protocol):
    """Reads and drops everything until the connection ends, so that the client can read why it was closed."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection."""
        self._frames.lost()


class _ParserErrors(logging.LoggerAdapter[logging.Logger]):
    """The logger given to picows, which reports a protocol error of the client only there; its records are dropped."""

    def __init__(self, frames: Frames) -> None:
        super().__init__(_log, {})
        self._frames = frames

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Report errors; an exception is a bug in the hub, and logged."""
        if kwargs.get("exc_info"):
            _log.error("serving a socket failed", exc_info=True)
        if level >= logging.ERROR:
            self._frames.failed()


class _Handshake:
    """A transport that discards what is written during the constant handshake."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.write: Any = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def take_over(socket: WebSocket, receiver: Receiver, bytes_max: int, close_timeout_s: float) -> Frames:
    """Replace the protocol of an accepted socket."""
    connection: UpgradedConnection = socket.scope["extensions"][EXTENSION]
    frames = Frames(receiver, connection, bytes_max, close_timeout_s)
    transport = connection.hand_over()
    protocol = server_protocol(frames, bytes_max, _ParserErrors(frames))
    handshake = _Handshake(transport)
    protocol.connection_made(handshake)
    handshake.write = lambda data: None
    protocol.get_buffer(-1)[: len(_HANDSHAKE)] = _HANDSHAKE
    protocol.buffer_updated(len(_HANDSHAKE))
    del handshake.write
    transport.set_protocol(protocol)
    return frames

"""uvicorn's WebSocket protocol with five overrides.

- When the hub stops, the gateway closes the sockets, with a reason and code 1001; uvicorn does not.
- A socket whose application has ended is closed within a time limit, also if its client reads nothing.
- A refused handshake is not logged as an error.
- A handshake that the library refuses is answered with a problem document.
- The application can take over the connection after the handshake, to read and write frames by itself.

`docs/decisions/uvicorn-subclass.md` records why uvicorn is subclassed.
"""

import asyncio
from asyncio.transports import BaseTransport
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.http11 import Response

from tocsin.gateways.problems import unhandled
from tocsin.gateways.websocket.frames import EXTENSION

__all__ = ["socket_protocol"]


def socket_protocol(close_timeout_s: float) -> type[WebSocketsSansIOProtocol]:
    """Return the protocol for sockets that get this long to close."""

    class Patient(_SocketProtocol):
        def connection_made(self, transport: BaseTransport) -> None:
            super().connection_made(transport)
            self.close_timeout = close_timeout_s

    return Patient


class _SocketProtocol(WebSocketsSansIOProtocol):
    """One connection that has asked to become a WebSocket."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.reject = _rejected  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        """Parse the data; answer a handshake that the library could not parse, which uvicorn does not notice."""
        super().data_received(data)
        wrong = self.conn.handshake_exc
        if wrong is not None and not self.handshake_initiated and not self.close_sent:
            refusal = b"".join(self.conn.data_to_send()) or _rejected(400, str(wrong)).serialize()
            self.close_sent = True
            self.transport.write(refusal)
            self.transport.close()
        if self.transport.is_closing():
            self.loop.call_later(self.close_timeout, self.transport.abort)

    def shutdown(self) -> None:
        """Leave an open socket to the gateway, which closes it with a reason."""
        if not self.handshake_complete or self.close_sent:
            super().shutdown()

    async def run_asgi(self) -> None:
        """Run the application, and end the connection within a time limit."""
        serve = self.app

        async def served(scope: Any, receive: Any, send: Any) -> None:
            scope["extensions"][EXTENSION] = self
            await serve(scope, receive, send)
            # A refusal completes the handshake: uvicorn would log an error for it.
            self.handshake_complete = self.handshake_complete or self.initial_response is not None

        self.app = served
        await super().run_asgi()
        if not self.disconnected:
            self.loop.call_later(self.close_timeout, self.transport.abort)

    def hand_over(self) -> asyncio.Transport:
        """Return the transport, and stop pinging on it."""
        self.stop_keepalive()
        return self.transport

    def ended(self) -> None:
        """Note that the transport that was handed over is closed."""
        self.connection_lost(None)


def _rejected(status: int, text: str) -> Response:
    """Return a problem document, in place of the library's plain text."""
    problem = unhandled(status, text.strip() or "this socket is not opened")
    headers = Headers((name.decode(), value.decode()) for name, value in problem.raw_headers)
    headers["Connection"] = "close"
    return Response(status, HTTPStatus(status).phrase, headers, bytes(problem.body))

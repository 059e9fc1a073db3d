"""uvicorn's WebSocket protocol, with four changes of manners.

A hub that stops leaves the goodbye to the gateway, which says why and closes with 1001, instead of cutting in. And a
socket whose application has left is not kept open for ever for a reader that takes nothing. A refused handshake is
answered, and no error of ours. One that the library refuses by itself is answered from the catalogue, and closed.
"""

from asyncio.transports import BaseTransport
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.http11 import Response

from tocsin.gateways.problems import unhandled

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
        """Read on; a handshake that the library could not even read is refused here, for nobody else notices."""
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
        """Leave an open socket to whoever serves it: it has been told."""
        if not self.handshake_complete or self.close_sent:
            super().shutdown()

    async def run_asgi(self) -> None:
        """Serve it, and see to it that it ends."""
        serve = self.app

        async def served(scope: Any, receive: Any, send: Any) -> None:
            await serve(scope, receive, send)
            # A refusal is an answer, too: no error to be logged each time that somebody knocks with a wrong token.
            self.handshake_complete = self.handshake_complete or self.initial_response is not None

        self.app = served
        await super().run_asgi()
        if not self.disconnected:
            self.loop.call_later(self.close_timeout, self.transport.abort)


def _rejected(status: int, text: str) -> Response:
    """Refuse a handshake in place of the library, which would say the same as bare text."""
    problem = unhandled(status, text.strip() or "this socket is not opened")
    headers = Headers((name.decode(), value.decode()) for name, value in problem.raw_headers)
    headers["Connection"] = "close"
    return Response(status, HTTPStatus(status).phrase, headers, bytes(problem.body))

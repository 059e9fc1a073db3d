"""uvicorn's WebSocket protocol, with three changes of manners.

A hub that stops leaves the goodbye to the gateway, which says why and closes with 1001, instead of cutting in. And a
socket whose application has left is not kept open for ever for a reader that takes nothing. A refused handshake is
answered, and no error of ours.
"""

from asyncio.transports import BaseTransport
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

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

"""uvicorn's WebSocket protocol, with two changes of manners.

A hub that stops leaves the goodbye to the gateway, which says why and closes with 1001, instead of cutting in. And a
socket whose application has left is not kept open for ever for a reader that takes nothing.
"""

from asyncio.transports import BaseTransport

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
        await super().run_asgi()
        if not self.disconnected:
            self.loop.call_later(self.close_timeout, self.transport.abort)

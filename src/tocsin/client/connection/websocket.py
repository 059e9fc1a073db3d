"""The WebSocket transport: operations and items as JSON arrays, one array per frame.

`tocsin.wire.socket` and `docs/reference/websocket.md` have the protocol. Frames are parsed and written by picows
(`docs/decisions/websocket-library.md`). It is imported when it is needed (`pip install 'tocsin[client]'`), so that the
rest of the client works without it.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.connection.route import Route
from tocsin.client.connection.socket_link import SocketLink
from tocsin.client.connection.transport import LinkLost
from tocsin.core.errors import CATALOGUE, InvariantViolation, Problem, refusal
from tocsin.wire.socket import SUBPROTOCOL

__all__ = ["WebSocketTransport", "socket_url"]

#: The library's records; a lost connection is reported by the client itself.
_log = logging.getLogger("tocsin.client.frames")
_log.setLevel(logging.CRITICAL)
_PATH = "/v1/socket"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_PROBLEM = msgspec.json.Decoder(Problem)


class WebSocketTransport:
    """Connects to a hub.

    `reread` returns the current token of the token file. It is called before every socket but the first, so that the
    client continues with a token that was rotated.
    """

    def __init__(
        self,
        url: str,
        config: ClientConfig,
        *,
        token: str | None,
        agent: str | None = None,
        role: str | None = None,
        reread: Callable[[], str] | None = None,
    ) -> None:
        _require_library()
        self._config = config
        self._route = Route(url)
        self._reread = reread
        self._has_dialled = False
        if token is not None:
            self._headers = _bearing(token)
        elif agent is not None:
            self._headers = {"Tocsin-Agent": agent} | ({} if role is None else {"Tocsin-Role": role})
        else:
            raise refusal(
                "E_AUTH_001",
                "a hub needs a token",
                expected='token="…", or TOCSIN_TOKEN, or TOCSIN_TOKEN_FILE',
            )

    async def dial(self) -> SocketLink:
        """Open a socket; raise `LinkLost` with the reason if that fails."""
        if self._reread is not None and self._has_dialled:
            self._headers = _bearing(self._reread())
        self._has_dialled = True
        from picows import WSError, WSHandshakeError

        route = self._route
        for hop in range(self._config.hops_max + 1):
            url = route.url
            link = SocketLink(
                self._config.goodbye_timeout_s, route.follow, may_find_another_token=self._reread is not None
            )
            try:
                await self._open(url, link)
                return link
            except WSHandshakeError as error:
                refused = _refusal_of(error.raw_body)
                owner = None if refused is None else refused.facts.get("address")
                if hop < self._config.hops_max and owner and route.follow(owner):
                    continue
                route.go_back()
                raise LinkLost(f"{url}: {error}", refused=refused) from None
            except (OSError, WSError) as error:
                route.go_back()
                raise LinkLost(f"{url}: {error}") from None
            except asyncio.CancelledError:
                route.go_back()
                raise
        raise InvariantViolation("the last hop is refused or connected")

    async def _open(self, url: str, link: SocketLink) -> None:
        """Connect, and wait until the handshake is accepted."""
        from tocsin.framing import client_protocol

        url, is_local = socket_url(url)
        loop, parts = asyncio.get_running_loop(), urlsplit(url)
        host, secure = parts.hostname or "", parts.scheme == "wss"
        port = parts.port or (443 if secure else 80)
        headers = {**self._headers, "Sec-WebSocket-Protocol": SUBPROTOCOL}
        listener = _listener(link)
        protocol = client_protocol(listener, parts.netloc, parts.path, headers, self._config.frame_bytes_max, _log)
        proxy = None if is_local else _proxy_of(url)
        if proxy is None:
            transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=secure or None)
        else:
            tunnel = await _tunnel(proxy, host, port)
            name = host if secure else None
            transport, _ = await loop.create_connection(
                lambda: protocol, sock=tunnel, ssl=secure or None, server_hostname=name
            )
        try:
            await protocol.wait_until_handshake_complete()
            if protocol.listener is None:
                raise ConnectionResetError("the connection was closed during the handshake")
        except BaseException:
            transport.abort()
            raise


def _listener(link: SocketLink) -> Any:
    """Return a listener of the library that reports to a link."""
    from picows import WSListener, WSMsgType

    data, closing = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION), WSMsgType.CLOSE

    class Listener(WSListener):
        def on_ws_connected(self, transport: Any) -> None:
            link.opened(transport, WSMsgType.TEXT)

        def on_ws_frame(self, transport: Any, frame: Any) -> None:
            kind = frame.msg_type
            if kind in data:
                link.arrived(frame.get_payload_as_bytes(), last=bool(frame.fin))
            elif kind == closing:
                transport.send_close(frame.get_close_code())
                transport.disconnect()

        def on_ws_disconnected(self, transport: Any) -> None:
            link.lost()

        def pause_writing(self) -> None:
            link.pause_writing()

        def resume_writing(self) -> None:
            link.resume_writing()

    return Listener()


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    for name in ("https", "http") if parts.scheme == "wss" else ("http",):
        if name in proxies:
            return proxies[name]
    return None


def _bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _refusal_of(body: bytes | None) -> Problem | None:
    """Return why a handshake was refused; null if the answer is not the hub's, such as that of a proxy."""
    try:
        problem = _PROBLEM.decode(body or b"")
    except msgspec.DecodeError:
        return None
    return problem if problem.code in CATALOGUE else None


def socket_url(url: str) -> tuple[str, bool]:
    """Return the URL of a hub's socket, and whether the hub is on this machine."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") + _PATH
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, "", "")), parts.hostname in _LOOPBACK


async def _tunnel(proxy: str, host: str, port: int) -> socket.socket:
    """Return a connection through a proxy."""
    from python_socks import ProxyError
    from python_socks.async_.asyncio import Proxy

    try:
        return await Proxy.from_url(proxy).connect(dest_host=host, dest_port=port)
    except ProxyError as error:
        raise OSError(f"the proxy does not connect: {error}") from None


def _require_library() -> None:
    try:
        import picows  # noqa: F401
    except ImportError:
        raise ModuleNotFoundError(
            "connecting to a hub needs a WebSocket library: pip install 'tocsin[client]'"
        ) from None

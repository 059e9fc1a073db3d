"""The WebSocket transport: operations and items as JSON arrays, one array per frame.

`tocsin.wire.socket` and `docs/reference/websocket.md` have the protocol. Frames are parsed and written by picows
(`docs/decisions/websocket-library.md`). It is imported when it is needed (`pip install 'tocsin[client]'`), so that the
rest of the client works without it.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.connection.route import Route
from tocsin.client.connection.transport import Item, LinkLost, Refused
from tocsin.core.errors import CATALOGUE, InvariantViolation, Problem, refusal
from tocsin.wire.socket import SUBPROTOCOL, Answer, Deliver, Leave, Operation

__all__ = ["WebSocketTransport"]

#: The library's records; a lost connection is reported by the client itself.
_log = logging.getLogger("tocsin.client.frames")
_log.setLevel(logging.CRITICAL)
_PATH = "/v1/socket"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_NORMAL, _ABNORMAL = 1000, 1006
_TOKEN_ENDED = 4401
#: Reasons for which reconnecting is pointless, by close code. The hub's goodbye may be more specific.
_FINAL = {
    4400: Problem("E_PROTOCOL_002", "the hub rejected the protocol of this client"),
    _TOKEN_ENDED: Problem("E_AUTH_005", "the token was revoked or has expired"),
}
#: The close code of a session that another link has taken over.
_REPLACED = 4409


class _Item(msgspec.Struct, frozen=True, gc=False):
    """Any item of a frame: an answer, a refusal, a push or a goodbye, by the fields that are set."""

    re: int | None = None
    ok: msgspec.Raw = msgspec.Raw(b"")
    problem: Problem | None = None
    deliver: Deliver | None = None
    bye: Leave | None = None


_ITEMS = msgspec.json.Decoder(list[_Item])
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

    async def dial(self) -> "_SocketLink":
        """Open a socket; raise `LinkLost` with the reason if that fails."""
        if self._reread is not None and self._has_dialled:
            self._headers = _bearing(self._reread())
        self._has_dialled = True
        from picows import WSError, WSHandshakeError

        route = self._route
        for hop in range(self._config.hops_max + 1):
            url = route.url
            link = _SocketLink(
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

    async def _open(self, url: str, link: "_SocketLink") -> None:
        """Connect, and wait until the handshake is accepted."""
        from tocsin.framing import client_protocol

        url, is_local = _socket_url(url)
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


class _SocketLink:
    """One socket."""

    def __init__(self, close_timeout_s: float, moved: Callable[[str], object], *, may_find_another_token: bool) -> None:
        """Prepare to use a socket; `moved` is called with the address that a goodbye names."""
        self._moved = moved
        self._close_timeout_s = close_timeout_s
        self._may_find_another_token = may_find_another_token
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._frames: list[bytes] = []
        self._parts: list[bytes] = []
        self._arrival: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._is_lost = False
        self._leave: Leave | None = None
        self._encoder = msgspec.json.Encoder()

    def opened(self, transport: Any, text: Any) -> None:
        """Write to this transport; `text` is the library's type of a text frame."""
        self._transport, self._text = transport, text

    def arrived(self, payload: bytes, *, last: bool) -> None:
        """Take a frame, or a fragment of one."""
        if not last or self._parts:
            self._parts.append(payload)
            if not last:
                return
            payload, self._parts = b"".join(self._parts), []
        self._frames.append(payload)
        self._wake()

    def lost(self) -> None:
        """Note that the socket is closed."""
        self._is_lost = True
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Let senders wait until the hub has read."""
        if self._writable is None and not self._is_lost:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Let senders continue."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    async def send(self, operations: Sequence[Operation]) -> None:
        """Write one frame."""
        if self._is_lost:
            raise self._lost()
        self._transport.send(self._text, self._encoder.encode(operations))
        if self._writable is not None:
            await asyncio.shield(self._writable)

    async def receive(self) -> list[Item]:
        """Read the frames that have arrived, at least one."""
        while not self._frames:
            if self._is_lost:
                raise self._lost()
            self._arrival = self._loop.create_future()
            await self._arrival
        frames, self._frames = self._frames, []
        items: list[Item] = []
        try:
            for frame in frames:
                items += map(_item, _ITEMS.decode(frame))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LinkLost(f"the hub sent a frame that cannot be read: {error}") from None
        if items and isinstance(leave := items[-1], Leave):
            self._leave = leave
            if leave.address is not None:
                self._moved(leave.address)
        return items

    async def close(self) -> None:
        """Close the socket, without waiting longer than the configured time."""
        if self._is_lost:
            return
        self._transport.send_close(_NORMAL)
        try:
            async with asyncio.timeout(self._close_timeout_s):
                await self._transport.wait_disconnected()
        except Exception:  # a protocol error of the hub, or the timeout: the socket is closed in any case
            self._transport.disconnect(graceful=False)

    def _wake(self) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.done():
            arrival.set_result(None)

    def _lost(self) -> LinkLost:
        handshake, leave = self._transport.close_handshake, self._leave
        received = None if handshake is None else handshake.recv
        code = _ABNORMAL if received is None else int(received.code)
        reason = "the connection was lost" if received is None else f"the hub closed: {code} {received.reason}".strip()
        if code == _TOKEN_ENDED and self._may_find_another_token:
            return LinkLost(reason, resumable=False)
        refused = _FINAL.get(code)
        if refused is not None and leave is not None and leave.code in CATALOGUE:
            refused = Problem(leave.code, leave.reason)
        return LinkLost(reason, refused=refused, resumable=code != _REPLACED)


def _listener(link: _SocketLink) -> Any:
    """Return a listener of the library that reports to a link."""
    from picows import WSListener, WSMsgType

    data, closing = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION), WSMsgType.CLOSE

    class Listener(WSListener):
        def on_ws_connected(self, transport: Any) -> None:
            link.opened(transport, WSMsgType.TEXT)

        def on_ws_frame(self, transport: Any, frame: Any) -> None:
            kind = frame.msg_type
            if kind in data:
                link.arrived(frame.get_payload_as_bytes(), last=frame.fin)
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


def _item(item: _Item) -> Item:
    if item.deliver is not None:
        return item.deliver
    if item.problem is not None:
        return Refused(item.re, item.problem)
    if item.bye is not None:
        return item.bye
    return Answer(-1 if item.re is None else item.re, item.ok)


def _refusal_of(body: bytes | None) -> Problem | None:
    """Return why a handshake was refused; null if the answer is not the hub's, such as that of a proxy."""
    try:
        problem = _PROBLEM.decode(body or b"")
    except msgspec.DecodeError:
        return None
    return problem if problem.code in CATALOGUE else None


def _socket_url(url: str) -> tuple[str, bool]:
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

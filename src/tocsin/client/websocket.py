"""The WebSocket transport: operations and items as JSON arrays, one array per frame.

`tocsin.wire.socket` and `docs/reference/websocket.md` have the protocol. The library (`pip install 'tocsin[client]'`)
is imported when it is needed, so that the rest of the client works without it.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.transport import Item, LinkLost, Refused
from tocsin.core.errors import CATALOGUE, Problem, refusal
from tocsin.wire.socket import SUBPROTOCOL, Answer, Deliver, Leave, Operation

__all__ = ["WebSocketTransport"]

_PATH = "/v1/socket"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

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
        _library()
        self._config = config
        self._url, self._is_local = _socket_url(url)
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
        client, exceptions = _library()
        if self._reread is not None and self._has_dialled:
            self._headers = _bearing(self._reread())
        self._has_dialled = True
        try:
            socket = await client.connect(
                self._url,
                subprotocols=[SUBPROTOCOL],
                additional_headers=self._headers,
                compression=None,
                open_timeout=None,
                ping_interval=None,
                close_timeout=self._config.goodbye_timeout_s,
                max_size=self._config.frame_bytes_max,
                proxy=None if self._is_local else True,
            )
        except exceptions.InvalidStatus as error:
            raise LinkLost(str(error), refused=_refusal_of(error.response)) from None
        except (OSError, exceptions.WebSocketException) as error:
            raise LinkLost(f"{self._url}: {error}") from None
        return _SocketLink(socket, exceptions.ConnectionClosed, may_find_another_token=self._reread is not None)


class _SocketLink:
    """One socket."""

    def __init__(self, socket: Any, closed: type[Exception], *, may_find_another_token: bool) -> None:
        self._socket = socket
        self._closed = closed
        self._may_find_another_token = may_find_another_token
        self._leave: Leave | None = None
        self._encoder = msgspec.json.Encoder()

    async def send(self, operations: Sequence[Operation]) -> None:
        """Write one frame."""
        try:
            await self._socket.send(self._encoder.encode(operations), text=True)
        except self._closed as error:
            raise self._lost(error) from None

    async def receive(self) -> list[Item]:
        """Read one frame."""
        try:
            frame: bytes = await self._socket.recv(decode=False)
        except self._closed as error:
            raise self._lost(error) from None
        try:
            items = _ITEMS.decode(frame)
        except msgspec.DecodeError as error:
            raise LinkLost(f"the hub sent a frame that cannot be read: {error}") from None
        if items and items[-1].bye is not None:
            self._leave = items[-1].bye
        return [_item(item) for item in items]

    async def close(self) -> None:
        """Close the socket, without waiting longer than the configured time."""
        await self._socket.close()

    def _lost(self, error: Exception) -> LinkLost:
        code, leave = self._socket.close_code, self._leave
        if code == _TOKEN_ENDED and self._may_find_another_token:
            return LinkLost(str(error), resumable=False)
        refused = _FINAL.get(code)
        if refused is not None and leave is not None and leave.code in CATALOGUE:
            refused = Problem(leave.code, leave.reason)
        return LinkLost(str(error), refused=refused, resumable=code != _REPLACED)


def _bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _item(item: _Item) -> Item:
    if item.deliver is not None:
        return item.deliver
    if item.bye is not None:
        return item.bye
    if item.problem is not None:
        return Refused(item.re, item.problem)
    return Answer(-1 if item.re is None else item.re, item.ok)


def _refusal_of(response: Any) -> Problem | None:
    """Return why a handshake was refused; null if the answer is not the hub's, such as that of a proxy."""
    try:
        problem = _PROBLEM.decode(response.body or b"")
    except msgspec.DecodeError:
        return None
    return problem if problem.code in CATALOGUE else None


def _socket_url(url: str) -> tuple[str, bool]:
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.netloc:
        expected = "http://host:port, or https, ws, wss"
        raise refusal("E_ROUTING_002", f"{url[:200]!r} is not the address of a hub", found=url[:200], expected=expected)
    path = parts.path.rstrip("/") + _PATH
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, "", "")), parts.hostname in _LOOPBACK


def _library() -> tuple[Any, Any]:
    try:
        from websockets import exceptions
        from websockets.asyncio import client
    except ImportError:
        raise ModuleNotFoundError(
            "connecting to a hub needs a WebSocket library: pip install 'tocsin[client]'"
        ) from None
    return client, exceptions

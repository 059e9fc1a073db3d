"""Attached to a hub over a WebSocket: operations and items as arrays of JSON, one array to a frame.

`docs/reference/websocket.md` has the protocol. The library (`pip install 'tocsin[client]'`) is imported when it is
needed, so that the rest of the client works without it.
"""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.operations import Operation
from tocsin.client.transport import Answer, Delivery, Farewell, Item, LinkLost
from tocsin.core.errors import CATALOGUE, Problem, refusal

__all__ = ["SUBPROTOCOL", "WebSocketTransport"]

SUBPROTOCOL = "tocsin.v1"
_PATH = "/v1/socket"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_TOKEN_ENDED = 4401
#: Why the hub closed, where trying again changes nothing: by close code. Its goodbye may say more.
_FINAL = {
    4400: Problem("E_PROTOCOL_002", "the hub does not understand this client"),
    _TOKEN_ENDED: Problem("E_AUTH_005", "the token has ended"),
}
#: The close code of a session that another link has taken over.
_REPLACED = 4409


class _Pushed(msgspec.Struct, frozen=True, gc=False):
    signal_id: str
    offer: int
    envelope: msgspec.Raw
    interrupts: str | None = None


class _Bye(msgspec.Struct, frozen=True):
    reason: str = ""
    resume: bool = False
    code: str | None = None


class _Item(msgspec.Struct, frozen=True):
    """One item of a frame: an answer, a push or a farewell, by what is there."""

    re: int | None = None
    ok: msgspec.Raw = msgspec.Raw(b"")
    problem: Problem | None = None
    deliver: _Pushed | None = None
    bye: _Bye | None = None


_ITEMS = msgspec.json.Decoder(list[_Item])
_PROBLEM = msgspec.json.Decoder(Problem)


class WebSocketTransport:
    """The way to a hub.

    `reread` looks where the token came from, which may have another one by now: it is asked before each socket but the
    first, so a token that was rotated there is found, and a socket that the old one ended is not the end.
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
                "a hub wants to know who you are",
                expected='token="…", or TOCSIN_TOKEN, or TOCSIN_TOKEN_FILE',
            )

    async def dial(self) -> "_SocketLink":
        """Open a socket, or raise why not."""
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
        self._bye: _Bye | None = None
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
            raise LinkLost(f"the hub sent what cannot be read: {error}") from None
        if items and items[-1].bye is not None:
            self._bye = items[-1].bye
        return [_item(item) for item in items]

    async def close(self) -> None:
        """Close the socket, without waiting longer than the configured time."""
        await self._socket.close()

    def _lost(self, error: Exception) -> LinkLost:
        code, bye = self._socket.close_code, self._bye
        if code == _TOKEN_ENDED and self._may_find_another_token:
            return LinkLost(str(error), resumable=False)
        refused = _FINAL.get(code)
        if refused is not None and bye is not None and bye.code in CATALOGUE:
            refused = Problem(bye.code, bye.reason)
        return LinkLost(str(error), refused=refused, resumable=code != _REPLACED)


def _bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _item(item: _Item) -> Item:
    if item.deliver is not None:
        pushed = item.deliver
        return Delivery(pushed.signal_id, pushed.offer, pushed.envelope, pushed.interrupts)
    if item.bye is not None:
        return Farewell(item.bye.reason, item.bye.resume)
    return Answer(item.re, item.ok, item.problem)


def _refusal_of(response: Any) -> Problem | None:
    """Read why a handshake was refused; something on the way may have answered in the hub's place."""
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
            "a hub is reached over a WebSocket, which needs a library: pip install 'tocsin[client]'"
        ) from None
    return client, exceptions

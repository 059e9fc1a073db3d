"""One socket of a client: writes frames of operations, and reads frames of items."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tocsin.client.connection.transport import Item, LinkLost, Refused
from tocsin.core.errors import CATALOGUE, Problem
from tocsin.wire.socket import Answer, AnyItem, Leave, Operation

__all__ = ["SocketLink"]

_NORMAL: Final = 1000
_ABNORMAL: Final = 1006
_TOKEN_ENDED: Final = 4401
#: Reasons for which reconnecting is pointless, by close code. The hub's goodbye may be more specific.
_FINAL: Final = {
    4400: Problem("E_PROTOCOL_002", "the hub rejected the protocol of this client"),
    _TOKEN_ENDED: Problem("E_AUTH_005", "the token was revoked or has expired"),
}
#: The close code of a session that another link has taken over.
_REPLACED: Final = 4409
_ITEMS: Final = msgspec.json.Decoder(list[AnyItem])


class SocketLink:
    """One socket."""

    def __init__(self, close_timeout_s: float, moved: Callable[[str], object], *, may_find_another_token: bool) -> None:
        """Prepare to use a socket; `moved` is called with the address that a goodbye names."""
        self._moved = moved
        self._close_timeout_s = close_timeout_s
        self._may_find_another_token = may_find_another_token
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._text: Any = None
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
                items += [_item(item) for item in _ITEMS.decode(frame)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LinkLost(f"the hub sent a frame that cannot be read: {error}") from None
        if items and type(leave := items[-1]) is Leave:
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
            await asyncio.wait_for(self._transport.wait_disconnected(), self._close_timeout_s)
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


def _item(item: AnyItem) -> Item:
    if item.deliver is not None:
        return item.deliver
    if item.problem is not None:
        return Refused(item.re, item.problem)
    if item.bye is not None:
        return item.bye
    return Answer(-1 if item.re is None else item.re, item.ok)

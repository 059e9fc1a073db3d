"""The live feed over a WebSocket: records of durable events, for callers who may see everything.

It is read-only. A watcher that reads too slowly misses commits and gets their range; the bus does not wait for it.
"""

import asyncio
from secrets import token_hex

import msgspec
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from tocsin.core.errors import TocsinError, refusal
from tocsin.core.events import EVENT_TYPES
from tocsin.frames import Channel
from tocsin.frames.errors import ChannelClosedError
from tocsin.gateways.feed_items import FeedBye, FeedEvent, FeedGap, FeedHello, FeedItem, Missed, Opening, Parting
from tocsin.gateways.identity import check_again, identify, may_see_everything
from tocsin.gateways.problems import problem_response
from tocsin.gateways.watchers import show
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.observability.feed import FeedFrame
from tocsin.hub.service import Hub
from tocsin.journal.records import record_of

__all__ = ["PATH", "SUBPROTOCOL", "FeedGateway"]

PATH = "/v1/feed"
SUBPROTOCOL = "tocsin.feed.v1"
_KINDS = frozenset(kind.__name__ for kind in EVENT_TYPES)
_ENCODER = msgspec.json.Encoder()


class FeedGateway:
    """Serves the watchers of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[BaseRoute]:
        """Return the routes to mount beside the HTTP gateway."""
        return [WebSocketRoute(PATH, self._serve, name="feed")]

    async def _serve(self, socket: WebSocket) -> None:
        name = f"feed {token_hex(8)}"
        try:
            grant = self._admit(socket)
            kinds = _kinds_of(socket.query_params.get("kinds", ""))
            channel = self._hub.feed.watch(name)
        except TocsinError as error:
            await socket.send_denial_response(problem_response(error.problem))
            return
        try:
            asked_for = SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None
            await socket.accept(asked_for)
            await self._show(socket, grant, channel, kinds)
        finally:
            self._hub.feed.leave(name)

    def _admit(self, socket: WebSocket) -> Grant:
        grant = identify(self._hub, socket)
        self._hub.must_be_open()
        if not may_see_everything(self._hub, grant):
            raise refusal("E_AUTH_003", f"{grant.agent} may not watch everything: a director or a human may")
        return grant

    async def _show(
        self, socket: WebSocket, grant: Grant, channel: Channel[FeedFrame], kinds: frozenset[str] | None
    ) -> None:
        """Send until the watcher leaves, its token ends or the hub shuts down."""
        await show(
            self._hub,
            socket,
            self._write(socket, grant, channel, kinds),
            lambda reason: _send(socket, [FeedBye(Parting(reason))]),
        )

    async def _write(
        self, socket: WebSocket, grant: Grant, channel: Channel[FeedFrame], kinds: frozenset[str] | None
    ) -> None:
        project, records_max = self._hub.host.project, self._hub.config.feed.records_max
        await _send(socket, [FeedHello(Opening(project, self._hub.host.committed_seq, sorted(kinds or _KINDS)))])
        expected = self._hub.host.committed_seq + 1
        while (frame := await self._next(grant, channel)) is not None:
            last_seq = frame.first_seq + len(frame.events) - 1
            if last_seq < expected:
                continue
            items: list[FeedItem] = []
            if frame.first_seq > expected:
                items.append(FeedGap(Missed(expected, frame.first_seq - 1)))
            for seq, event in enumerate(frame.events, frame.first_seq):
                if kinds is None or type(event).__name__ in kinds:
                    items.append(FeedEvent(record_of(project, seq, event, payloads=False)))
            expected = last_seq + 1
            for start in range(0, len(items), records_max):
                await _send(socket, items[start : start + records_max])

    async def _next(self, grant: Grant, channel: Channel[FeedFrame]) -> FeedFrame | None:
        """Wait for a frame; check the token at an interval while none arrives."""
        frame: FeedFrame | None = None
        while frame is None:
            try:
                async with asyncio.timeout(self._hub.config.feed.check_interval_s):
                    frame = await channel.get_async()
            except TimeoutError:
                pass
            except ChannelClosedError:
                return None
            check_again(self._hub, grant)
        return frame


def _kinds_of(text: str) -> frozenset[str] | None:
    """Parse the requested kinds of events; an empty text is all."""
    if not text:
        return None
    kinds = frozenset(text.split(","))
    unknown = sorted(kinds - _KINDS)
    if unknown:
        detail = f"{unknown[0][:64]!r} is not a kind of event"
        raise refusal("E_VALIDATION_003", detail, field="kinds", found=unknown[0][:64], expected="see the events")
    return kinds


async def _send(socket: WebSocket, items: list[FeedItem]) -> None:
    await socket.send({"type": "websocket.send", "text": _ENCODER.encode(items).decode()})

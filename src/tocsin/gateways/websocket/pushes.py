"""Messages pushed to one socket: held until `hello` is answered, and deferred while the client reads too slowly.

The exchange counts an offer as in flight whether the outbox has room for it or not. A push that does not fit is not
kept, only its signal id; once there is room, the host is asked to push it again.
"""

import asyncio

import msgspec

from tocsin.core.commands import Delivery, Reply
from tocsin.core.protocol.priority import Priority
from tocsin.gateways.websocket.outbox import Outbox
from tocsin.hub.hosting.host import Host
from tocsin.hub.observability.counters import Count
from tocsin.wire.socket import Deliver, Push

__all__ = ["Pushes"]

#: Approximate size of an item without its envelope, in bytes.
_ITEM_BYTES = 200


class Pushes:
    """The pushes of one session."""

    __slots__ = ("_asking", "_bytes_max", "_count", "_deferred", "_early", "_host", "_outbox")

    def __init__(self, host: Host, outbox: Outbox, bytes_max: int, count: Count) -> None:
        self._host = host
        self._outbox = outbox
        self._bytes_max = bytes_max
        self._count = count
        self._early: list[Delivery] | None = []
        self._deferred: dict[str, None] = {}
        self._asking = False

    @property
    def has_room(self) -> bool:
        """Tell whether the outbox has emptied enough for the deferred pushes to follow."""
        return self._outbox.queued_bytes <= self._bytes_max // 2

    def take(self, push: Delivery) -> None:
        """Put a message into the next frame, or defer it if there is no room."""
        if self._early is not None:
            self._early.append(push)
        elif (self._deferred or self._asking) and push.priority < Priority.CRITICAL:
            # Earlier messages are deferred: a later one must not overtake them unless it is Critical.
            self._deferred[push.signal_id] = None
        else:
            self._put(push)

    @property
    def _has_place(self) -> bool:
        return self._outbox.queued_bytes <= self._bytes_max

    def _put(self, push: Delivery) -> None:
        if not self._has_place:
            self._deferred[push.signal_id] = None
            return
        envelope = push.envelope  # Written at each reading.
        item = Push(Deliver(push.signal_id, push.offer, push.session, msgspec.Raw(envelope), push.interrupts))
        put = self._outbox.put if push.priority < Priority.CRITICAL else self._outbox.put_urgent
        put(item, len(envelope) + _ITEM_BYTES)
        self._count.value += 1

    def begin(self) -> None:
        """Push what arrived before `hello` was answered."""
        early, self._early = self._early or [], None
        for push in early:
            self.take(push)

    def discard_early(self) -> None:
        """Discard what arrived for a `hello` that was refused."""
        self._early = []

    def retry_deferred(self, session: str) -> None:
        """Ask the host to push the deferred messages again; it leaves out those confirmed meanwhile."""
        if not self._deferred or self._asking:
            return
        self._asking = True
        wanted, self._deferred = self._deferred, {}
        full = False

        def push_again(push: Delivery) -> None:
            nonlocal full
            if push.signal_id not in wanted:
                return
            # They arrive over several iterations of the loop: once one does not fit, those behind it are deferred too.
            full = full or not self._has_place
            if full and push.priority < Priority.CRITICAL:
                self._deferred[push.signal_id] = None
            else:
                self._put(push)

        def asked(_: "asyncio.Future[Reply]") -> None:
            self._asking = False
            # The outbox may have emptied meanwhile, and nothing else would retry.
            if self.has_room:
                self.retry_deferred(session)

        self._host.push_again(session, push_again).add_done_callback(asked)

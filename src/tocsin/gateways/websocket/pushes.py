"""What is pushed to one socket: not before the answer to its hello, and never more than its other end takes.

An offer is on its way as far as the exchange is concerned, whether there is room for it here or not. What there is no
room for is not kept, only its name; once there is, the host is asked to push it again.
"""

import asyncio

import msgspec
from prometheus_client import Counter

from tocsin.core.commands import Delivery, Reply
from tocsin.core.protocol.priority import Priority
from tocsin.gateways.websocket.outbox import Outbox
from tocsin.hub.host import Host
from tocsin.wire.socket import Deliver, Push

__all__ = ["Pushes"]

#: What an item weighs beside its envelope, bytes, about.
_ITEM_BYTES = 200


class Pushes:
    """Where the pushes of one session go."""

    __slots__ = ("_asking", "_bytes_max", "_count", "_early", "_host", "_missed", "_outbox")

    def __init__(self, host: Host, outbox: Outbox, bytes_max: int, count: Counter) -> None:
        self._host = host
        self._outbox = outbox
        self._bytes_max = bytes_max
        self._count = count
        self._early: list[Delivery] | None = []
        self._missed: dict[str, None] = {}
        self._asking = False

    @property
    def missed(self) -> int:
        """Return how many there was no room for."""
        return len(self._missed)

    @property
    def has_room(self) -> bool:
        """Tell whether so much has been taken that what was missed can follow."""
        return self._outbox.queued_bytes <= self._bytes_max // 2

    def take(self, push: Delivery) -> None:
        """Let a message go with the next frame, where there is room."""
        if self._early is not None:
            self._early.append(push)
        elif (self._missed or self._asking) and push.priority < Priority.CRITICAL:
            # Others of its kind came before it and have had no room yet.
            self._missed[push.signal_id] = None
        else:
            self._put(push)

    @property
    def _has_place(self) -> bool:
        return self._outbox.queued_bytes <= self._bytes_max

    def _put(self, push: Delivery) -> None:
        if not self._has_place:
            self._missed[push.signal_id] = None
            return
        raw = msgspec.Raw(push.envelope)
        item = Push(Deliver(push.signal_id, push.offer, push.session, raw, push.interrupts))
        self._outbox.put(item, len(push.envelope) + _ITEM_BYTES)
        self._count.inc()

    def begin(self) -> None:
        """Let go what came before the answer to hello."""
        early, self._early = self._early or [], None
        for push in early:
            self.take(push)

    def begin_anew(self) -> None:
        """Forget what came for a hello that was refused."""
        self._early = []

    def go_on(self, session: str) -> None:
        """Ask for what there was no room for; what has been confirmed meanwhile does not come."""
        if not self._missed or self._asking:
            return
        self._asking = True
        wanted, self._missed = self._missed, {}

        full = False

        def once_more(push: Delivery) -> None:
            nonlocal full
            if push.signal_id not in wanted:
                return
            # They come over several turns of the loop: room that is made in between is not for the later ones.
            full = full or not self._has_place
            if full and push.priority < Priority.CRITICAL:
                self._missed[push.signal_id] = None
            else:
                self._put(push)

        def asked(_: "asyncio.Future[Reply]") -> None:
            self._asking = False
            # The outbox may have emptied before this: nobody else would ask again.
            if self.has_room:
                self.go_on(session)

        self._host.push_again(session, once_more).add_done_callback(asked)

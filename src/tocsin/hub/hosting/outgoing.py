"""Queue of durable replies and pushes: a limited number per iteration of the event loop, Critical ones at once.

A commit may hold a thousand commands. If the loop answered all of them at once, it would read no socket meanwhile, and
a Critical message would wait behind replies of lower priority. So pushes and replies wait in a queue, those of one
commit before those of the next. Critical pushes and receipts bypass it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from tocsin.core.commands import Delivery, Receipt, Reply
from tocsin.core.protocol.priority import PRIORITY_NAMES, Priority

__all__ = ["OutgoingQueue", "Sink"]

_log = logging.getLogger(__name__)
#: Names of the priorities that do not wait in the queue.
_URGENT = frozenset(PRIORITY_NAMES[Priority.CRITICAL :])

#: Takes what is pushed to a session.
Sink = Callable[[Delivery], None]
Item = tuple["asyncio.Future[Reply]", Reply] | tuple[Sink, Delivery]


class OutgoingQueue:
    """Sends pushes and replies, up to `batch_max` of them in one iteration of the event loop."""

    __slots__ = ("_batch_max", "_items", "_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop, batch_max: Callable[[], int]) -> None:
        self._loop = loop
        self._batch_max = batch_max
        self._items: deque[Item] = deque()
        self._scheduled = False

    @property
    def idle(self) -> bool:
        """Tell whether everything has been sent."""
        return not self._items

    def add(
        self, pushes: Iterable[tuple[Sink, Delivery]], replies: Iterable[tuple["asyncio.Future[Reply]", Reply]]
    ) -> None:
        """Send what is Critical now, and queue the rest."""
        queue = self._items.append
        for push in pushes:
            if push[1].priority >= Priority.CRITICAL:
                _push(*push)
            else:
                queue(push)
        for answer in replies:
            reply = answer[1]
            if type(reply) is Receipt and reply.priority in _URGENT:
                _reply(answer[0], reply)
            else:
                queue(answer)
        if not self._scheduled:
            self._send_batch()

    def _send_batch(self) -> None:
        items = self._items
        for _ in range(min(self._batch_max(), len(items))):
            to, content = items.popleft()
            if type(content) is Delivery:
                _push(to, content)  # type: ignore[arg-type]
            else:
                _reply(to, content)  # type: ignore[arg-type]
        self._scheduled = bool(items)
        if items:
            self._loop.call_soon(self._send_batch)


def _push(sink: Sink, push: Delivery) -> None:
    try:
        sink(push)
    except Exception:
        # A receiver that fails never confirms, so the message is offered again.
        _log.exception("pushing %s failed", push.signal_id)


def _reply(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)

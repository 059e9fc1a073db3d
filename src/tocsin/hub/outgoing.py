"""What has become durable and is on its way out: so much of it in one turn of the loop, the urgent first.

A commit may hold a thousand commands. A loop that answered all of them at once would look at no socket meanwhile, and a
Critical message would wait on both ends for what is merely polite. So pushes and replies stand in line, those of one
commit before those of the next; what is Critical does not stand in it.
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
Word = tuple["asyncio.Future[Reply]", Reply] | tuple[Sink, Delivery]


class OutgoingQueue:
    """Lets pushes and replies go, so many in one turn of the loop."""

    __slots__ = ("_line", "_loop", "_turn_max", "_turning")

    def __init__(self, loop: asyncio.AbstractEventLoop, turn_max: Callable[[], int]) -> None:
        self._loop = loop
        self._turn_max = turn_max
        self._line: deque[Word] = deque()
        self._turning = False

    @property
    def idle(self) -> bool:
        """Tell whether everything has been said."""
        return not self._line

    def say(
        self, pushes: Iterable[tuple[Sink, Delivery]], replies: Iterable[tuple["asyncio.Future[Reply]", Reply]]
    ) -> None:
        """Let what is urgent go now, and the rest as its turn comes."""
        stand = self._line.append
        for push in pushes:
            if push[1].priority >= Priority.CRITICAL:
                _push(*push)
            else:
                stand(push)
        for answer in replies:
            reply = answer[1]
            if type(reply) is Receipt and reply.priority in _URGENT:
                _reply(answer[0], reply)
            else:
                stand(answer)
        if not self._turning:
            self._go_on()

    def _go_on(self) -> None:
        line = self._line
        for _ in range(min(self._turn_max(), len(line))):
            to, word = line.popleft()
            if type(word) is Delivery:
                _push(to, word)  # type: ignore[arg-type]
            else:
                _reply(to, word)  # type: ignore[arg-type]
        self._turning = bool(line)
        if line:
            self._loop.call_soon(self._go_on)


def _push(sink: Sink, push: Delivery) -> None:
    try:
        sink(push)
    except Exception:
        # A receiver that fails is a receiver that never confirms: its offer comes back by itself.
        _log.exception("pushing %s failed", push.signal_id)


def _reply(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not future.done():
        future.set_result(reply)

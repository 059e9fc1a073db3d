"""Queue of durable replies and pushes: a limited number per iteration of the event loop, Critical ones at once.

A commit may hold a thousand commands. If the loop answered all of them at once, it would read no socket meanwhile, and
a Critical message would wait behind replies of lower priority. So pushes and replies wait in a queue, those of one
commit before those of the next. Critical pushes and receipts bypass it.

The lists of a group are queued as they are, with a place in them, and a receipt gets its durability when it is sent,
unless it was made with that one. The replies to messages that were sent together are given to one `Batch`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Union

import msgspec

from tocsin.core.commands import BroadcastReceipt, Delivery, Published, Receipt, Reply, Requested
from tocsin.core.errors import Problem
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.priority import PRIORITY_NAMES, Priority
from tocsin.journal.base import Commit

__all__ = ["Answer", "Batch", "OutgoingQueue", "Part", "Push", "Sink", "Waiter"]

_log = logging.getLogger(__name__)
#: Names of the priorities that do not wait in the queue.
_URGENT = frozenset(PRIORITY_NAMES[Priority.CRITICAL :])
_CRITICAL = int(Priority.CRITICAL)

#: Takes what is pushed to a session.
Sink = Callable[[Delivery], None]
Push = tuple[Sink, Delivery]


class Part(msgspec.Struct, gc=False):
    """Replies to some messages of a batch that follow each other."""

    #: Place of the first one in the batch.
    begin: int
    replies: list[Reply]


class Batch:
    """Messages that were sent together; their one future holds all replies, in order."""

    __slots__ = ("_left", "_replies", "future", "messages", "place")

    def __init__(self, messages: "list[Envelope | Problem]", future: "asyncio.Future[list[Reply]]") -> None:
        #: What was sent; a problem in the place of a message that cannot be read, null after one was decided early.
        self.messages: list[Envelope | Problem | None] = [*messages]
        self.future = future
        #: Number of messages whose turn is over.
        self.place = 0
        self._replies: list[Reply | None] = [None] * len(messages)
        self._left = len(messages)

    def done(self) -> bool:
        """Tell whether nobody waits for replies any more, or all have been given."""
        return self.future.done()

    def set_result(self, reply: "Reply | Part") -> None:
        """Take the replies to a part, or a problem that all messages without a reply have."""
        replies = self._replies
        if isinstance(reply, Part):
            replies[reply.begin : reply.begin + len(reply.replies)] = reply.replies
            self._left -= len(reply.replies)
            if self._left:
                return
        self.future.set_result([reply if found is None else found for found in replies])


#: Whoever waits for a reply.
Waiter = Union["asyncio.Future[Reply]", Batch]
Answer = tuple[Waiter, Reply | Part]


class _Durable:
    """Pushes and replies of one commit, and how many of each have been sent."""

    __slots__ = ("commit", "place", "pushes", "replies")

    def __init__(self, pushes: list[Push], replies: list[Answer], commit: Commit) -> None:
        self.pushes = pushes
        self.replies = replies
        self.commit = commit
        #: Number of pushes and replies that have been sent, pushes first.
        self.place = 0


class OutgoingQueue:
    """Sends pushes and replies, up to `batch_max` of them in one iteration of the event loop."""

    __slots__ = ("_batch_max", "_groups", "_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop, batch_max: Callable[[], int]) -> None:
        self._loop = loop
        self._batch_max = batch_max
        self._groups: deque[_Durable] = deque()
        self._scheduled = False

    @property
    def idle(self) -> bool:
        """Tell whether everything has been sent."""
        return not self._groups

    def add(self, pushes: list[Push], replies: list[Answer], commit: Commit) -> None:
        """Send what is Critical, and then what the queue allows; a commit made it durable."""
        self.queue(pushes, replies, commit)
        self.send()

    def queue(self, pushes: list[Push], replies: list[Answer], commit: Commit) -> None:
        """Send what is Critical now, and queue the rest until `send` is called."""
        urgent = [push for push in pushes if push[1].priority >= _CRITICAL]
        if urgent:
            pushes = [push for push in pushes if push[1].priority < _CRITICAL]
            _push(urgent, 0, len(urgent))
        answers = [answer for answer in replies if type(answer[1]) is Receipt and answer[1].priority in _URGENT]
        if answers:
            replies = [
                answer for answer in replies if type(answer[1]) is not Receipt or answer[1].priority not in _URGENT
            ]
            _reply(answers, 0, len(answers), commit)
        if len(pushes) > 1:
            pushes.sort(key=_sink_of)
        if pushes or replies:
            self._groups.append(_Durable(pushes, replies, commit))

    def send(self) -> None:
        """Send from the queue, unless that is due in the next iteration."""
        if self._groups and not self._scheduled:
            self._send_batch()

    def _send_batch(self) -> None:
        self._scheduled = False
        groups, room = self._groups, self._batch_max()
        while groups and room > 0:
            group = groups[0]
            begin, pushed = group.place, len(group.pushes)
            end = min(begin + room, pushed + len(group.replies))
            room -= end - begin
            group.place = end
            # It is taken out before anything is called, which may add another group.
            if end == pushed + len(group.replies):
                groups.popleft()
            if begin < pushed:
                _push(group.pushes, begin, min(end, pushed))
            if end > pushed:
                _reply(group.replies, max(begin - pushed, 0), end - pushed, group.commit)
        if groups and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send_batch)


def _sink_of(push: Push) -> int:
    """Return a key that is the same for all pushes of one receiver, so that they leave in one turn."""
    return id(push[0])


def _push(pushes: list[Push], begin: int, end: int) -> None:
    for sink, push in pushes[begin:end]:
        try:
            sink(push)
        except Exception:
            # A receiver that fails never confirms, so the message is offered again.
            _log.exception("pushing %s failed", push.signal_id)


def _reply(replies: list[Answer], begin: int, end: int, commit: Commit) -> None:
    durability, copies = commit.durability, commit.copies
    waiter: Any
    for waiter, reply in replies[begin:end]:
        if not waiter.done():
            if type(reply) is Receipt and reply.durability == durability and reply.copies == copies:
                waiter.set_result(reply)
            elif type(reply) is Part:
                waiter.set_result(Part(reply.begin, [_with_durability(one, commit) for one in reply.replies]))
            else:
                waiter.set_result(_with_durability(reply, commit))


def _with_durability(reply: Reply, commit: Commit) -> Reply:
    """Add durability and copy count to the receipts of a reply."""
    if type(reply) is Receipt:
        return _durable_receipt(reply, commit)
    if type(reply) is BroadcastReceipt or type(reply) is Published:
        receipts = tuple([_durable_receipt(receipt, commit) for receipt in reply.receipts])
        return msgspec.structs.replace(reply, receipts=receipts)
    if type(reply) is Requested:
        return msgspec.structs.replace(reply, receipt=_durable_receipt(reply.receipt, commit))
    return reply


def _durable_receipt(receipt: Receipt, commit: Commit) -> Receipt:
    if receipt.durability == commit.durability and receipt.copies == commit.copies:
        return receipt
    return msgspec.structs.replace(receipt, durability=commit.durability, copies=commit.copies)

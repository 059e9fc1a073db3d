"""Per-agent mailboxes: the queued messages of one agent, in delivery order.

Theory of operation. The order is: highest level; then overdue before others, up to the level at which aging ends; then
highest current importance; then fewest attempts; then oldest. There is one heap per level and *class*, a class being
messages whose relative order does not change with time: those of one importance and decay rate. Without decay, or with
one rate for all, that is one heap per level; otherwise the heads of a level's few classes are compared. A key packs
attempts and sequence number into one integer, and for a decaying class the enqueueing time before them, newest first,
because the younger of two messages that decay alike is the more important one.

Removing a message only decrements the count: its entry stays until it reaches the head, or until dead entries outnumber
live ones and the level is swept. Entries are plain integers, so the garbage collector does not scan them.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from tocsin.core.errors import InvariantViolation
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.policy import Decay
from tocsin.core.protocol.priority import Priority
from tocsin.core.queueing.decay import current_importance, stale_at

__all__ = ["Mailbox", "rank"]

_QUEUED: Final = State.QUEUED
_SEQ_BITS: Final = 48
_SEQ_MASK: Final = (1 << _SEQ_BITS) - 1
_ATTEMPT_BITS: Final = 12
_TIME_SHIFT: Final = _SEQ_BITS + _ATTEMPT_BITS
#: A time later than any clock, microseconds; newest-first keys count down from it.
_END_OF_TIME: Final = 1 << 56
#: Class of overdue messages, and the attempts field of their keys, which no other key has.
_OVERDUE: Final = -1
_OVERDUE_ATTEMPTS: Final = (1 << _ATTEMPT_BITS) - 1
#: A level is swept once dead entries exceed live ones by this many.
_SLACK: Final = 64


def rank(message: Message, now: int, decay: Decay, top: int) -> tuple[int, bool, float, int, int]:
    """Return the sort key of the delivery order, smallest first; the heaps must agree with it.

    `top` is the level at which aging ends: above it, an overdue message has no precedence.
    """
    if message.overdue and message.level <= top:
        return (-message.level, False, 0.0, 0, message.seq)
    return (-message.level, True, -current_importance(message, now, decay), message.attempts, message.seq)


def _class_of(message: Message, top: int) -> float:
    if message.overdue and message.level <= top:
        return _OVERDUE
    return message.importance + message.decay_rate / 2


def _key_of(message: Message, top: int) -> int:
    if message.overdue and message.level <= top:
        return (_OVERDUE_ATTEMPTS << _SEQ_BITS) | message.seq
    key = (min(message.attempts, _OVERDUE_ATTEMPTS - 1) << _SEQ_BITS) | message.seq
    if message.decay_rate:
        key |= (_END_OF_TIME - message.enqueued_at) << _TIME_SHIFT
    return key


def _is_current(message: Message, level: int, key: int, top: int) -> bool:
    """Return whether a heap entry is the current entry of a message."""
    return (
        message.state is _QUEUED and not message.backing_off and message.level == level and _key_of(message, top) == key
    )


def _is_live(message: Message, now: int, decay: Decay) -> bool:
    """Return whether a message may still be delivered."""
    stale = stale_at(message, decay)
    return now <= message.expires_at and (stale is None or now <= stale)


class _Level:
    """The heaps of one priority level."""

    __slots__ = ("classes", "entries", "live", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.classes: dict[float, list[int]] = {}
        self.entries = 0
        self.live = 0


class Mailbox:
    """The queued messages of one agent."""

    __slots__ = ("_falling", "_levels", "_messages", "_top", "depth")

    def __init__(self, messages: dict[int, Message], top: int) -> None:
        self._messages = messages
        #: Level at which aging ends.
        self._top = top
        self._levels = [_Level(number) for number in Priority]
        #: The levels, highest first.
        self._falling = self._levels[::-1]
        #: Number of queued messages, retries in backoff not counted.
        self.depth = 0

    def depths(self) -> tuple[int, ...]:
        """Return the number of queued messages by level."""
        return tuple([level.live for level in self._levels])

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the queued messages by level, in no particular order within a level."""
        for level in self._falling:
            yield from self._of(level)

    def _of(self, level: _Level) -> Iterator[Message]:
        for heap in level.classes.values():
            for key in heap:
                message = self._messages.get(key & _SEQ_MASK)
                if message is not None and _is_current(message, level.number, key, self._top):
                    yield message

    def first(self, number: int, at_least: int, now: int, decay: Decay) -> list[Message]:
        """Return the first messages of a level or above, in delivery order."""
        found: list[Message] = []
        for level in self._falling:
            if level.number < at_least or len(found) >= number:
                break
            waiting = [message for message in self._of(level) if _is_live(message, now, decay)]
            waiting.sort(key=lambda message: rank(message, now, decay, self._top))
            found += waiting[: number - len(found)]
        return found

    def add(self, message: Message) -> None:
        """Add a queued message."""
        level = self._levels[message.level]
        if message.overdue or message.attempts or message.decay_rate:
            name, key = _class_of(message, self._top), _key_of(message, self._top)
        else:
            name, key = float(message.importance), message.seq
        heap = level.classes.get(name)
        if heap is None:
            level.classes[name] = [key]
        else:
            heapq.heappush(heap, key)
        level.entries += 1
        level.live += 1
        self.depth += 1

    def remove(self, message: Message) -> None:
        """Remove a message; call it before its level or state changes."""
        level = self._levels[message.level]
        level.live -= 1
        self.depth -= 1
        if not level.live:
            level.classes.clear()
            level.entries = 0
        elif level.entries > 2 * level.live + _SLACK:
            self._sweep(level)

    def head(self, now: int, decay: Decay) -> Message | None:
        """Return the next message in delivery order."""
        for level in self._falling:
            if level.live:
                if len(level.classes) == 1:
                    (heap,) = level.classes.values()
                    message = self._head(level, heap)
                    if message is not None:
                        return message
                return self._best(level, now, decay)
        return None

    def _best(self, level: _Level, now: int, decay: Decay) -> Message:
        best: Message | None = None
        for name in list(level.classes):
            head = self._head(level, level.classes[name])
            if head is None:
                del level.classes[name]
            elif best is None or rank(head, now, decay, self._top) < rank(best, now, decay, self._top):
                best = head
        if best is None:
            raise InvariantViolation(f"level {level.number} should have {level.live} messages and has none")
        return best

    def _head(self, level: _Level, heap: list[int]) -> Message | None:
        while heap:
            message = self._messages.get(heap[0] & _SEQ_MASK)
            if message is not None and _is_current(message, level.number, heap[0], self._top):
                return message
            heapq.heappop(heap)
            level.entries -= 1
        return None

    def _sweep(self, level: _Level) -> None:
        messages, classes = self._messages, level.classes
        level.entries = 0
        for name in list(classes):
            alive = {
                key
                for key in classes[name]
                if (message := messages.get(key & _SEQ_MASK)) is not None
                and _is_current(message, level.number, key, self._top)
            }
            if alive:
                classes[name] = sorted(alive)
                level.entries += len(alive)
            else:
                del classes[name]

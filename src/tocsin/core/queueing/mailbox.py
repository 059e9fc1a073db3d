"""What waits for one agent, in delivery order.

Theory of operation. The order is: highest level; then overdue before others; then highest current importance; then
fewest attempts; then oldest. There is one heap per level and *class*, a class being the messages whose mutual order
time does not change: those of one importance and decay rate. Without decay, or with one rate for all, that is one heap
per level; otherwise the heads of a level's few classes are compared. A key packs attempts and sequence number into one
integer, and for a decaying class the enqueueing time before them, newest first, because the younger of two messages
that decay alike is the more important one.

Taking a message out only counts it out: its entry stays until it comes to the head, or until more entries are dead than
alive and the level is swept. Entries are plain integers, so the garbage collector has nothing to look at.
"""

import heapq
from collections.abc import Iterator

from tocsin.core.errors import InvariantViolation
from tocsin.core.messages.model import Message, State
from tocsin.core.policy import Decay
from tocsin.core.protocol.priority import Priority
from tocsin.core.queueing.decay import current_importance

__all__ = ["Mailbox", "rank"]

_SEQ_BITS = 48
_SEQ_MASK = (1 << _SEQ_BITS) - 1
_ATTEMPT_BITS = 12
_TIME_SHIFT = _SEQ_BITS + _ATTEMPT_BITS
#: Later than any clock: what newest-first counts down from, microseconds.
_END_OF_TIME = 1 << 56
#: The class of overdue messages, and the attempts that their keys pretend, so that no other key is theirs.
_OVERDUE = -1
_OVERDUE_ATTEMPTS = (1 << _ATTEMPT_BITS) - 1
#: A level is swept once it holds this many dead entries more than live ones.
_SLACK = 64


def rank(message: Message, now: int, decay: Decay) -> tuple[int, bool, float, int, int]:
    """Return what the delivery order sorts by, smallest first: the definition that the heaps must agree with."""
    if message.overdue:
        return (-message.level, False, 0.0, 0, message.seq)
    return (-message.level, True, -current_importance(message, now, decay), message.attempts, message.seq)


def _class_of(message: Message) -> float:
    if message.overdue:
        return _OVERDUE
    return message.importance + message.decay_rate / 2


def _key_of(message: Message) -> int:
    if message.overdue:
        return (_OVERDUE_ATTEMPTS << _SEQ_BITS) | message.seq
    key = (min(message.attempts, _OVERDUE_ATTEMPTS - 1) << _SEQ_BITS) | message.seq
    if message.decay_rate:
        key |= (_END_OF_TIME - message.enqueued_at) << _TIME_SHIFT
    return key


def _is_current(message: Message, level: int, key: int) -> bool:
    """Tell whether a heap entry is a message's present place."""
    return (
        message.state is State.QUEUED and not message.backing_off and message.level == level and _key_of(message) == key
    )


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

    __slots__ = ("_levels", "_messages", "depth")

    def __init__(self, messages: dict[int, Message]) -> None:
        self._messages = messages
        self._levels = [_Level(number) for number in Priority]
        #: Messages that wait, retries in backoff not counted.
        self.depth = 0

    def depths(self) -> tuple[int, ...]:
        """Count what waits, by level."""
        return tuple(level.live for level in self._levels)

    def __iter__(self) -> Iterator[Message]:
        """Go through what waits, by level, in no particular order within one."""
        for level in reversed(self._levels):
            for heap in level.classes.values():
                for key in heap:
                    message = self._messages.get(key & _SEQ_MASK)
                    if message is not None and _is_current(message, level.number, key):
                        yield message

    def add(self, message: Message) -> None:
        """Put a queued message in its place."""
        level = self._levels[message.level]
        heap = level.classes.get(_class_of(message))
        if heap is None:
            heap = level.classes[_class_of(message)] = []
        heapq.heappush(heap, _key_of(message))
        level.entries += 1
        level.live += 1
        self.depth += 1

    def remove(self, message: Message) -> None:
        """Count a message out; call it before its level or state changes."""
        level = self._levels[message.level]
        level.live -= 1
        self.depth -= 1
        if not level.live:
            level.classes.clear()
            level.entries = 0
        elif level.entries > 2 * level.live + _SLACK:
            self._sweep(level)

    def head(self, now: int, decay: Decay) -> Message | None:
        """Return the message that goes next."""
        for level in reversed(self._levels):
            if level.live:
                return self._best(level, now, decay)
        return None

    def _best(self, level: _Level, now: int, decay: Decay) -> Message:
        best: Message | None = None
        for name in list(level.classes):
            head = self._head(level, level.classes[name])
            if head is None:
                del level.classes[name]
            elif best is None or rank(head, now, decay) < rank(best, now, decay):
                best = head
        if best is None:
            raise InvariantViolation(f"level {level.number} counts {level.live} messages and holds none")
        return best

    def _head(self, level: _Level, heap: list[int]) -> Message | None:
        while heap:
            message = self._messages.get(heap[0] & _SEQ_MASK)
            if message is not None and _is_current(message, level.number, heap[0]):
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
                if (message := messages.get(key & _SEQ_MASK)) is not None and _is_current(message, level.number, key)
            }
            if alive:
                classes[name] = sorted(alive)
                level.entries += len(alive)
            else:
                del classes[name]

"""Timer wheels of a project, and the time at which the next timer is due.

A `Wheel` keeps keys in slots of one granularity: scheduling and cancelling are one set operation each, so a message
that ends early leaves nothing behind. A slot fires when it is over, so a timer is late by less than its wheel's
granularity and never early. Wheels are an index over the state, not part of it: the code that handles a fired key
checks again whether it is due.
"""

import heapq
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

from tocsin.core.policy import Policy

__all__ = ["Timers", "Wheel", "earliest"]

#: A time after all others.
_NEVER: Final = 1 << 61

Key = TypeVar("Key", int, str)


class Wheel(Generic[Key]):
    """Keys in slots by due time."""

    __slots__ = ("granularity_us", "order", "ripe", "slots")

    def __init__(self, granularity_us: int) -> None:
        self.granularity_us = granularity_us
        #: Keys by the time at which their slot is over: a time, because a number would have to be multiplied, which
        #: takes long in the compiled form.
        self.slots: dict[int, set[Key]] = {}
        #: Times at which the slots are over, as a heap.
        self.order: list[int] = []
        #: Keys of a slot that has fired, last first.
        self.ripe: list[Key] = []

    def schedule(self, key: Key, due: int) -> None:
        """Fire `key` once `due` has passed."""
        over = due - due % self.granularity_us + self.granularity_us
        slot = self.slots.get(over)
        if slot is None:
            self.slots[over] = {key}
            heapq.heappush(self.order, over)
        else:
            slot.add(key)

    def cancel(self, key: Key, due: int) -> None:
        """Remove `key`, if it is still in the slot of `due`."""
        slot = self.slots.get(due - due % self.granularity_us + self.granularity_us)
        if slot is not None:
            slot.discard(key)

    def next_due(self) -> int | None:
        """Return when the earliest slot fires; 0 while keys of a fired slot remain."""
        if self.ripe:
            return 0
        order = self.order
        while order and not self.slots[order[0]]:
            del self.slots[heapq.heappop(order)]
        return order[0] if order else None

    def pop(self, now: int) -> Key | None:
        """Remove and return one key that is due, smallest first within its slot."""
        due = self.next_due()
        if due is None or due > now:
            return None
        if not self.ripe:
            self.ripe = sorted(self.slots.pop(heapq.heappop(self.order)), reverse=True)
        return self.ripe.pop()

    def __iter__(self) -> Iterator[Key]:
        yield from self.ripe
        for slot in self.slots.values():
            yield from slot


class Timers:
    """The wheels of one project, one for each kind of timer."""

    __slots__ = (
        "_all",
        "acks",
        "aging",
        "backoff",
        "dead",
        "deadlines",
        "decay",
        "escalation",
        "expiry",
        "lease_waits",
        "leases",
        "receipts",
        "sessions",
        "wake_blocked",
        "wake_due",
    )

    def __init__(self, policy: Policy) -> None:
        near = policy.timers.granularity_us
        #: Offers whose receipt is due.
        self.receipts: Wheel[int] = Wheel(near)
        #: Deliveries whose ACK is due.
        self.acks: Wheel[int] = Wheel(near)
        #: Retries whose backoff ends.
        self.backoff: Wheel[int] = Wheel(near)
        #: Queued messages that aging raises.
        self.aging: Wheel[int] = Wheel(near)
        #: Queued messages to escalate for their time in the queue.
        self.escalation: Wheel[int] = Wheel(near)
        #: Sessions that become stale or lapse.
        self.sessions: Wheel[str] = Wheel(near)
        #: Leases to warn about or to end.
        self.leases: Wheel[str] = Wheel(near)
        #: Lease requests whose waiting time ends.
        self.lease_waits: Wheel[str] = Wheel(near)
        #: Deadlines of coordination objects, as `kind name`.
        self.deadlines: Wheel[str] = Wheel(near)
        #: Queued messages whose TTL ends.
        self.expiry: Wheel[int] = Wheel(policy.sweeper.interval_us)
        #: Queued messages whose importance falls below the stale threshold.
        self.decay: Wheel[int] = Wheel(policy.decay.sweep_interval_us)
        #: Dead letters to purge.
        self.dead: Wheel[int] = Wheel(policy.sweeper.interval_us)

        #: Earliest scheduled check of each agent that may have to be woken.
        self.wake_due: dict[str, int] = {}
        #: Agents to check again once another wake has ended.
        self.wake_blocked: dict[str, None] = {}

        self._all: tuple[Wheel[int] | Wheel[str], ...] = (
            *(self.receipts, self.acks, self.backoff, self.aging, self.escalation, self.sessions, self.leases),
            *(self.lease_waits, self.deadlines, self.expiry, self.decay, self.dead),
        )

    def enqueue(self, seq: Any, expires_at: int, boost: int | None, escalation: int | None) -> None:
        """Schedule the timers of a queued message: its expiry and, if it has them, its next boost and its escalation.

        What `Wheel.schedule` does for each, without its calls: every message passes here.
        """
        wheel = self.expiry
        slot = wheel.slots.get(expires_at - expires_at % wheel.granularity_us + wheel.granularity_us)
        if slot is None:
            wheel.schedule(seq, expires_at)
        else:
            slot.add(seq)
        if boost is not None:
            wheel = self.aging
            slot = wheel.slots.get(boost - boost % wheel.granularity_us + wheel.granularity_us)
            if slot is None:
                wheel.schedule(seq, boost)
            else:
                slot.add(seq)
        if escalation is not None:
            self.escalation.schedule(seq, escalation)

    def dequeue(self, seq: Any, expires_at: int, boost: int | None, escalation: int | None) -> None:
        """Cancel the timers of a queued message."""
        wheel = self.expiry
        slot = wheel.slots.get(expires_at - expires_at % wheel.granularity_us + wheel.granularity_us)
        if slot is not None:
            slot.discard(seq)
        if boost is not None:
            wheel = self.aging
            slot = wheel.slots.get(boost - boost % wheel.granularity_us + wheel.granularity_us)
            if slot is not None:
                slot.discard(seq)
        if escalation is not None:
            self.escalation.cancel(seq, escalation)

    def next_due(self) -> int | None:
        """Return the earliest time at which anything is due."""
        soonest: int | None = None
        for wheel in self._all:
            if wheel.ripe:
                return 0
            order = wheel.order
            if not order:
                continue
            # What `Wheel.next_due` returns, called only if the earliest slot is empty.
            due = order[0] if wheel.slots[order[0]] else wheel.next_due()
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest

    def not_before(self) -> int:
        """Return a time before which `next_due` cannot be; it may be earlier, because empty slots count as well."""
        soonest = _NEVER
        for wheel in self._all:
            if wheel.ripe:
                return 0
            order = wheel.order
            if order and order[0] < soonest:
                soonest = order[0]
        return soonest


def earliest(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two times; null means never."""
    if one is None or (other is not None and other < one):
        return other
    return one

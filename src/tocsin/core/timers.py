"""Timer wheels of a project, and the time at which the next timer is due.

A `Wheel` keeps keys in slots of one granularity: scheduling and cancelling are one set operation each, so a message
that ends early leaves nothing behind. A slot fires when it is over, so a timer is late by less than its wheel's
granularity and never early. Wheels are an index over the state, not part of it: the code that handles a fired key
checks again whether it is due.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from tocsin.core.policy import Policy

__all__ = ["Timers", "Wheel", "earliest"]

Key = TypeVar("Key", int, str)


class Wheel(Generic[Key]):
    """Keys in slots by due time."""

    __slots__ = ("_granularity_us", "_order", "_ripe", "_slots")

    def __init__(self, granularity_us: int) -> None:
        self._granularity_us = granularity_us
        self._slots: dict[int, set[Key]] = {}
        self._order: list[int] = []
        self._ripe: list[Key] = []

    def schedule(self, key: Key, due: int) -> None:
        """Fire `key` once `due` has passed."""
        number = due // self._granularity_us
        slot = self._slots.get(number)
        if slot is None:
            self._slots[number] = {key}
            heapq.heappush(self._order, number)
        else:
            slot.add(key)

    def cancel(self, key: Key, due: int) -> None:
        """Remove `key`, if it is still in the slot of `due`."""
        slot = self._slots.get(due // self._granularity_us)
        if slot is not None:
            slot.discard(key)

    def next_due(self) -> int | None:
        """Return when the earliest slot fires; 0 while keys of a fired slot remain."""
        if self._ripe:
            return 0
        order = self._order
        while order and not self._slots[order[0]]:
            del self._slots[heapq.heappop(order)]
        return (order[0] + 1) * self._granularity_us if order else None

    def pop(self, now: int) -> Key | None:
        """Remove and return one key that is due, smallest first within its slot."""
        due = self.next_due()
        if due is None or due > now:
            return None
        if not self._ripe:
            self._ripe = sorted(self._slots.pop(heapq.heappop(self._order)), reverse=True)
        return self._ripe.pop()

    def __iter__(self) -> Iterator[Key]:
        yield from self._ripe
        for slot in self._slots.values():
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

        self._all: tuple[Wheel[int] | Wheel[str], ...] = (
            *(self.receipts, self.acks, self.backoff, self.aging, self.escalation, self.sessions, self.leases),
            *(self.lease_waits, self.deadlines, self.expiry, self.decay, self.dead),
        )

    def next_due(self) -> int | None:
        """Return the earliest time at which anything is due."""
        soonest: int | None = None
        for wheel in self._all:
            due = wheel.next_due()
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest


def earliest(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two times; null means never."""
    if one is None or (other is not None and other < one):
        return other
    return one

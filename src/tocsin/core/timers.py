"""Everything that is to happen later, as one thing that says when it is next due.

A `Wheel` keeps keys in slots of one granularity: scheduling and cancelling are one set operation each, so a message
that ends before its time leaves nothing behind. A slot fires when it is over, so a timer is late by less than its
wheel's granularity and never early. Wheels are an index over the state, not part of it: whoever handles a fired key
looks again whether it is really due.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from tocsin.core.policy import Policy

__all__ = ["Timers", "Wheel", "earliest"]

Key = TypeVar("Key", int, str)


class Wheel(Generic[Key]):
    """Keys by when they are due, in slots."""

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
        """Forget `key`, if it still waits in the slot of `due`."""
        slot = self._slots.get(due // self._granularity_us)
        if slot is not None:
            slot.discard(key)

    def next_due(self) -> int | None:
        """Return when the earliest slot fires; in the past where ripe keys wait."""
        if self._ripe:
            return 0
        order = self._order
        while order and not self._slots[order[0]]:
            del self._slots[heapq.heappop(order)]
        return (order[0] + 1) * self._granularity_us if order else None

    def pop(self, now: int) -> Key | None:
        """Take one key that is due, smallest first within its slot."""
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
    """The wheels of one project, one per reason to come back."""

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
        #: Offers whose receipt is overdue.
        self.receipts: Wheel[int] = Wheel(near)
        #: Deliveries whose ACK is overdue.
        self.acks: Wheel[int] = Wheel(near)
        #: Retries whose backoff is over.
        self.backoff: Wheel[int] = Wheel(near)
        #: Queued messages that have waited long enough for a boost.
        self.aging: Wheel[int] = Wheel(near)
        #: Queued messages that have waited too long for their priority.
        self.escalation: Wheel[int] = Wheel(near)
        #: Sessions to look at: stale, or lapsed.
        self.sessions: Wheel[str] = Wheel(near)
        #: Leases to look at: their holders to be warned, or over.
        self.leases: Wheel[str] = Wheel(near)
        #: Requests for leases that have waited as long as they would.
        self.lease_waits: Wheel[str] = Wheel(near)
        #: What a team coordinates by, as `kind name`: each waits for one moment.
        self.deadlines: Wheel[str] = Wheel(near)
        #: Queued messages whose TTL is over: SPEC-071's sweeper.
        self.expiry: Wheel[int] = Wheel(policy.sweeper.interval_us)
        #: Queued messages whose importance has decayed away: DECAY's background task.
        self.decay: Wheel[int] = Wheel(policy.decay.sweep_interval_us)
        #: Dead letters that nobody redrove in time.
        self.dead: Wheel[int] = Wheel(policy.sweeper.interval_us)

        self._all: tuple[Wheel[int] | Wheel[str], ...] = (
            *(self.receipts, self.acks, self.backoff, self.aging, self.escalation, self.sessions, self.leases),
            *(self.lease_waits, self.deadlines, self.expiry, self.decay, self.dead),
        )

    def next_due(self) -> int | None:
        """Return the earliest moment at which anything is due."""
        soonest: int | None = None
        for wheel in self._all:
            due = wheel.next_due()
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest


def earliest(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two moments, either of which may never come."""
    if one is None or (other is not None and other < one):
        return other
    return one

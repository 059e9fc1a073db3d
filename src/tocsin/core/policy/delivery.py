"""How messages reach who is there, how waiting raises them, and how long what has ended is remembered."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Pause, Retries, Seconds, microseconds
from tocsin.core.protocol.priority import Priority

__all__ = ["Aging", "Delivery", "Retention", "Routing", "Sessions", "Sweeper", "TimerPolicy"]


class Sessions(Concern, frozen=True):
    """How long a session counts as there."""

    #: A heartbeat older than this makes a session stale, seconds (SPEC-071 §4.1).
    stale_after_s: Seconds
    #: A heartbeat older than this ends the session, seconds.
    lapse_after_s: Seconds
    #: Heartbeats closer together than this are one, seconds.
    heartbeat_record_s: Pause
    #: Whether the bus tells all who are attached when a peer comes or goes: one message each.
    announce: bool

    @cached_property
    def stale_after_us(self) -> int:
        """Return the staleness threshold in microseconds."""
        return microseconds(self.stale_after_s)

    @cached_property
    def lapse_after_us(self) -> int:
        """Return the lapse threshold in microseconds."""
        return microseconds(self.lapse_after_s)

    @cached_property
    def heartbeat_record_us(self) -> int:
        """Return the recording interval in microseconds."""
        return microseconds(self.heartbeat_record_s)


class Delivery(Concern, frozen=True):
    """How offers are confirmed."""

    #: Time for the receipt of an offer by kind of session, seconds, where the contract names none.
    receipt_timeout_s: dict[str, Seconds]
    #: Offers without receipt before a message is dead, where the contract names none (APM §3.5).
    channel_retries_max: Retries
    #: Waits before the next offer, seconds; the last repeats.
    channel_backoff_s: list[Seconds]
    #: Offers without receipt at a time, for a push session that does not say; a piggyback session takes whole drains.
    window_default: Count
    #: What to tell a caller whom only time can help, seconds.
    retry_hint_s: Seconds

    @cached_property
    def receipt_timeout_us(self) -> dict[str, int]:
        """Return the receipt timeouts in microseconds."""
        return {kind: microseconds(timeout_s) for kind, timeout_s in self.receipt_timeout_s.items()}


class Aging(Concern, frozen=True):
    """How waiting raises a message."""

    #: Off leaves strict priorities, and starvation possible.
    enabled: bool
    #: Each time a message has waited this long again, it rises, seconds.
    threshold_s: Seconds
    #: By how many levels it rises.
    boost_levels: Annotated[int, Meta(ge=1, le=3)]

    @cached_property
    def threshold_us(self) -> int:
        """Return the threshold in microseconds."""
        return microseconds(self.threshold_s)

    @cached_property
    def boosts_to_front(self) -> tuple[int, ...]:
        """Return, for each priority, the boosts that bring it to Critical and the one more to the front of it."""
        return tuple(-(-max(0, Priority.CRITICAL - level) // self.boost_levels) + 1 for level in Priority)

    def bound_us(self, priority: int) -> int:
        """Return after how long only older overdue messages and overrides can precede such a message."""
        return self.boosts_to_front[priority] * self.threshold_us


class Sweeper(Concern, frozen=True):
    """SPEC-071's sweeper."""

    #: How often expired messages are stamped, seconds; none is handed out in between (SPEC-071 §9).
    interval_s: Seconds

    @cached_property
    def interval_us(self) -> int:
        """Return the interval in microseconds."""
        return microseconds(self.interval_s)


class TimerPolicy(Concern, frozen=True):
    """How exact the short timers are."""

    #: A receipt, ACK, backoff, aging or session timer is late by less than this, seconds.
    granularity_s: Seconds

    @cached_property
    def granularity_us(self) -> int:
        """Return the granularity in microseconds."""
        return microseconds(self.granularity_s)


class Retention(Concern, frozen=True):
    """How long the live state remembers what has ended; the journal keeps its own time."""

    #: Ended messages answer duplicates, recalls and late confirmations for this long, seconds.
    settled_s: Seconds
    #: Most ended messages remembered.
    settled_max: Count
    #: Acknowledged messages wait this long to be processed, seconds.
    acknowledged_s: Seconds
    #: Most acknowledged messages remembered.
    acknowledged_max: Count
    #: A thread without a new message is forgotten after this, seconds.
    thread_idle_s: Seconds
    #: A dead letter is purged after this, seconds.
    dead_s: Seconds
    #: Forgotten at a time; the maxima above may be exceeded by this many.
    batch: Count

    @cached_property
    def settled_us(self) -> int:
        """Return the memory of ended messages in microseconds."""
        return microseconds(self.settled_s)

    @cached_property
    def acknowledged_us(self) -> int:
        """Return the memory of acknowledged messages in microseconds."""
        return microseconds(self.acknowledged_s)

    @cached_property
    def thread_idle_us(self) -> int:
        """Return the memory of threads in microseconds."""
        return microseconds(self.thread_idle_s)

    @cached_property
    def dead_us(self) -> int:
        """Return the memory of dead letters in microseconds."""
        return microseconds(self.dead_s)


class Routing(Concern, frozen=True):
    """How strictly routes are checked."""

    #: Whether a contract's direction (who may send it to whom) is enforced.
    enforce_direction: bool
    #: Whether an agent that declared capabilities gets only those types.
    enforce_capabilities: bool

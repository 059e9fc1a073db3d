"""Policy of delivery: sessions, receipts, aging, sweeping, timers, retention and routing."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Pause, Retries, Seconds, level_named, microseconds
from tocsin.core.protocol.priority import Priority

__all__ = ["Aging", "Delivery", "Retention", "Routing", "Sessions", "Sweeper", "TimerPolicy"]


class Sessions(Concern, frozen=True):
    """Staleness and end of sessions."""

    #: Age of the last heartbeat at which a session becomes stale, seconds.
    stale_after_s: Seconds
    #: Age of the last heartbeat at which a session ends, seconds.
    lapse_after_s: Seconds
    #: Heartbeats closer together than this are recorded as one, seconds.
    heartbeat_record_s: Pause
    #: Whether agents with an open session are notified when a peer joins or leaves, by one message each.
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
    """Confirmation of offers."""

    #: Time for the receipt of an offer, by kind of session, seconds; a contract's own timeout has precedence.
    receipt_timeout_s: dict[str, Seconds]
    #: Retries of offers without receipt before a message becomes a dead letter, where the contract has no timeout.
    channel_retries_max: Retries
    #: Wait before each of those retries, seconds; the last value repeats.
    channel_backoff_s: list[Seconds]
    #: Times that a poll repeats a message whose cursor is not quoted before the message becomes a dead letter; a larger
    #: number of retries of its contract has precedence.
    poll_retries_max: Retries
    #: Offers without receipt at a time for a push session that does not set a window; a piggyback session takes whole
    #: drains.
    window_default: Count
    #: Retry time given with a refusal that only time resolves, seconds.
    retry_hint_s: Seconds

    @cached_property
    def receipt_timeout_us(self) -> dict[str, int]:
        """Return the receipt timeouts in microseconds."""
        return {kind: microseconds(timeout_s) for kind, timeout_s in self.receipt_timeout_s.items()}


class Aging(Concern, frozen=True):
    """Raising of messages that wait."""

    #: Whether waiting raises messages; without it, low priorities can starve.
    enabled: bool
    #: A message rises each time it has waited this long again, seconds.
    threshold_s: Seconds
    #: Levels by which it rises.
    boost_levels: Annotated[int, Meta(ge=1, le=3)]
    #: Priority at whose front the rise ends, at most Critical; what merely waited never goes before a higher one.
    top: str

    @cached_property
    def threshold_us(self) -> int:
        """Return the threshold in microseconds."""
        return microseconds(self.threshold_s)

    @cached_property
    def top_level(self) -> Priority:
        """Return `top` on the internal scale."""
        return level_named(self.top)

    @cached_property
    def boosts_to_front(self) -> tuple[int | None, ...]:
        """Return, for each priority, the boosts that bring it to `top` plus one that makes it overdue.

        A priority above `top` does not age: null.
        """
        top = self.top_level
        return tuple(None if level > top else -(-(top - level) // self.boost_levels) + 1 for level in Priority)

    @cached_property
    def boost_after_us(self) -> tuple[int | None, ...]:
        """Return, for each priority, how long a message waits before it first rises; null if it does not rise."""
        boosts = self.boosts_to_front
        return tuple(None if most is None or not self.enabled else self.threshold_us for most in boosts)

    def bound_us(self, priority: int) -> int | None:
        """Return the age after which only messages above `top` and older overdue ones go before one of this priority.

        Null for a priority above `top`.
        """
        boosts = self.boosts_to_front[priority]
        return None if boosts is None else boosts * self.threshold_us


class Sweeper(Concern, frozen=True):
    """Sweeper of expired messages."""

    #: Interval between sweeps, seconds; an expired message is not delivered in between.
    interval_s: Seconds

    @cached_property
    def interval_us(self) -> int:
        """Return the interval in microseconds."""
        return microseconds(self.interval_s)


class TimerPolicy(Concern, frozen=True):
    """Precision of the short timers."""

    #: Maximum delay of a receipt, ACK, backoff, aging or session timer, seconds.
    granularity_s: Seconds

    @cached_property
    def granularity_us(self) -> int:
        """Return the granularity in microseconds."""
        return microseconds(self.granularity_s)


class Retention(Concern, frozen=True):
    """Time that ended messages stay in the live state; the journal has its own retention."""

    #: Time for which ended messages answer duplicates, recalls and late confirmations, seconds.
    settled_s: Seconds
    #: Maximum number of ended messages kept.
    settled_max: Count
    #: Bytes of payloads and metadata that ended messages keep for a late rejection; the oldest loses its content first.
    settled_bytes_max: Count
    #: Time for which acknowledged messages wait to be processed, seconds.
    acknowledged_s: Seconds
    #: Maximum number of acknowledged messages kept.
    acknowledged_max: Count
    #: Time after which a thread without a new message is forgotten, seconds.
    thread_idle_s: Seconds
    #: Time after which a dead letter is purged, seconds.
    dead_s: Seconds
    #: Number of entries forgotten at a time; the maxima above may be exceeded by this many.
    batch: Count
    #: Bytes of content dropped at a time, of at most `batch` messages; `settled_bytes_max` may be exceeded by them.
    batch_bytes: Count

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
    """Strictness of route checks."""

    #: Whether the senders and receivers that a contract names are enforced.
    enforce_direction: bool
    #: Whether an agent that declared capabilities receives only those message types.
    enforce_capabilities: bool

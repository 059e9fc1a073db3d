"""How agents hold things and wait for each other."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Seconds, level_named, microseconds
from tocsin.core.protocol.priority import Priority

__all__ = ["Inheritance", "Leases"]


class Leases(Concern, frozen=True):
    """How long things are held, and how one waits for them."""

    #: How long a lease is for that does not say, seconds.
    ttl_default_s: Seconds
    #: Longest that a lease may be for without a renewal, seconds.
    ttl_max_s: Seconds
    #: A holder is warned this long before its lease lapses, or at half its time where that is less, seconds.
    warn_before_s: Seconds
    #: How long a request waits in line that does not say, seconds.
    wait_default_s: Seconds
    #: Longest that a request may wait in line, seconds.
    wait_max_s: Seconds
    #: Priority of a request that does not say.
    priority: str
    #: How often a request that waits for several things may be passed by for one that it could have had.
    overtakes_max: Annotated[int, Meta(ge=0, le=10**6)]
    #: Resources of one lease.
    resources_max: Count
    #: Characters of one resource.
    resource_length_max: Count
    #: Segments of one resource.
    segments_max: Count
    #: Leases and requests of one agent.
    per_agent_max: Count
    #: Leases and requests of the project.
    leases_max: Count
    #: Requests in line for the same resource.
    waiters_max: Count
    #: Lapsed leases remembered, so that their holders are told what became of them.
    lapsed_max: Count

    @cached_property
    def level_default(self) -> Priority:
        """Return `priority` on the inside scale."""
        return level_named(self.priority)

    def warning_us(self, ttl_s: float) -> int:
        """Return how long before its end the holder of a lease is warned, microseconds."""
        return min(microseconds(self.warn_before_s), microseconds(ttl_s) // 2)


class Inheritance(Concern, frozen=True):
    """What rises with an agent that others wait for."""

    #: Messages that are raised at a time, of those that it has sent, and of the answers that wait for it.
    messages_max: Count

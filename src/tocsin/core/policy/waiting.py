"""Policy of leases and priority inheritance."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Seconds, level_named, microseconds
from tocsin.core.protocol.priority import Priority

__all__ = ["Inheritance", "Leases"]


class Leases(Concern, frozen=True):
    """Duration, waiting and limits of leases."""

    #: Duration of a lease if the request does not set one, seconds.
    ttl_default_s: Seconds
    #: Longest duration of a lease without a renewal, seconds.
    ttl_max_s: Seconds
    #: Time before its end at which the holder of a lease is warned, at most half its duration, seconds.
    warn_before_s: Seconds
    #: Time that a request waits in the queue if it does not set one, seconds.
    wait_default_s: Seconds
    #: Longest time that a request may wait in the queue, seconds.
    wait_max_s: Seconds
    #: Priority of a request that does not set one.
    priority: str
    #: Number of later requests that may overtake a queued request for a resource that is free.
    overtakes_max: Annotated[int, Meta(ge=0, le=10**6)]
    #: Resources of one lease.
    resources_max: Count
    #: Length of one resource, characters.
    resource_length_max: Count
    #: Segments of one resource.
    segments_max: Count
    #: Length of one segment, characters.
    segment_length_max: Count
    #: Characters of all resources of one lease; each segment counts for at least 16. By default 128 for each of 64
    #: resources.
    characters_max: Count
    #: Wildcards of one open pattern: stars, `**`, question marks, and each character and range of a class.
    wildcards_max: Count
    #: Segments with a wildcard between two `**` of an open pattern.
    globs_between_max: Count
    #: Length of an open pattern from its first segment with a wildcard, characters.
    open_length_max: Count
    #: Wildcards of all open patterns of one lease.
    wildcards_per_lease_max: Count
    #: Wildcards of the open patterns of all leases and queued requests of one agent.
    wildcards_per_agent_max: Count
    #: Wildcards of the open patterns of all leases and queued requests of the project.
    wildcards_in_all_max: Count
    #: Resources in use that the open patterns of one request may have to be compared with: characters, each segment
    #: counted for at least 16, times the wildcards of the pattern.
    reach_max: Count
    #: Leases and queued requests of one agent.
    per_agent_max: Count
    #: Leases and queued requests of the project.
    leases_max: Count
    #: Requests queued for the same resource.
    waiters_max: Count
    #: Lapsed leases kept, so that their holders get an exact error.
    lapsed_max: Count

    @cached_property
    def level_default(self) -> Priority:
        """Return `priority` on the internal scale."""
        return level_named(self.priority)

    def warning_us(self, ttl_s: float) -> int:
        """Return how long before its end the holder of a lease is warned, microseconds."""
        return min(microseconds(self.warn_before_s), microseconds(ttl_s) // 2)


class Inheritance(Concern, frozen=True):
    """Priority inheritance of agents that others wait for."""

    #: Messages raised at a time, among those that the agent has sent and the answers queued for it.
    messages_max: Count

"""What a sender may use and spend."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Amount, Concern, Count, Levels, Seconds, Share, level_named, microseconds
from tocsin.core.protocol.priority import Priority, liminal_name

__all__ = ["Bucket", "Gaming", "Quota", "Quotas", "Role", "Security"]


class Security(Concern, frozen=True):
    """What a sender must prove beyond its token."""

    #: Whether an envelope must carry a signature; one that is there is checked in any case.
    require_signatures: bool


class Role(Concern, frozen=True):
    """What a role may do."""

    #: Highest priority it may use.
    max_priority: str
    #: Whether asking for more lowers the message to the cap; else it is refused.
    lowers: bool
    #: Share of the bucket and quotas it gets; null is unlimited.
    quota_multiplier: Amount | None
    #: Whether gaming detection watches it.
    watched: bool
    #: Whether it may do what a director may: override, change policy, redrive any, retire agents.
    directs: bool

    @cached_property
    def cap(self) -> Priority:
        """Return `max_priority` on the inside scale."""
        return level_named(self.max_priority)


class Bucket(Concern, frozen=True):
    """The token bucket of each agent."""

    #: Most tokens it holds.
    capacity: Amount
    #: Tokens that come back per second.
    refill_per_s: Amount
    #: Tokens that one message costs, by priority.
    cost: Levels

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """Return the costs, indexed by priority."""
        return tuple(self.cost[liminal_name(level)] for level in Priority)


class Quota(Concern, frozen=True):
    """A quota of one high priority for each agent."""

    #: Most messages it holds.
    cap: Annotated[float, Meta(ge=1, le=1e12)]
    #: Messages that come back per second.
    refill_per_s: Amount


class Quotas(Concern, frozen=True):
    """The quotas of the two priorities that can be inflated."""

    critical: Quota
    blocking: Quota


class Gaming(Concern, frozen=True):
    """When an agent is taken to inflate its priorities."""

    #: How far back to look, seconds.
    window_s: Seconds
    #: Share of Blocking and above over which it is gaming.
    high_priority_ratio: Share
    #: Fewest messages in the window to judge from.
    messages_min: Count
    #: Most messages of an agent remembered for judging.
    samples_max: Count

    @cached_property
    def window_us(self) -> int:
        """Return the window in microseconds."""
        return microseconds(self.window_s)

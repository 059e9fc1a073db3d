"""Policy of admission: signatures, roles, token bucket, quotas and detection of inflated priorities."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Amount, Concern, Count, Levels, Seconds, Share, level_named, microseconds
from tocsin.core.protocol.priority import Priority, priority_name

__all__ = ["Bucket", "Gaming", "Quota", "Quotas", "Role", "Security"]


class Security(Concern, frozen=True):
    """Proof that a sender must give in addition to its token."""

    #: Whether an envelope must carry a signature; a signature that is present is always checked.
    require_signatures: bool


class Role(Concern, frozen=True):
    """Permissions of a role."""

    #: Highest priority that it may use.
    max_priority: str
    #: Whether a message over that priority is lowered to it; otherwise it is refused.
    lowers: bool
    #: Factor for the token bucket and the quotas; null is unlimited.
    quota_multiplier: Amount | None
    #: Whether its agents are checked for inflated priorities.
    watched: bool
    #: Whether it may do what a director may: override, change the policy, redrive any message, retire agents.
    directs: bool

    @cached_property
    def cap(self) -> Priority:
        """Return `max_priority` on the internal scale."""
        return level_named(self.max_priority)


class Bucket(Concern, frozen=True):
    """The token bucket of each agent."""

    #: Maximum number of tokens.
    capacity: Amount
    #: Tokens refilled per second.
    refill_per_s: Amount
    #: Tokens that one message costs, by priority.
    cost: Levels

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """Return the costs, indexed by priority."""
        return tuple(self.cost[priority_name(level)] for level in Priority)


class Quota(Concern, frozen=True):
    """A quota of one high priority for each agent."""

    #: Maximum number of messages.
    cap: Annotated[float, Meta(ge=1, le=1e12)]
    #: Messages refilled per second.
    refill_per_s: Amount


class Quotas(Concern, frozen=True):
    """Quotas of the Critical and Blocking priorities."""

    critical: Quota
    blocking: Quota


class Gaming(Concern, frozen=True):
    """Detection of agents that inflate their priorities."""

    #: Time window that is examined, seconds.
    window_s: Seconds
    #: Share of messages at Blocking and above over which an agent counts as inflating.
    high_priority_ratio: Share
    #: Minimum number of messages in the window for a judgement.
    messages_min: Count
    #: Maximum number of messages of an agent that are examined.
    samples_max: Count

    @cached_property
    def window_us(self) -> int:
        """Return the window in microseconds."""
        return microseconds(self.window_s)

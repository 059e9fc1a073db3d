"""What healthy means: LIMINAL's performance SLAs and queue depths, and how an alert begins and ends."""

from functools import cached_property

from tocsin.core.policy.base import Amount, Concern, Seconds, Share, microseconds

__all__ = ["HealthPolicy"]


class HealthPolicy(Concern, frozen=True):
    """When an alert is raised, and when it is cleared."""

    #: How long a limit must have been exceeded before an alert is raised, seconds (LIMINAL: 60).
    sustained_s: Seconds
    #: An alert is cleared once its value has stayed under this share of its limit.
    clear_share: Share
    #: For this long, seconds.
    clear_s: Seconds
    #: The limit of each metric; durations in seconds, depths in messages.
    limits: dict[str, Amount]

    @cached_property
    def sustained_us(self) -> int:
        """Return the time before an alert in microseconds."""
        return microseconds(self.sustained_s)

    @cached_property
    def clear_us(self) -> int:
        """Return the time before an alert is cleared in microseconds."""
        return microseconds(self.clear_s)

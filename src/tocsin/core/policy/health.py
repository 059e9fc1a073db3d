"""Policy of health alerts: the limit of each metric, and when an alert is raised and cleared."""

from functools import cached_property

from tocsin.core.policy.base import Amount, Concern, Seconds, Share, microseconds

__all__ = ["HealthPolicy"]


class HealthPolicy(Concern, frozen=True):
    """Raising and clearing of health alerts."""

    #: Time for which a limit must be exceeded before an alert is raised, seconds.
    sustained_s: Seconds
    #: Share of the limit under which the value must stay for an alert to be cleared.
    clear_share: Share
    #: Time for which it must stay there, seconds.
    clear_s: Seconds
    #: Limit of each metric: durations in seconds, depths in messages.
    limits: dict[str, Amount]

    @cached_property
    def sustained_us(self) -> int:
        """Return the time before an alert in microseconds."""
        return microseconds(self.sustained_s)

    @cached_property
    def clear_us(self) -> int:
        """Return the time before an alert is cleared in microseconds."""
        return microseconds(self.clear_s)

"""Policy of agents' work: its duration and the work put aside."""

from functools import cached_property

from tocsin.core.policy.base import Concern, Count, Seconds, microseconds

__all__ = ["AttentionPolicy"]


class AttentionPolicy(Concern, frozen=True):
    """Limits on the work of an agent."""

    #: Bytes of data that an agent may save with one work that it puts aside.
    saved_bytes_max: Count
    #: Works that one agent may have put aside.
    aside_max: Count
    #: Time without a report after which an agent no longer counts as busy, seconds.
    work_max_s: Seconds

    @cached_property
    def work_max_us(self) -> int:
        """Return the longest work in microseconds."""
        return microseconds(self.work_max_s)

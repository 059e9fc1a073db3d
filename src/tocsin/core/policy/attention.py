"""How busy agents may be, and with how much."""

from functools import cached_property

from tocsin.core.policy.base import Concern, Count, Seconds, microseconds

__all__ = ["AttentionPolicy"]


class AttentionPolicy(Concern, frozen=True):
    """How long and how much an agent may be busy."""

    #: Bytes that an agent may save of one work that it puts aside.
    saved_bytes_max: Count
    #: Works that one agent may have put aside.
    aside_max: Count
    #: An agent that has said nothing more of its work for this long no longer counts as busy, seconds.
    work_max_s: Seconds

    @cached_property
    def work_max_us(self) -> int:
        """Return the longest work in microseconds."""
        return microseconds(self.work_max_s)

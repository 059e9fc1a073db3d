"""Policy of wakes: which messages wake an agent, how soon, how often, and when a wake has failed."""

from functools import cached_property
from typing import Annotated

from msgspec import Meta

from tocsin.core.policy.base import Concern, Count, Pause, Retries, Seconds, level_named, microseconds
from tocsin.core.protocol.priority import Priority, priority_name

__all__ = ["WakePolicy"]

_NAMES = tuple(map(priority_name, Priority))


class WakePolicy(Concern, frozen=True):
    """Wakes of agents, and notifications of idle ones."""

    #: Lowest priority, at admission, of a message that wakes its recipient.
    level: str
    #: Time that such a message waits for an agent without a live session before the agent is woken, seconds.
    after_s: Pause
    #: Time for a woken agent to attach and take the message, seconds.
    grace_s: Seconds
    #: Longest run of a waker's process, seconds; then its process group is ended.
    run_s: Seconds
    #: Time from the end of one wake of an agent to the next wake of it, seconds; a retry waits for its backoff instead.
    cooldown_s: Pause
    #: Wakes of one agent that may be requested within an hour, retries included.
    per_hour_max: Count
    #: Retries of a wake that failed.
    retries_max: Retries
    #: Waits before the retries, seconds; the last one repeats.
    backoff_s: Annotated[list[Pause], Meta(min_length=1)]
    #: Time after the last retry has failed in which the agent is not woken again, seconds; attaching ends it.
    rest_s: Pause
    #: Wakes that may be under way at once in the project; each has at most one process.
    processes_max: Count
    #: Times that an idle agent is notified of one message through its channel. A channel whose agent has made no call
    #: when the wait after the last notification is over no longer counts as a way to the agent.
    notifications_max: Count
    #: Waits after each notification, seconds; the last one repeats.
    notify_again_s: Annotated[list[Seconds], Meta(min_length=1)]

    @cached_property
    def level_number(self) -> int:
        """Return the lowest priority that wakes."""
        return level_named(self.level)

    @cached_property
    def after_us(self) -> int:
        """Return the wait before a wake in microseconds."""
        return microseconds(self.after_s)

    @cached_property
    def grace_us(self) -> int:
        """Return the time to attach and take the message in microseconds."""
        return microseconds(self.grace_s)

    @cached_property
    def run_us(self) -> int:
        """Return the longest run of a waker in microseconds."""
        return microseconds(self.run_s)

    @cached_property
    def cooldown_us(self) -> int:
        """Return the time between two wakes of an agent in microseconds."""
        return microseconds(self.cooldown_s)

    @cached_property
    def rest_us(self) -> int:
        """Return the pause after a failed wake in microseconds."""
        return microseconds(self.rest_s)

    @cached_property
    def notifications_us(self) -> int:
        """Return the time that all notifications of a message take, with the wait after the last, in microseconds."""
        waits = self.notify_again_s[: self.notifications_max]
        repeats = self.notifications_max - len(waits)
        return sum(map(microseconds, waits)) + repeats * microseconds(waits[-1])

    def backoff_us(self, attempt: int) -> int:
        """Return the wait after a failed attempt in microseconds; 1 is the first attempt."""
        return microseconds(self.backoff_s[min(attempt, len(self.backoff_s)) - 1])

    def contradictions(self) -> list[tuple[str, str]]:
        """Return conflicts between fields: the path, and the rule that it breaks."""
        wrong: list[tuple[str, str]] = []
        if self.level not in _NAMES:
            wrong.append(("$.wake.level", "must be one of " + ", ".join(_NAMES)))
        if self.run_s < self.grace_s:
            wrong.append(("$.wake.run_s", "must be at least grace_s, or a waker is ended before its agent can attach"))
        return wrong

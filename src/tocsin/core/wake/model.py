"""State of wakes: declared wakers, agents that were or may have to be woken, and channels that are ignored."""

import msgspec

from tocsin.core.messages.model import NEVER

__all__ = ["IgnoredChannel", "Wakers", "Waking"]


class Wakers(msgspec.Struct, frozen=True):
    """Agents that the hub can wake."""

    #: By name.
    agents: tuple[str, ...] = ()
    #: By role.
    roles: tuple[str, ...] = ()
    #: Id of the document.
    name: str = "declared"


class Waking(msgspec.Struct):
    """The wakes of one agent.

    A wake is under way from its request until it is *settled* (it worked or failed) and its waker has *exited*. So
    there is never a second process for an agent.
    """

    agent: str
    #: Time since which the agent has no live session; 0 if it never had one.
    away_since: int = NEVER
    #: Wake under way; empty if there is none.
    wake: str = ""
    #: Sequence number of the message that the latest wake was requested for.
    message: int = NEVER
    #: Attempts so far, the present one included; 0 once a wake worked or was given up.
    attempt: int = 0
    requested_at: int = NEVER
    #: Whether the wake under way has worked or failed.
    settled: bool = False
    #: Whether the waker of the wake under way is over.
    exited: bool = False
    #: Deadline of the wake under way; 0 if there is none.
    due_at: int = NEVER
    #: Earliest time of the next attempt after a failed one.
    retry_at: int = NEVER
    #: Whether all attempts failed and the agent has not attached since.
    failed: bool = False
    #: End of the pause after that.
    rest_until: int = NEVER
    #: Times of the requests within the last hour, oldest first.
    recent: list[int] = []
    #: Time at which the latest wake ended.
    ended_at: int = NEVER
    #: Outcome of the latest wake: `woken`, or the reason of its failure; empty before the first.
    outcome: str = ""
    outcome_at: int = NEVER
    #: Details of a failure.
    detail: str = ""


class IgnoredChannel(msgspec.Struct, frozen=True):
    """A channel session that does not count as a way to its agent, until the agent makes a call."""

    session: str
    agent: str
    #: Message that was announced in vain.
    message: int
    #: Since when it does not count.
    since: int

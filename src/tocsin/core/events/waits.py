"""Events of waits between agents: waits, inherited priority and deadlocks."""

from tocsin.core.events.base import EventBase

__all__ = [
    "DeadlockFound",
    "PriorityInherited",
    "PriorityRestored",
    "WaitBegan",
    "WaitEnded",
    "WaitRaised",
    "WaitShifted",
]


class WaitBegan(EventBase, frozen=True):
    """An agent began to wait for others; a wait for a lease begins with `LeaseQueued` instead."""

    #: Agent that waits.
    waiter: str
    #: Kind of wait: `request`, `discussion` or `approval`.
    wait_kind: str
    #: Id of the request, discussion or approval.
    ref: str
    #: Agents that it waits for.
    on: tuple[str, ...]
    #: Whether any one of them can end the wait; otherwise all of them must.
    any_of: bool
    #: Priority that it waits at, and lends.
    level: int


class WaitShifted(EventBase, frozen=True):
    """The agents that a wait is for were changed."""

    #: Agent that waits.
    waiter: str
    #: Kind of wait.
    wait_kind: str
    #: Id of the thing that it waits for.
    ref: str
    #: Agents that it waits for now.
    on: tuple[str, ...]


class WaitRaised(EventBase, frozen=True):
    """A wait lasted too long and was raised: it has, and lends, a higher priority."""

    #: Agent that waits.
    waiter: str
    #: Kind of wait; `lease` for a queued lease request.
    wait_kind: str
    #: Id of the thing that it waits for.
    ref: str
    #: Priority that it waits at now.
    level: int


class WaitEnded(EventBase, frozen=True):
    """A wait ended."""

    #: Agent that waited.
    waiter: str
    #: Kind of wait.
    wait_kind: str
    #: Id of the thing that it waited for.
    ref: str
    #: Reason: `served`, `timeout`, `cancelled`, `deadlock`, `retired`, or another one of its kind.
    reason: str


class DeadlockFound(EventBase, frozen=True):
    """A deadlock was found, and one wait was refused to break it."""

    #: The cycle: each agent waits for the next, the last for the first. If `any_of` waits take part, all agents that
    #: wait for each other.
    cycle: tuple[str, ...]
    #: Wait of each agent, as `kind:ref`.
    waits: tuple[str, ...]
    #: Priority of each agent, without what it inherits from the cycle itself.
    levels: tuple[int, ...]
    #: Agent whose wait was refused: the lowest priority, then the youngest wait.
    victim: str
    #: Wait that was refused, as `kind:ref`.
    refused: str


class PriorityInherited(EventBase, frozen=True):
    """An agent inherited more priority from those that wait for it, directly or through others."""

    #: The agent.
    agent: str
    #: Inherited level before; null for none.
    old_level: int | None
    #: Inherited level now: the highest among all that wait for it.
    new_level: int
    #: Agent whose direct wait lends it.
    waiter: str
    #: That wait, as `kind:ref`.
    through: str
    #: Sequence numbers of the messages that rise with it.
    raised: tuple[int, ...]


class PriorityRestored(EventBase, frozen=True):
    """An agent's inherited priority was lowered or ended."""

    #: The agent.
    agent: str
    #: Inherited level before.
    old_level: int
    #: Inherited level now; null for none.
    new_level: int | None
    #: Sequence numbers of the messages that fall back with it.
    lowered: tuple[int, ...]

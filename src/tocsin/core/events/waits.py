"""What happens to agents that wait for each other: waits, lent priority, deadlocks."""

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

    #: Who waits.
    waiter: str
    #: What sort of wait it is: `request`, `discussion` or `approval`.
    wait_kind: str
    #: What it waits for, by the id that its sort gives it.
    ref: str
    #: Whom it waits for.
    on: tuple[str, ...]
    #: Whether any one of them can end the wait; else all of them must.
    any_of: bool
    #: The priority that it waits at, and lends.
    level: int


class WaitShifted(EventBase, frozen=True):
    """A wait is for others now."""

    #: Who waits.
    waiter: str
    #: What sort of wait it is.
    wait_kind: str
    #: What it waits for.
    ref: str
    #: Whom it waits for from now on.
    on: tuple[str, ...]


class WaitRaised(EventBase, frozen=True):
    """A wait has lasted too long: it counts, and lends, at a higher priority from now on."""

    #: Who waits.
    waiter: str
    #: What sort of wait it is; `lease` for a place in line.
    wait_kind: str
    #: What it waits for.
    ref: str
    #: The priority that it waits at from now on.
    level: int


class WaitEnded(EventBase, frozen=True):
    """A wait is over."""

    #: Who waited.
    waiter: str
    #: What sort of wait it was.
    wait_kind: str
    #: What it waited for.
    ref: str
    #: Why it is over: `served`, `timeout`, `cancelled`, `deadlock`, `retired`, or what its owner says.
    reason: str


class DeadlockFound(EventBase, frozen=True):
    """Agents waited for each other in a circle; one wait was refused to break it."""

    #: The circle: each waits for the next, the last for the first. Where waits that any of several could end take part,
    #: all who wait for each other.
    cycle: tuple[str, ...]
    #: The wait of each, as `kind:ref`.
    waits: tuple[str, ...]
    #: The priority of each, as far as it does not come from the circle itself.
    levels: tuple[int, ...]
    #: Whose wait was refused: the lowest priority, then the youngest wait.
    victim: str
    #: The wait that was refused, as `kind:ref`.
    refused: str


class PriorityInherited(EventBase, frozen=True):
    """An agent was lent more priority by those who wait for it, directly or through others."""

    #: The agent.
    agent: str
    #: What it had been lent before; null for nothing.
    old_level: int | None
    #: What it is lent now: the highest among all who wait for it.
    new_level: int
    #: The wait next to it that this comes through: its waiter, and `kind:ref`.
    waiter: str
    #: That wait, as `kind:ref`.
    through: str
    #: Messages that rise with it, by sequence number.
    raised: tuple[int, ...]


class PriorityRestored(EventBase, frozen=True):
    """An agent was lent less, or nothing any more."""

    #: The agent.
    agent: str
    #: What it had been lent.
    old_level: int
    #: What it is still lent; null for nothing.
    new_level: int | None
    #: Messages that fall back with it, by sequence number.
    lowered: tuple[int, ...]

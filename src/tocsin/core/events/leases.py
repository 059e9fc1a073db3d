"""What happens to leases, from the request to the end."""

from tocsin.core.events.base import EventBase
from tocsin.core.messages.model import RecipientState

__all__ = [
    "LeaseContended",
    "LeaseExpiring",
    "LeaseGranted",
    "LeaseLapsed",
    "LeaseQueued",
    "LeaseReclaimed",
    "LeaseRefused",
    "LeaseReleased",
    "LeaseRenewed",
    "LeaseWaitEnded",
]


class LeaseRefused(EventBase, frozen=True):
    """A request for a lease was refused at once; nothing of it is kept."""

    #: Who asked.
    agent: str
    #: What it wanted for itself alone.
    exclusive: tuple[str, ...]
    #: What it wanted to share.
    shared: tuple[str, ...]
    #: Catalogue code.
    code: str
    #: The refusal in a sentence.
    detail: str


class LeaseQueued(EventBase, frozen=True):
    """A request waits in line; it holds nothing meanwhile."""

    #: The lease that it will be.
    lease: str
    #: Who asked.
    agent: str
    #: What it wants for itself alone.
    exclusive: tuple[str, ...]
    #: What it wants to share.
    shared: tuple[str, ...]
    #: The priority that it waits at.
    level: int
    #: How long the lease will be for, seconds.
    ttl_s: float
    #: When it gives up.
    wait_until: int
    #: Who holds what it wants.
    holders: tuple[str, ...]
    #: Its place in line, from 1.
    place: int


class LeaseGranted(EventBase, frozen=True):
    """A lease was granted, all of it."""

    #: The lease.
    lease: str
    #: Who holds it.
    holder: str
    #: What it holds for itself alone.
    exclusive: tuple[str, ...]
    #: What it shares.
    shared: tuple[str, ...]
    #: The priority that it was asked for at.
    level: int
    #: How long it is for, seconds.
    ttl_s: float
    #: When it ends unless it is renewed.
    expires_at: int
    #: How long it waited, microseconds.
    waited_us: int
    #: Requests before it in line, which wait for something else too, that it passed by.
    passed: tuple[str, ...] = ()


class LeaseRenewed(EventBase, frozen=True):
    """A holder still needs its lease."""

    #: The lease.
    lease: str
    #: Who holds it.
    holder: str
    #: How long it is for from now on, seconds.
    ttl_s: float
    #: When it ends unless it is renewed again.
    expires_at: int


class LeaseExpiring(EventBase, frozen=True):
    """A holder was warned that its lease is about to lapse."""

    #: The lease.
    lease: str
    #: Who holds it.
    holder: str
    #: When it lapses; where the warning comes late, half the warning time from then.
    expires_at: int


class LeaseReleased(EventBase, frozen=True):
    """Something is held no more, by the holder's own will or another's."""

    #: The lease.
    lease: str
    #: Who held it.
    holder: str
    #: What of it is free now.
    resources: tuple[str, ...]
    #: `released` by its holder, `forced` by a director, `deadlock` to break one, or `retired` with its holder.
    reason: str
    #: Who did it.
    by: str
    #: In their words.
    note: str


class LeaseLapsed(EventBase, frozen=True):
    """A lease's time was over: its holder is there, was warned, and did not renew it."""

    #: The lease.
    lease: str
    #: Who held it.
    holder: str
    #: What is free now.
    resources: tuple[str, ...]
    #: When its time was over.
    expires_at: int
    #: Leases that lapsed before and are no longer remembered.
    forgotten: tuple[str, ...]


class LeaseReclaimed(EventBase, frozen=True):
    """A lease's time was over and its holder is gone: nobody is there to renew it."""

    #: The lease.
    lease: str
    #: Who held it.
    holder: str
    #: What is free now.
    resources: tuple[str, ...]
    #: When its time was over.
    expires_at: int
    #: Leases that lapsed before and are no longer remembered.
    forgotten: tuple[str, ...]
    #: What is known of the holder.
    holder_state: RecipientState


class LeaseWaitEnded(EventBase, frozen=True):
    """A request left the line without its lease."""

    #: The lease that it would have been.
    lease: str
    #: Who asked.
    agent: str
    #: `timeout`, `cancelled` by the agent, `deadlock`, `forced` by a director, or `retired` with its agent.
    reason: str
    #: How long it waited, microseconds.
    waited_us: int


class LeaseContended(EventBase, frozen=True):
    """So many wait for the same thing that it is worth telling."""

    #: What is held that they wait for, as its holder named it.
    resource: str
    #: How many in turn wait for it: those who would share it count as one.
    depth: int
    #: Who waits, first in line first.
    waiters: tuple[str, ...]
    #: Who holds it.
    holders: tuple[str, ...]

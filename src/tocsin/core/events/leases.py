"""Events of leases and lease requests."""

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
    """A lease request was refused at once; nothing of it is kept."""

    #: Agent that asked.
    agent: str
    #: Resources wanted exclusively.
    exclusive: tuple[str, ...]
    #: Resources wanted shared.
    shared: tuple[str, ...]
    #: Error code.
    code: str
    #: Description of the refusal.
    detail: str


class LeaseQueued(EventBase, frozen=True):
    """A lease request was queued; it holds nothing while it waits."""

    #: Id of the future lease.
    lease: str
    #: Agent that asked.
    agent: str
    #: Resources wanted exclusively.
    exclusive: tuple[str, ...]
    #: Resources wanted shared.
    shared: tuple[str, ...]
    #: Priority of the request.
    level: int
    #: Duration of the lease, seconds.
    ttl_s: float
    #: Time at which the request ends without a lease.
    wait_until: int
    #: Agents that hold what it wants.
    holders: tuple[str, ...]
    #: Place in the queue, from 1.
    place: int


class LeaseGranted(EventBase, frozen=True):
    """A lease was granted."""

    #: The lease.
    lease: str
    #: Agent that holds it.
    holder: str
    #: Resources held exclusively.
    exclusive: tuple[str, ...]
    #: Resources held shared.
    shared: tuple[str, ...]
    #: Priority of the request.
    level: int
    #: Duration, seconds.
    ttl_s: float
    #: Time at which it ends unless it is renewed.
    expires_at: int
    #: Time that the request waited, microseconds.
    waited_us: int
    #: Requests before it in the queue that it overtook; they wait for other resources too.
    passed: tuple[str, ...] = ()


class LeaseRenewed(EventBase, frozen=True):
    """A lease was renewed by its holder."""

    #: The lease.
    lease: str
    #: Agent that holds it.
    holder: str
    #: Duration from this time, seconds.
    ttl_s: float
    #: Time at which it ends unless it is renewed again.
    expires_at: int


class LeaseExpiring(EventBase, frozen=True):
    """The holder of a lease was warned that it is about to lapse."""

    #: The lease.
    lease: str
    #: Agent that holds it.
    holder: str
    #: Time at which it lapses; after a late warning, half the warning time later.
    expires_at: int


class LeaseReleased(EventBase, frozen=True):
    """Resources of a lease were released, by the holder or by another."""

    #: The lease.
    lease: str
    #: Agent that held it.
    holder: str
    #: Resources that were released.
    resources: tuple[str, ...]
    #: `released` by its holder, `forced` by a director, `deadlock` to break one, or `retired` with its holder.
    reason: str
    #: Agent that released them.
    by: str
    #: Note given with the release.
    note: str


class LeaseLapsed(EventBase, frozen=True):
    """A lease lapsed: its holder is available, was warned, and did not renew it."""

    #: The lease.
    lease: str
    #: Agent that held it.
    holder: str
    #: Resources that were released.
    resources: tuple[str, ...]
    #: Time at which the lease was over.
    expires_at: int
    #: Leases that lapsed before and are no longer kept.
    forgotten: tuple[str, ...]


class LeaseReclaimed(EventBase, frozen=True):
    """A lease was reclaimed: it was over, and its holder is not available."""

    #: The lease.
    lease: str
    #: Agent that held it.
    holder: str
    #: Resources that were released.
    resources: tuple[str, ...]
    #: Time at which the lease was over.
    expires_at: int
    #: Leases that lapsed before and are no longer kept.
    forgotten: tuple[str, ...]
    #: Availability of the holder.
    holder_state: RecipientState


class LeaseWaitEnded(EventBase, frozen=True):
    """A lease request ended without a lease."""

    #: Id that the lease would have had.
    lease: str
    #: Agent that asked.
    agent: str
    #: `timeout`, `cancelled` by the agent, `deadlock`, `forced` by a director, or `retired` with its agent.
    reason: str
    #: Time that it waited, microseconds.
    waited_us: int


class LeaseContended(EventBase, frozen=True):
    """The number of agents that wait for a resource reached the policy's limit."""

    #: Resource, as its holder named it.
    resource: str
    #: Number of turns until the last one: those who would share it count as one.
    depth: int
    #: Waiting agents, in queue order.
    waiters: tuple[str, ...]
    #: Agents that hold it.
    holders: tuple[str, ...]

"""Structs of leases: claims, leases, queued requests, obstacles and contention.

The rules are in `tocsin.core.leases.book`.
"""

import msgspec

__all__ = ["Claim", "Contention", "LapsedLease", "Lease", "LeaseRequest", "Obstacles"]


class Claim(msgspec.Struct, frozen=True):
    """One resource of a lease or a request."""

    resource: str
    shared: bool


class Lease(msgspec.Struct):
    """Resources held by an agent until a time."""

    lease: str
    holder: str
    claims: tuple[Claim, ...]
    #: Priority of the request.
    level: int
    ttl_s: float
    granted_at: int
    expires_at: int
    #: Sequence number of the event that granted it: its age.
    seq: int
    #: Whether the holder has been warned that it is about to lapse.
    warned: bool = False
    renewals: int = 0


class LeaseRequest(msgspec.Struct):
    """A request for a lease that waits in the queue."""

    lease: str
    agent: str
    claims: tuple[Claim, ...]
    level: int
    ttl_s: float
    asked_at: int
    wait_until: int
    #: Sequence number of the event that queued it: its age.
    seq: int
    #: Number of later requests that were granted a resource that this one could have had.
    overtaken: int = 0


class LapsedLease(msgspec.Struct, frozen=True):
    """A lease that lapsed recently."""

    lease: str
    holder: str
    #: Sequence number of the event that ended it.
    seq: int


class Obstacles(msgspec.Struct, frozen=True):
    """What prevents the grant of a lease request."""

    #: Agents that hold resources of it, with the number of resources each.
    holders: dict[str, int]
    #: For each resource of it, the number of other agents' claims that hold it.
    held: list[int]
    #: Agents before it in the queue that reserve a resource of it.
    ahead: frozenset[str]
    #: Requests before it in the queue that conflict with it and reserve nothing of it.
    passed: tuple[str, ...]

    @property
    def is_free(self) -> bool:
        """Return whether it can be granted."""
        return not self.holders and not self.ahead


class Contention(msgspec.Struct, frozen=True):
    """Agents that wait for a resource that is held."""

    #: Number of turns until the last one: those who would share it count as one.
    depth: int
    #: Waiting agents, in queue order.
    waiters: tuple[str, ...]
    #: Agents that hold it.
    holders: tuple[str, ...]

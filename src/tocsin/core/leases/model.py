"""What leases are made of: claims, leases, places in line, and what stands in the way of one.

Only declared here; who may hold what is `leasebook`'s affair.
"""

import msgspec

__all__ = ["Claim", "Contention", "LapsedLease", "Lease", "LeaseRequest", "Obstacles"]


class Claim(msgspec.Struct, frozen=True):
    """One resource of a lease or a request."""

    resource: str
    shared: bool


class Lease(msgspec.Struct):
    """Something held until a time."""

    lease: str
    holder: str
    claims: tuple[Claim, ...]
    #: The priority that it was asked for at.
    level: int
    ttl_s: float
    granted_at: int
    expires_at: int
    #: Number of the event that granted it: its age.
    seq: int
    #: Whether the holder has been warned that it is about to lapse.
    warned: bool = False
    renewals: int = 0


class LeaseRequest(msgspec.Struct):
    """A place in line."""

    lease: str
    agent: str
    claims: tuple[Claim, ...]
    level: int
    ttl_s: float
    asked_at: int
    wait_until: int
    #: Number of the event that entered it: its age.
    seq: int
    #: How often a later request was granted something that this one could have had.
    overtaken: int = 0


class LapsedLease(msgspec.Struct, frozen=True):
    """A lease that lapsed not long ago."""

    lease: str
    holder: str
    #: Number of the event that ended it.
    seq: int


class Obstacles(msgspec.Struct, frozen=True):
    """What stands in the way of a request."""

    #: Who holds something of it, and through how many things each.
    holders: dict[str, int]
    #: For each thing that it wants, how many others hold it.
    held: list[int]
    #: Who is before it in line and reserves something of it.
    ahead: frozenset[str]
    #: Requests before it in line that conflict with it and reserve nothing of it.
    passed: tuple[str, ...]

    @property
    def is_free(self) -> bool:
        """Tell whether it can be granted."""
        return not self.holders and not self.ahead


class Contention(msgspec.Struct, frozen=True):
    """Who waits for something that is held."""

    #: How many in turn: those who would share it count as one.
    depth: int
    #: Who waits, first in line first.
    waiters: tuple[str, ...]
    #: Who holds it.
    holders: tuple[str, ...]

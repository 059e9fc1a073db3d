"""Time limits of a store, and the terms of a project's ownership."""

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["OwnershipTerms", "StoreTimeouts"]

Seconds = Annotated[float, Meta(gt=0, le=3.2e9)]


class OwnershipTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ownership of a project on PostgreSQL: the owner's lease, and how a standby watches it."""

    #: Time without a renewal after which a standby ends the owner's database session and takes over, seconds.
    lease_s: Seconds
    #: Interval at which the owner renews its lease, seconds; it stops serving this long before the lease ends.
    renew_s: Seconds
    #: Interval at which a standby looks at the owner's lease, seconds.
    look_s: Seconds

    def __post_init__(self) -> None:
        """Check limits that depend on each other."""
        if self.lease_s < 3 * self.renew_s:
            raise ValueError("ownership.lease_s must be at least three times renew_s: one late renewal must not end it")
        if self.lease_s < 2 * self.look_s:
            raise ValueError("ownership.lease_s must be at least twice look_s: a standby must see renewals within it")


class StoreTimeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time limits of the calls of a store; a call that takes longer fails, and its callers may try again."""

    #: Time for a commit, a renewal, or a read of the journal, seconds.
    commit_timeout_s: Seconds
    #: Time for a query of the history that a caller waits for, seconds.
    query_timeout_s: Seconds
    #: Time for one statement that writes the tables, seconds.
    batch_timeout_s: Seconds

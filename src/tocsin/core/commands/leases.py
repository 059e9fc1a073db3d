"""Commands that acquire, renew and release leases, and their replies."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase, Duration, Name, PriorityName

__all__ = ["AcquireLease", "ForceRelease", "LeaseRecord", "ReleaseLease", "Released", "RenewLease"]

_Lease = Annotated[Name, Meta(description="Id of the lease or of the waiting request.")]


class AcquireLease(CommandBase, frozen=True):
    """Acquire resources, all or none; the request waits in a queue if they are not free."""

    exclusive: Annotated[tuple[str, ...], Meta(description="Names and path globs to hold exclusively.")] = ()
    shared: Annotated[tuple[str, ...], Meta(description="Names and path globs to hold together with others.")] = ()
    ttl_s: Annotated[
        Duration | None, Meta(description="Seconds until the lease lapses; the policy's default if absent.")
    ] = None
    wait_s: Annotated[
        Duration | None,
        Meta(description="Seconds to wait in the queue; 0 fails at once; the policy's default if absent."),
    ] = None
    priority: Annotated[
        Annotated[str, Meta(max_length=64)] | None,
        Meta(
            description="Priority in the queue: Info, Coordinate, Blocking, Critical or DirectorOverride; "
            "the policy's default if absent."
        ),
    ] = None
    lease: Annotated[
        Name | None, Meta(description="An id chosen by the caller, so that the same request can be repeated safely.")
    ] = None


class RenewLease(CommandBase, frozen=True):
    """Extend a lease."""

    lease: _Lease
    ttl_s: Annotated[Duration | None, Meta(description="Seconds from now on; as before if absent.")] = None


class ReleaseLease(CommandBase, frozen=True):
    """Release a lease, or cancel a waiting request."""

    lease: Annotated[Name | None, Meta(description="Id of the lease or of the waiting request.")] = None
    resources: Annotated[
        tuple[str, ...], Meta(description="Resources to release, by the names they are held under.")
    ] = ()


class ForceRelease(CommandBase, frozen=True):
    """Release another agent's lease, or cancel its waiting request."""

    lease: _Lease
    reason: Annotated[str, Meta(description="Reason, sent to the agent that loses the lease.")]


class LeaseRecord(msgspec.Struct, frozen=True):
    """A lease, or a request that waits for one."""

    lease: str
    state: Literal["held", "waiting"]
    agent: str
    exclusive: tuple[str, ...]
    shared: tuple[str, ...]
    #: The requested priority; of a waiting request, including inherited priority.
    priority: PriorityName
    #: When the lease lapses if it is not renewed.
    expires_at: datetime | None = None
    #: Place in the queue, from 1.
    place: int | None = None
    #: When the request stops waiting.
    wait_until: datetime | None = None
    #: Agents that hold what the request waits for.
    holders: tuple[str, ...] = ()
    #: Whether the same request was made before.
    duplicate: bool = False


class Released(msgspec.Struct, frozen=True):
    """Resources and requests that were released."""

    resources: tuple[str, ...]
    #: Waiting requests that were cancelled.
    cancelled: tuple[str, ...] = ()

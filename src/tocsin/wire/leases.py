"""Operations on leases, and the wait-for graph."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.commands.base import AgentName, Name
from tocsin.core.protocol.priority import PriorityName
from tocsin.wire.operation import Access, NamedPageRequest, Operation, Request

__all__ = [
    "OPERATIONS",
    "PATH_LENGTH_MAX",
    "CheckPaths",
    "GetLease",
    "LeaseRecords",
    "ListLeases",
    "ListWaits",
    "PathConflict",
    "ReleaseResources",
    "WaitGraphRecord",
    "WaitRecord",
    "WaitingAgent",
]

#: Length of a path to check, characters: as on Linux.
PATH_LENGTH_MAX = 4096

_Lease = Annotated[Name, Meta(description="Id of the lease or of the waiting request.")]


class GetLease(Request, frozen=True):
    """Show one lease or waiting request."""

    lease: _Lease


class ReleaseResources(Request, frozen=True):
    """Release resources by the names they are held under."""

    resources: Annotated[tuple[str, ...], Meta(description="Resources, by the names they are held under.")]


class ListLeases(NamedPageRequest, frozen=True, kw_only=True):
    """List leases and the requests that wait for them."""

    resource: Annotated[str | None, Meta(description="Only leases that conflict with this name or glob.")] = None
    agent: Annotated[AgentName | None, Meta(description="Only leases of this agent.")] = None


class CheckPaths(Request, frozen=True):
    """List which of the given paths other agents hold."""

    paths: Annotated[
        list[Annotated[str, Meta(max_length=PATH_LENGTH_MAX)]], Meta(description="Paths that are about to be changed.")
    ]


class LeaseRecords(msgspec.Struct, frozen=True):
    """Leases, oldest first, then waiting requests, those of one page by their place in the queue."""

    held: list[cmd.LeaseRecord]
    waiting: list[cmd.LeaseRecord]
    #: Cursor of the next page; null on the last page.
    next: str | None = None


class PathConflict(msgspec.Struct, frozen=True):
    """A path that another agent holds."""

    path: str
    #: The resource that covers it, as it is held.
    resource: str
    lease: str
    holder: str
    shared: bool
    expires_at: datetime


class ListWaits(NamedPageRequest, frozen=True, kw_only=True):
    """Show the wait-for graph: which agents wait for which, and the priorities that they lend."""


class WaitRecord(msgspec.Struct, frozen=True):
    """One agent's wait for one thing."""

    waiter: str
    #: `lease`, `request`, `discussion` or `approval`.
    kind: str
    #: Id of what it waits for.
    ref: str
    #: Description of what it waits for: resources, a subject or a question.
    what: str
    since: datetime | None
    #: The priority that it waits at, and lends.
    priority: PriorityName
    #: Whether any one of `on` can end it.
    any_of: bool
    #: Agents that it waits for.
    on: list[str]
    #: Agents before it in the queue.
    behind: list[str]


class WaitingAgent(msgspec.Struct, frozen=True):
    """An agent of the wait-for graph."""

    agent: str
    #: Number of leases that it holds.
    holds: int
    #: Number of its own waits.
    waits: int
    #: Number of waits for it.
    waited_for: int
    #: The priority that it inherits from waiting agents; null if none.
    inherited: PriorityName | None


class WaitGraphRecord(msgspec.Struct, frozen=True):
    """The wait-for graph."""

    agents: list[WaitingAgent]
    waits: list[WaitRecord]
    #: Total number of waits.
    total: int
    #: Cursor of the next page; null on the last page.
    next: str | None = None


OPERATIONS = (
    Operation(
        name="acquire_lease",
        request=cmd.AcquireLease,
        reply=cmd.LeaseRecord,
        http="POST /v1/leases",
        tag="leases",
        tool="Use it before you edit files that others may edit. If its state is waiting, LEASE_GRANTED or "
        "LEASE_REFUSED comes to your inbox.",
    ),
    Operation(
        name="list_leases",
        request=ListLeases,
        reply=LeaseRecords,
        http="GET /v1/leases",
        tag="leases",
        tool="Use it to see who holds a file or resource, and who waits for it.",
    ),
    Operation(
        name="release_resources",
        request=ReleaseResources,
        reply=cmd.Released,
        kind="command",
        http="POST /v1/leases/release",
        tag="leases",
        idempotent=True,
    ),
    Operation(
        name="check_paths",
        request=CheckPaths,
        reply=list[PathConflict],
        http="POST /v1/leases/check",
        tag="leases",
    ),
    Operation(
        name="get_lease",
        request=GetLease,
        reply=cmd.LeaseRecord,
        http="GET /v1/leases/{lease}",
        tag="leases",
    ),
    Operation(
        name="release_lease",
        request=cmd.ReleaseLease,
        reply=cmd.Released,
        http="DELETE /v1/leases/{lease}",
        tag="leases",
        tool="By its id, or by the names of resources.",
        idempotent=True,
    ),
    Operation(
        name="renew_lease",
        request=cmd.RenewLease,
        reply=cmd.LeaseRecord,
        http="POST /v1/leases/{lease}/renew",
        tag="leases",
        tool="Call it before expires_at if you still need the resources.",
        idempotent=True,
    ),
    Operation(
        name="force_release",
        request=cmd.ForceRelease,
        reply=cmd.Released,
        http="POST /v1/leases/{lease}/force-release",
        tag="leases",
        access=Access.DIRECTOR,
        tool="For directors and humans. The agent that loses the lease is notified with your reason.",
        destructive=True,
    ),
    Operation(
        name="list_waits",
        request=ListWaits,
        reply=WaitGraphRecord,
        http="GET /v1/waits",
        tag="leases",
        access=Access.DIRECTOR,
    ),
)

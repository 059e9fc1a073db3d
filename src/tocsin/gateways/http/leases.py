"""Leases over HTTP: acquire, renew, release, see who holds what, and take one away."""

from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.leases.decisions import checked_resource, held_of, queued_of
from tocsin.core.leases.model import Lease
from tocsin.core.protocol.envelope import iso
from tocsin.core.protocol.priority import VOCABULARY, Priority, liminal_name
from tocsin.gateways.http.operation import Call, Operation

__all__ = ["OPERATIONS"]

Time = Annotated[float, Meta(ge=0, le=3.2e9)]


class AcquireBody(msgspec.Struct, frozen=True):
    """What to hold: all of it, or nothing."""

    #: Names and path globs to have alone.
    exclusive: list[str] = []
    #: Names and path globs to share with others who share them.
    shared: list[str] = []
    #: How long it is for, seconds; absent is the policy's default.
    ttl_s: Time | None = None
    #: How long to wait in line, seconds; 0 fails at once; absent is the policy's default.
    wait_s: Time | None = None
    #: The priority to wait at; absent is the policy's default.
    priority: str | None = None
    #: An id of the caller's own, so that the same request can be made again.
    lease: str | None = None


class RenewBody(msgspec.Struct, frozen=True):
    """How long to keep it."""

    #: From now on, seconds; absent is as before.
    ttl_s: Time | None = None


class ReleaseBody(msgspec.Struct, frozen=True):
    """What to set free, by the very names that it is held under."""

    resources: list[str]


class ForceBody(msgspec.Struct, frozen=True):
    """Why a lease is taken away."""

    reason: str


class CheckBody(msgspec.Struct, frozen=True):
    """Paths that somebody is about to touch."""

    paths: list[str]


class LeaseView(msgspec.Struct, frozen=True):
    """A lease, or a request that waits in line for one."""

    lease: str
    #: `held` or `waiting`.
    state: str
    agent: str
    exclusive: list[str]
    shared: list[str]
    #: The priority that it was asked for at; of a request, with what its agent has inherited.
    priority: str
    #: When it ends unless it is renewed.
    expires_at: str | None = None
    #: Place in line, from 1.
    place: int | None = None
    #: When it gives up waiting.
    wait_until: str | None = None
    #: Who holds what it waits for.
    holders: list[str] = []
    #: Whether the same request had been made before.
    duplicate: bool = False


class LeasesView(msgspec.Struct, frozen=True):
    """Who holds what, oldest first, and who waits, first in line first."""

    held: list[LeaseView]
    waiting: list[LeaseView]


class TouchView(msgspec.Struct, frozen=True):
    """A path that somebody else holds."""

    path: str
    #: The resource that covers it, as it is held.
    resource: str
    lease: str
    holder: str
    shared: bool
    expires_at: str


class ListQuery(msgspec.Struct, frozen=True):
    """Which leases to list."""

    #: Only those that conflict with this name or glob.
    resource: str | None = None
    #: Only those of this agent.
    agent: str | None = None
    #: At most this many of each.
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 500


def _view(reply: cmd.Reply) -> LeaseView:
    if isinstance(reply, cmd.Held):
        return LeaseView(
            reply.lease,
            "held",
            reply.holder,
            list(reply.exclusive),
            list(reply.shared),
            liminal_name(Priority(reply.priority)),
            expires_at=iso(reply.expires_at),
            duplicate=reply.duplicate,
        )
    if isinstance(reply, cmd.Queued):
        return LeaseView(
            reply.lease,
            "waiting",
            reply.agent,
            list(reply.exclusive),
            list(reply.shared),
            liminal_name(Priority(reply.priority)),
            place=reply.place,
            wait_until=iso(reply.wait_until),
            holders=list(reply.holders),
            duplicate=reply.duplicate,
        )
    raise TypeError(type(reply).__name__)


def _priority(name: str | None) -> int | None:
    if name is None:
        return None
    if name not in VOCABULARY:
        expected = "one of " + ", ".join(liminal_name(level) for level in Priority)
        raise refusal("E_VALIDATION_003", f"{name[:64]!r} is no priority", field="$.priority", expected=expected)
    return VOCABULARY[name]


async def acquire_lease(call: Call) -> LeaseView:
    """Hold resources, all or nothing; 202 where the request waits in line."""
    body = call.body
    command = cmd.AcquireLease(
        tuple(body.exclusive), tuple(body.shared), body.ttl_s, body.wait_s, _priority(body.priority), body.lease
    )
    view = _view(await call.submit(command))
    call.status = 200 if view.state == "held" else 202
    return view


async def renew_lease(call: Call) -> LeaseView:
    """Keep a lease for longer."""
    return _view(await call.submit(cmd.RenewLease(call.path["lease"], call.body.ttl_s)))


async def release_lease(call: Call) -> cmd.Reply:
    """Set a lease free, or leave the line."""
    return await call.submit(cmd.ReleaseLease(call.path["lease"]))


async def release_resources(call: Call) -> cmd.Reply:
    """Set resources free by the very names that they are held under."""
    return await call.submit(cmd.ReleaseLease(resources=tuple(call.body.resources)))


async def force_release(call: Call) -> cmd.Reply:
    """Take a lease, or a place in line, away from whoever has it; for directors and humans."""
    return await call.submit(cmd.ForceRelease(call.path["lease"], call.body.reason))


async def leases(call: Call) -> LeasesView:
    """List who holds what, and who waits for it."""
    state, query = call.hub.host.exchange.state, call.query
    book = state.leases
    if query.resource is not None:
        checked_resource(query.resource, state.policy)
        held, waiting = book.holding(query.resource), book.waiting_for(query.resource)
    else:
        held = sorted(book.leases.values(), key=lambda lease: lease.seq)
        waiting = sorted(book.queue.values(), key=book.order)
    mine = [lease for lease in held if query.agent in (None, lease.holder)]
    asked = [request for request in waiting if query.agent in (None, request.agent)]
    view = LeasesView(
        [_view(held_of(lease)) for lease in mine[: query.limit]],
        [_view(queued_of(state, request)) for request in asked[: query.limit]],
    )
    await call.durable()
    return view


async def lease(call: Call) -> LeaseView:
    """Show one lease, or one request."""
    state, name = call.hub.host.exchange.state, call.path["lease"]
    held, queued = state.leases.leases.get(name), state.leases.queue.get(name)
    if held is None and queued is None:
        raise refusal("E_LEASE_001", f"nobody holds or waits for {name[:128]}", found=name[:128])
    view = _view(held_of(held) if held is not None else queued_of(state, queued))  # type: ignore[arg-type]
    await call.durable()
    return view


async def check_paths(call: Call) -> list[TouchView]:
    """Say which of some paths another agent holds; the caller's own leases are in nobody's way."""
    book, limit = call.hub.host.exchange.state.leases, call.hub.host.exchange.state.policy.limits.batch_max
    paths: list[str] = call.body.paths
    if len(paths) > limit:
        raise refusal("E_ADMISSION_008", f"at most {limit} paths at a time", retryable=False)
    touched = [
        _touch(path, lease, number)
        for path in paths
        for lease, number in book.covering(path)
        if lease.holder != call.caller.agent
    ]
    await call.durable()
    return touched


def _touch(path: str, lease: Lease, number: int) -> TouchView:
    claim = lease.claims[number]
    return TouchView(path, claim.resource, lease.lease, lease.holder, claim.shared, iso(lease.expires_at))


_LEASES = "/v1/leases"

OPERATIONS = (
    Operation("POST", _LEASES, acquire_lease, LeaseView, body=AcquireBody, tag="leases", also=(202,)),
    Operation("GET", _LEASES, leases, LeasesView, query=ListQuery, tag="leases"),
    Operation("POST", _LEASES + "/release", release_resources, cmd.Released, body=ReleaseBody, tag="leases"),
    Operation("POST", _LEASES + "/check", check_paths, list[TouchView], body=CheckBody, tag="leases"),
    Operation("GET", _LEASES + "/{lease}", lease, LeaseView, tag="leases"),
    Operation("DELETE", _LEASES + "/{lease}", release_lease, cmd.Released, tag="leases"),
    Operation("POST", _LEASES + "/{lease}/renew", renew_lease, LeaseView, body=RenewBody, tag="leases"),
    Operation("POST", _LEASES + "/{lease}/force-release", force_release, cmd.Released, body=ForceBody, tag="leases"),
)

"""Handlers of the operations that read leases and the wait-for graph."""

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.leases.decisions import held_of, queued_of
from tocsin.core.leases.limits import check_reach, checked_resource
from tocsin.core.leases.model import Lease, LeaseRequest
from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.core.protocol.timestamps import as_datetime, as_datetime_or_none
from tocsin.core.state import ProjectState
from tocsin.core.waiting.graph import Wait
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.pages import CLOSED, Key, in_turns, page_rows
from tocsin.wire import leases as wire

__all__ = ["HANDLERS"]


async def list_leases(call: Call, request: wire.ListLeases) -> wire.LeaseRecords:
    """List leases and waiting requests."""
    state, agent = call.state, request.agent
    book = state.leases
    rows: list[Lease | LeaseRequest] = []
    if request.resource is not None:
        check_reach(book, [checked_resource(request.resource, state.policy)], state.policy.leases)
        rows += book.holding(request.resource)
        rows += book.waiting_for(request.resource)
    else:
        rows += book.leases.values()
        rows += book.queue.values()
    found, following = await page_rows(call, request, rows, _place, lambda row: agent in (None, _holder(row)))
    held = [row for row in found if isinstance(row, Lease)]
    waiting = [row for row in found if isinstance(row, LeaseRequest) and row.lease in book.queue]
    waiting.sort(key=book.order)
    async with call.project.listing:
        records = wire.LeaseRecords(
            [held_of(lease) async for lease in in_turns(call, held)],
            [queued_of(state, row) async for row in in_turns(call, waiting) if row.lease in book.queue],
            following,
        )
    await call.durable()
    return records


def _place(row: Lease | LeaseRequest) -> Key:
    """Return the key of a lease, oldest first, or of a waiting request after all leases."""
    return (row.seq, row.lease) if isinstance(row, Lease) else (row.seq + CLOSED, row.lease)


def _holder(row: Lease | LeaseRequest) -> str:
    return row.holder if isinstance(row, Lease) else row.agent


async def get_lease(call: Call, request: wire.GetLease) -> cmd.LeaseRecord:
    """Describe a lease or a waiting request."""
    book, name = call.state.leases, request.lease
    if name in book.leases:
        record = held_of(book.leases[name])
    elif name in book.queue:
        record = queued_of(call.state, book.queue[name])
    else:
        raise refusal("E_LEASE_001", f"there is no lease or waiting request {name[:128]}", found=name[:128])
    await call.durable()
    return record


async def release_resources(call: Call, request: wire.ReleaseResources) -> cmd.Released:
    """Release resources by name."""
    released: cmd.Released = await call.submit(cmd.ReleaseLease(resources=request.resources))
    return released


async def check_paths(call: Call, request: wire.CheckPaths) -> list[wire.PathConflict]:
    """List the paths that other agents hold."""
    book, limit = call.state.leases, call.state.policy.limits.batch_max
    if len(request.paths) > limit:
        raise refusal("E_ADMISSION_008", f"at most {limit} paths at a time", retryable=False)
    async with call.project.listing:
        conflicts = [
            _conflict(path, lease, number)
            async for path in in_turns(call, request.paths)
            for lease, number in book.covering(path)
            if lease.holder != call.agent
        ]
    await call.durable()
    return conflicts


def _conflict(path: str, lease: Lease, number: int) -> wire.PathConflict:
    claim = lease.claims[number]
    return wire.PathConflict(
        path, claim.resource, lease.lease, lease.holder, claim.shared, as_datetime(lease.expires_at)
    )


async def list_waits(call: Call, request: wire.ListWaits) -> wire.WaitGraphRecord:
    """Describe the wait-for graph."""
    state = call.state
    waits, following = await page_rows(call, request, state.waits.waits.values(), lambda wait: (wait.seq, wait.key))
    names = dict.fromkeys(state.inherited)
    for wait in waits:
        names |= dict.fromkeys((wait.waiter, *wait.on, *wait.behind))
    held: dict[str, int] = {}
    async with call.project.listing:
        async for lease in in_turns(call, state.leases.leases.values()):
            held[lease.holder] = held.get(lease.holder, 0) + 1
        graph = wire.WaitGraphRecord(
            [_agent(state, name, held) async for name in in_turns(call, sorted(names))],
            [_wait(state, wait) async for wait in in_turns(call, waits)],
            len(state.waits.waits),
            following,
        )
    await call.durable()
    return graph


def _agent(state: ProjectState, agent: str, held: dict[str, int]) -> wire.WaitingAgent:
    level = state.inherited.get(agent)
    return wire.WaitingAgent(
        agent=agent,
        holds=held.get(agent, 0),
        waits=len(state.waits.by_waiter.get(agent, ())),
        waited_for=len(state.waits.upon.get(agent, ())),
        inherited=None if level is None else PRIORITY_NAMES[level],
    )


def _wait(state: ProjectState, wait: Wait) -> wire.WaitRecord:
    return wire.WaitRecord(
        waiter=wait.waiter,
        kind=wait.kind,
        ref=wait.ref,
        what=_subject(state, wait),
        since=as_datetime_or_none(wait.since),
        priority=PRIORITY_NAMES[wait.level],
        any_of=wait.any_of,
        on=sorted(wait.on),
        behind=sorted(wait.behind),
    )


def _subject(state: ProjectState, wait: Wait) -> str:
    """Describe what a wait is for."""
    if wait.kind == "lease" and (request := state.leases.queue.get(wait.ref)) is not None:
        return ", ".join(claim.resource for claim in request.claims)
    if wait.kind == "approval" and (approval := state.approvals.get(wait.ref)) is not None:
        return approval.subject
    if wait.kind == "discussion" and (discussion := state.discussions.get(wait.ref)) is not None:
        return discussion.question
    return wait.ref


HANDLERS: dict[str, Handler] = {
    "list_leases": list_leases,
    "get_lease": get_lease,
    "release_resources": release_resources,
    "check_paths": check_paths,
    "list_waits": list_waits,
}

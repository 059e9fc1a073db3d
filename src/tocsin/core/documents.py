"""Coordination state as JSON documents: the events that touch each kind, its encoding and its restoration.

A document is one JSON object under a kind and an id. All coordination state is stored this way, so a new kind needs one
entry in `KINDS`, and the snapshot, the tables and the recovery then include it. An entry maps event types to the ids
that they touch; a document that does not exist after an event is removed. Documents are restored kind by kind in the
order of `KINDS`, and within a kind by `seq`, where there is one, and by id.
"""

from collections.abc import Callable, Iterable, Sized
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.leases.model import LapsedLease, Lease, LeaseRequest
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import (
    Alert,
    Approval,
    Attention,
    Deferred,
    Discussion,
    Escalation,
    FoldedNotices,
    Request,
    Topic,
)
from tocsin.core.waiting.graph import Wait, wait_key
from tocsin.core.wake.model import IgnoredChannel, Wakers, Waking

__all__ = [
    "DOCUMENT_EVENTS",
    "KINDS",
    "Kind",
    "document",
    "document_count",
    "documents",
    "restore_documents",
    "touched",
]


class Kind(msgspec.Struct, frozen=True):
    """One kind of document."""

    name: str
    #: Ids of the documents that an event touches, by the event's type.
    touched: dict[type, Callable[[Any], Iterable[str]]]
    #: Returns the ids of all documents.
    ids: Callable[[ProjectState], Iterable[str]]
    #: Returns one document, as `row` or as plain data; null once it does not exist.
    read: Callable[[ProjectState, str], Any]
    #: Type that a document is decoded as.
    row: Any
    #: Adds a decoded document to a state that is being restored.
    restore: Callable[[ProjectState, Any], None]


class InheritanceRow(msgspec.Struct, frozen=True):
    """Priority level that an agent has inherited."""

    agent: str
    level: int


class WaitRow(msgspec.Struct, frozen=True):
    """A wait and the agents that it waits for."""

    waiter: str
    kind: str
    ref: str
    since: int
    level: int
    seq: int
    any_of: bool
    on: list[str]


def _wait_of(event: Any) -> tuple[str]:
    return (wait_key(event.wait_kind, event.ref, event.waiter),)


def _raised_request(event: ev.WaitRaised) -> tuple[str, ...]:
    return (event.ref,) if event.wait_kind == "lease" else ()


def _read_wait(state: ProjectState, key: str) -> WaitRow | None:
    wait = state.waits.waits.get(key)
    if wait is None or wait.kind == "lease":
        return None
    on = sorted(wait.on)
    return WaitRow(wait.waiter, wait.kind, wait.ref, wait.since, wait.level, wait.seq, wait.any_of, on)


def _restore_wait(state: ProjectState, row: WaitRow) -> None:
    on = dict.fromkeys(row.on, 1)
    state.waits.add(Wait(row.waiter, row.kind, row.ref, row.since, row.level, row.seq, row.any_of, on))


def _read_inheritance(state: ProjectState, agent: str) -> InheritanceRow | None:
    level = state.inherited.get(agent)
    return None if level is None else InheritanceRow(agent, level)


def _restore_inheritance(state: ProjectState, row: InheritanceRow) -> None:
    state.inherited[row.agent] = row.level


def _lease_of(event: Any) -> tuple[str]:
    return (event.lease,)


def _granted(event: ev.LeaseGranted) -> tuple[str, ...]:
    return (event.lease, *event.passed)


def _lapsed(event: ev.LeaseLapsed | ev.LeaseReclaimed) -> tuple[str, ...]:
    return (event.lease, *event.forgotten)


def _restore_lapsed(state: ProjectState, row: LapsedLease) -> None:
    state.leases.lapsed[row.lease] = row


def _restore_folded(state: ProjectState, row: FoldedNotices) -> None:
    state.folded[row.key] = row


def _restore_deferred(state: ProjectState, row: Deferred) -> None:
    state.deferred[row.cause] = row


def _restore_wakers(state: ProjectState, row: Wakers) -> None:
    state.wakers = row


def _restore_wake(state: ProjectState, row: Waking) -> None:
    state.wakes[row.agent] = row
    if row.wake and not row.settled:
        state.wake_targets[row.message] = row.agent


_ENDS = (ev.LeaseLapsed, ev.LeaseReclaimed)
_LEASE_EVENTS = (ev.LeaseGranted, ev.LeaseRenewed, ev.LeaseExpiring, ev.LeaseReleased, *_ENDS)


def _kept(name: str, row: Any, table: Callable[[ProjectState], dict[str, Any]], key: str, *events: type) -> Kind:
    """Return the entry of a kind whose documents are structs of the state, named by one field in all its events."""

    def named(holder: Any) -> str:
        return str(getattr(holder, key))

    def restore(state: ProjectState, document: Any) -> None:
        table(state)[named(document)] = document

    touches: dict[type, Callable[[Any], Iterable[str]]] = dict.fromkeys(events, lambda event: (named(event),))
    return Kind(name, touches, table, lambda state, id_: table(state).get(id_), row, restore)


#: All kinds, in the order of restoration.
KINDS: tuple[Kind, ...] = (
    Kind(
        "inheritance",
        dict.fromkeys((ev.PriorityInherited, ev.PriorityRestored), lambda event: (event.agent,)),
        lambda state: state.inherited,
        _read_inheritance,
        InheritanceRow,
        _restore_inheritance,
    ),
    Kind(
        "lease",
        dict.fromkeys(_LEASE_EVENTS, _lease_of),
        lambda state: state.leases.leases,
        lambda state, id_: state.leases.leases.get(id_),
        Lease,
        lambda state, row: state.leases.hold(row),
    ),
    Kind(
        "lease_request",
        {
            ev.LeaseQueued: _lease_of,
            ev.LeaseGranted: _granted,
            ev.LeaseWaitEnded: _lease_of,
            ev.WaitRaised: _raised_request,
        },
        lambda state: state.leases.queue,
        lambda state, id_: state.leases.queue.get(id_),
        LeaseRequest,
        lambda state, row: state.leases.enter(row),
    ),
    Kind(
        "lapsed_lease",
        dict.fromkeys(_ENDS, _lapsed),
        lambda state: state.leases.lapsed,
        lambda state, id_: state.leases.lapsed.get(id_),
        LapsedLease,
        _restore_lapsed,
    ),
    Kind(
        "wait",
        dict.fromkeys((ev.WaitBegan, ev.WaitShifted, ev.WaitRaised, ev.WaitEnded), _wait_of),
        lambda state: (key for key, wait in state.waits.waits.items() if wait.kind != "lease"),
        _read_wait,
        WaitRow,
        _restore_wait,
    ),
    _kept(
        "attention",
        Attention,
        lambda state: state.attention,
        "agent",
        *(ev.WorkBegun, ev.PausePointReached, ev.WorkContinued, ev.InterruptRaised, ev.InterruptEnded),
        *(ev.WorkPutAside, ev.WorkResumed, ev.WorkFinished, ev.AttentionLapsed, ev.AgentRetired),
    ),
    Kind(
        "request",
        dict.fromkeys((ev.RequestOpened, ev.RequestExtended, ev.RequestEnded), lambda event: (event.request,)),
        lambda state: state.requests,
        lambda state, name: state.requests.get(name),
        Request,
        lambda state, row: state.remember_request(row),
    ),
    _kept(
        "approval",
        Approval,
        lambda state: state.approvals,
        "approval",
        *(ev.ApprovalRequested, ev.ApprovalOverdue, ev.ApprovalEnded),
    ),
    _kept(
        "discussion",
        Discussion,
        lambda state: state.discussions,
        "discussion",
        *(ev.DiscussionOpened, ev.DiscussionSpoken, ev.VoteCast, ev.DiscussionLeft),
        *(ev.ConsensusReached, ev.DiscussionClosed),
    ),
    _kept("topic", Topic, lambda state: state.topics, "topic", ev.Subscribed, ev.Unsubscribed),
    _kept(
        "alert",
        Alert,
        lambda state: state.alerts,
        "metric",
        *(ev.HealthBreached, ev.HealthRecovered, ev.AlertRaised, ev.AlertEased, ev.AlertWorsened, ev.AlertCleared),
    ),
    Kind(
        "folded_notices",
        {ev.NoticeFolded: lambda event: (f"{event.recipient} {event.subject}",)},
        lambda state: state.folded,
        lambda state, key: state.folded.get(key),
        FoldedNotices,
        _restore_folded,
    ),
    Kind(
        "escalation",
        {
            ev.EscalationOpened: lambda event: (event.escalation,),
            ev.EscalationMoved: lambda event: (event.escalation,),
            ev.EscalationsForgotten: lambda event: event.escalations,
        },
        lambda state: state.escalations,
        lambda state, name: state.escalations.get(name),
        Escalation,
        lambda state, row: state.remember_escalation(row),
    ),
    Kind(
        "deferred_escalation",
        {
            ev.EscalationDeferred: lambda event: (event.cause,),
            ev.EscalationOpened: lambda event: (event.cause,),
            ev.EscalationsForgotten: lambda event: event.causes,
        },
        lambda state: state.deferred,
        lambda state, cause: state.deferred.get(cause),
        Deferred,
        _restore_deferred,
    ),
    Kind(
        "wakers",
        {ev.WakersDeclared: lambda event: (Wakers().name,)},
        lambda state: (state.wakers.name,) if state.wakers != Wakers() else (),
        lambda state, name: state.wakers if state.wakers != Wakers() else None,
        Wakers,
        _restore_wakers,
    ),
    Kind(
        "wake",
        dict.fromkeys(
            (
                *(ev.AgentWakeRequested, ev.AgentWoken, ev.AgentWakeFailed, ev.WakerExited),
                *(ev.SessionOpened, ev.SessionWentStale, ev.SessionClosed, ev.AgentRetired, ev.ChannelIgnored),
            ),
            lambda event: (event.agent,),
        ),
        lambda state: state.wakes,
        lambda state, name: state.wakes.get(name),
        Waking,
        _restore_wake,
    ),
    _kept(
        "ignored_channel",
        IgnoredChannel,
        lambda state: state.ignored,
        "session",
        *(ev.ChannelIgnored, ev.ChannelAnswered, ev.SessionClosed),
    ),
)

#: Events that touch a document.
DOCUMENT_EVENTS = frozenset(event for kind in KINDS for event in kind.touched)
_BY_NAME = {kind.name: kind for kind in KINDS}
_JSON = msgspec.json.Encoder()


def touched(event: Event) -> list[tuple[str, str]]:
    """Return the kind and id of each document that an event touches."""
    return [
        (kind.name, id_) for kind in KINDS if (ids := kind.touched.get(type(event))) is not None for id_ in ids(event)
    ]


def document(state: ProjectState, kind: str, id_: str) -> bytes | None:
    """Return a document as JSON, or null where it does not exist."""
    row = _BY_NAME[kind].read(state, id_)
    return None if row is None else _JSON.encode(row)


def documents(state: ProjectState) -> list[tuple[str, str, bytes]]:
    """Return all documents as kind, id and JSON."""
    found: list[tuple[str, str, bytes]] = []
    for kind in KINDS:
        found += [(kind.name, id_, _JSON.encode(kind.read(state, id_))) for id_ in sorted(kind.ids(state))]
    return found


def document_count(state: ProjectState) -> int:
    """Return the number of documents."""
    count = 0
    for kind in KINDS:
        ids = kind.ids(state)
        count += len(ids) if isinstance(ids, Sized) else sum(1 for _ in ids)
    return count


def restore_documents(state: ProjectState, found: Iterable[tuple[str, str, bytes]]) -> None:
    """Add documents to a state that already has its policy, agents and messages."""
    by_kind: dict[str, list[tuple[str, bytes]]] = {kind.name: [] for kind in KINDS}
    for name, id_, data in found:
        by_kind[name].append((id_, data))
    for kind in KINDS:
        rows = [msgspec.json.decode(data, type=kind.row) for _, data in sorted(by_kind[kind.name])]
        for row in sorted(rows, key=lambda row: getattr(row, "seq", 0)):
            kind.restore(state, row)
    state.order_closed_escalations()

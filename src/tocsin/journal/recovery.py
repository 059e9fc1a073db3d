"""Opening a project: read the tables, apply the journal's tail.

The result is the state that the events add up to, bit for bit, as if every event had been replayed.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tocsin.core.messages.model import NEVER, Failure, Message, PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.snapshot import AgentRow, BroadcastRow, SessionRow, Snapshot, restore
from tocsin.core.state import IdSource, Thread
from tocsin.journal.base import Journal
from tocsin.journal.changes import Memory, ObservedExchange
from tocsin.journal.errors import JournalDamaged
from tocsin.journal.log import tail
from tocsin.journal.tables import AGENTS, BROADCASTS, DOCUMENTS, MESSAGES, POLICIES, SESSIONS, THREADS, Tables

__all__ = ["reopen", "snapshot_of"]

_STATES = {state.value: state for state in State}
_CLASSES = {item.value: item for item in DeliveryClass}
_RECIPIENTS = {item.value: item for item in RecipientState}
_PATHS = {item.value: item for item in PublishPath}


def reopen(journal: Journal, tables: Tables, ids: IdSource) -> ObservedExchange:
    """Bring a project back to life, as of the last commit."""
    standing = tables.standing()
    if standing.seq > journal.last_seq():
        raise JournalDamaged(
            f"the tables know event {standing.seq}, the journal ends with {journal.last_seq()}: commits were lost"
        )
    with _no_collections():
        snapshot, memory = snapshot_of(tables)
        exchange = ObservedExchange(ids, restore(snapshot), memory, standing.at)
        del snapshot
        for _, event in tail(journal, standing.seq):
            exchange.apply(event)
    return exchange


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep the garbage collector away while a million objects are made that all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def snapshot_of(tables: Tables) -> tuple[Snapshot, Memory]:
    """Read the state out of the tables, with the numbers that only they keep."""
    standing = tables.standing()
    memory = Memory({}, {}, standing.settled_head, standing.acknowledged_head)
    policy: Any = None
    for row in tables.rows(POLICIES, order="version DESC"):
        policy = msgspec.json.decode(row[5])
        break
    broadcasts = {row[0]: row for row in tables.rows(BROADCASTS, where=_LIVE_BROADCASTS, order="seq")}
    messages, flights, copies, failures, dead = _messages(tables, broadcasts)
    snapshot = Snapshot(
        seq=standing.seq,
        policy_version=standing.policy_version,
        policy=policy,
        agents=[_agent(row, memory) for row in tables.rows(AGENTS, "retired_at IS NULL", "registered_seq")],
        sessions=[_session(row, flights, memory) for row in tables.rows(SESSIONS, "closed_at IS NULL", "opened_seq")],
        messages=messages,
        broadcasts=[_broadcast(row, copies[seq]) for seq, row in broadcasts.items() if copies[seq]],
        threads=[Thread(*row[:6]) for row in tables.rows(THREADS, order="touched_seq")],
        failures=failures,
        dead=dead,
        settled=tables.line("settled"),
        acknowledged=tables.line("acknowledged"),
        rate=standing.rate,
        rate_changed_at=standing.rate_changed_at,
        latencies=standing.latencies,
        documents=[(kind, id_, bytes(data)) for kind, id_, data in tables.rows(DOCUMENTS)],
    )
    return snapshot, memory


_LIVE_BROADCASTS = (
    "seq IN (SELECT broadcast_seq FROM signal_queue WHERE broadcast_seq IS NOT NULL AND remembered IS TRUE)"
)


def _messages(
    tables: Tables, broadcasts: dict[int, tuple[Any, ...]]
) -> tuple[list[Message], dict[str, list[int]], dict[int, list[tuple[str, int]]], list[tuple[int, Failure]], list[int]]:
    """Read what the state remembers: messages, offers by session, copies by broadcast, failures, dead letters."""
    messages: list[Message] = []
    flights: list[tuple[int, str, int]] = []
    copies: dict[int, list[tuple[str, int]]] = {seq: [] for seq in broadcasts}
    failures: list[tuple[int, Failure]] = []
    dead: list[tuple[int, int]] = []
    known: dict[Any, Any] = {}
    same = known.setdefault
    for (
        seq, _, message_id, sender, recipient, message_type, priority, level, requested, importance, decay_rate,
        delivery_class, ack_required, state, created_at, enqueued_at, expires_at, sent_at, payload, metadata,
        correlation_id, broadcast_id, broadcast_seq, recipient_state, publish_path, resolved_session, pushed, attempts,
        offers, boosts, overdue, backing_off, ready_at, offered_at, delivered_at, acked_at, processed_at, expired_at,
        recalled_at, dead_at, _, session, digest, failed, first_failed_at, last_failed_at, failure_reason, failure_code,
        offered_seq, dead_seq, _, own_level, lent, _,
    ) in tables.rows(MESSAGES, where="remembered IS TRUE", order="seq"):  # fmt: skip
        if digest is not None:
            payload = metadata = b""
        elif broadcast_seq is not None:
            payload, metadata = broadcasts[broadcast_seq][8:10]
        messages.append(
            Message(
                seq,
                message_id,
                same(sender, sender),
                same(recipient, recipient),
                same(message_type, message_type),
                priority,
                level,
                requested,
                importance,
                decay_rate,
                _CLASSES[delivery_class],
                bool(ack_required),
                _STATES[state],
                created_at,
                enqueued_at,
                expires_at,
                sent_at,
                payload,
                metadata,
                correlation_id,
                broadcast_id,
                _RECIPIENTS[recipient_state],
                _PATHS[publish_path],
                same(resolved_session, resolved_session),
                bool(pushed),
                attempts,
                offers,
                boosts,
                bool(overdue),
                bool(backing_off),
                ready_at or NEVER,
                offered_at or NEVER,
                delivered_at or NEVER,
                acked_at or NEVER,
                processed_at or NEVER,
                expired_at or NEVER,
                recalled_at or NEVER,
                dead_at or NEVER,
                same(session, session),
                digest,
                level if own_level is None else own_level,
                lent or 0,
            )
        )
        if session is not None:
            flights.append((offered_seq, session, seq))
        if broadcast_seq is not None:
            copies[broadcast_seq].append((recipient, seq))
        if failed is not None:
            failures.append((seq, Failure(failed, first_failed_at, last_failed_at, failure_reason, failure_code)))
        if state == "dead":
            dead.append((dead_seq, seq))
    by_session: dict[str, list[int]] = {}
    for _, session, seq in sorted(flights):
        by_session.setdefault(session, []).append(seq)
    return messages, by_session, copies, failures, [seq for _, seq in sorted(dead)]


def _agent(row: tuple[Any, ...], memory: Memory) -> AgentRow:
    memory.agents[row[0]] = row[1]
    return AgentRow(
        agent=row[0],
        agent_type=row[2],
        role=row[3],
        version=row[4],
        supported=tuple(msgspec.json.decode(row[5])),
        capabilities=tuple(msgspec.json.decode(row[6])),
        registered_at=row[7],
        tokens=row[9],
        tokens_at=row[10] or NEVER,
        critical_quota=row[11],
        blocking_quota=row[12],
        quotas_at=row[13] or NEVER,
        usage=msgspec.msgpack.decode(row[14]),
        gaming=bool(row[15]),
    )


def _session(row: tuple[Any, ...], flights: dict[str, list[int]], memory: Memory) -> SessionRow:
    memory.sessions[row[0]] = row[1]
    return SessionRow(row[0], row[2], row[3], row[4], row[5], row[7], flights.get(row[0], []), bool(row[8]))


def _broadcast(row: tuple[Any, ...], copies: list[tuple[str, int]]) -> BroadcastRow:
    return BroadcastRow(
        broadcast=row[1],
        sender=row[2],
        message_type=row[3],
        receiver_type=row[4],
        copies=copies,
        failed=tuple(msgspec.json.decode(row[5])),
        payload=row[8],
        metadata=row[9],
        accepted=row[6],
    )

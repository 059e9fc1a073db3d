"""Rebuilding a project's state: read the tables, then apply the events of the journal that they do not include.

The result is bit for bit the state that replaying every event would give.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tocsin.core.messages.model import Failure, Message, State
from tocsin.core.snapshot import AgentRow, BroadcastRow, SessionRow, Snapshot, restore
from tocsin.core.state import IdSource, Thread
from tocsin.journal.base import Journal
from tocsin.journal.changes import EventNumbers, ObservedExchange
from tocsin.journal.columns import row_reader
from tocsin.journal.errors import JournalDamaged
from tocsin.journal.log import tail
from tocsin.journal.table_definitions import (
    AGENT_COLUMNS,
    AGENTS,
    BROADCAST_COLUMNS,
    BROADCASTS,
    CONTENT_COLUMNS,
    DOCUMENTS,
    FAILURE_COLUMNS,
    MESSAGE_COLUMNS,
    MESSAGES,
    POLICIES,
    SESSION_COLUMNS,
    SESSIONS,
    THREAD_COLUMNS,
    THREADS,
)
from tocsin.journal.tables import Tables

__all__ = ["reopen", "snapshot_of"]

_message = row_reader(Message, MESSAGES, (*MESSAGE_COLUMNS, *CONTENT_COLUMNS))
_failure = row_reader(Failure, MESSAGES, FAILURE_COLUMNS)
_agent = row_reader(AgentRow, AGENTS, AGENT_COLUMNS)
_session = row_reader(SessionRow, SESSIONS, SESSION_COLUMNS, given=("in_flight",))
_broadcast = row_reader(BroadcastRow, BROADCASTS, BROADCAST_COLUMNS, given=("copies",))
_thread = row_reader(Thread, THREADS, THREAD_COLUMNS)
_message_details = MESSAGES.values_of("broadcast_seq", "failures", "own_level")
_offered_seq = MESSAGES.values_of("offered_seq")
_dead_seq = MESSAGES.values_of("dead_seq")
_agent_numbers = AGENTS.values_of("agent", "registered_seq")
_session_numbers = SESSIONS.values_of("session", "opened_seq")
_broadcast_number = BROADCASTS.values_of("seq")
_policy_document = POLICIES.values_of("document")


def reopen(journal: Journal, tables: Tables, ids: IdSource) -> ObservedExchange:
    """Return the exchange of a project, as of the last commit."""
    standing = tables.standing()
    if standing.seq > journal.last_seq():
        raise JournalDamaged(
            f"the tables include event {standing.seq}, the journal ends with {journal.last_seq()}: commits were lost"
        )
    with _no_collections():
        snapshot, numbers = snapshot_of(tables)
        exchange = ObservedExchange(ids, restore(snapshot), numbers, standing.at)
        del snapshot
        for _, event in tail(journal, standing.seq):
            exchange.apply(event)
    return exchange


@contextmanager
def _no_collections() -> Iterator[None]:
    """Turn the garbage collector off while many objects are made that all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def snapshot_of(tables: Tables) -> tuple[Snapshot, EventNumbers]:
    """Read the state from the tables, with the numbers that only the tables hold."""
    standing = tables.standing()
    policy: Any = None
    for row in tables.rows(POLICIES, order="version DESC"):
        policy = msgspec.json.decode(_policy_document(row))
        break
    broadcasts = {
        _broadcast_number(row): _broadcast(row, []) for row in tables.rows(BROADCASTS, _LIVE_BROADCASTS, "seq")
    }
    messages, flights, failures, dead = _messages(tables, broadcasts)
    agents = list(tables.rows(AGENTS, "retired_at IS NULL", "registered_seq"))
    sessions = list(tables.rows(SESSIONS, "closed_at IS NULL", "opened_seq"))
    snapshot = Snapshot(
        seq=standing.seq,
        policy_version=standing.policy_version,
        policy=policy,
        agents=[_agent(row) for row in agents],
        sessions=[_session(row, flights.get(_session_numbers(row)[0], [])) for row in sessions],
        messages=messages,
        broadcasts=[broadcast for broadcast in broadcasts.values() if broadcast.copies],
        threads=[_thread(row) for row in tables.rows(THREADS, order="touched_seq")],
        failures=failures,
        dead=dead,
        settled=tables.ended_queue("settled"),
        acknowledged=tables.ended_queue("acknowledged"),
        rate=standing.rate,
        rate_changed_at=standing.rate_changed_at,
        latencies=standing.latencies,
        documents=[(kind, id_, bytes(data)) for kind, id_, data in tables.rows(DOCUMENTS)],
    )
    numbers = EventNumbers(
        dict(map(_agent_numbers, agents)),
        dict(map(_session_numbers, sessions)),
        standing.settled_head,
        standing.acknowledged_head,
    )
    return snapshot, numbers


_LIVE_BROADCASTS = (
    "seq IN (SELECT broadcast_seq FROM signal_queue WHERE broadcast_seq IS NOT NULL AND remembered IS TRUE)"
)


def _messages(
    tables: Tables, broadcasts: dict[int, BroadcastRow]
) -> tuple[list[Message], dict[str, list[int]], list[tuple[int, Failure]], list[int]]:
    """Read the messages that the state holds, their offers by session, their failures, and the dead letters.

    Copies of broadcasts are added to the broadcasts' rows.
    """
    messages: list[Message] = []
    flights: list[tuple[int, str, int]] = []
    failures: list[tuple[int, Failure]] = []
    dead: list[tuple[int, int]] = []
    for row in tables.rows(MESSAGES, where="remembered IS TRUE", order="seq"):
        message = _message(row)
        messages.append(message)
        broadcast_seq, failed, own_level = _message_details(row)
        if broadcast_seq is not None:
            broadcast = broadcasts[broadcast_seq]
            broadcast.copies.append((message.recipient, message.seq))
            message.payload, message.metadata = broadcast.payload, broadcast.metadata
        if message.digest is not None:
            message.payload = message.metadata = b""
        if own_level is None:  # a row from before the column was there
            message.own_level = message.level
        if failed is not None:
            failures.append((message.seq, _failure(row)))
        if message.session is not None:
            flights.append((_offered_seq(row), message.session, message.seq))
        if message.state is State.DEAD:
            dead.append((_dead_seq(row), message.seq))
    by_session: dict[str, list[int]] = {}
    for _, session, seq in sorted(flights):
        by_session.setdefault(session, []).append(seq)
    return messages, by_session, failures, [seq for _, seq in sorted(dead)]

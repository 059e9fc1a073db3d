"""Rebuilding a project's state: read the tables, then apply the events of the journal that they do not include.

The result is bit for bit the state that replaying every event would give. Every row and every group is verified by its
checksum when it is read. Damaged tables can be reset and rebuilt from the journal; a damaged group cannot.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import msgspec

from tocsin.core.messages.model import Failure, MessageRow, State
from tocsin.core.snapshot import AgentRow, BroadcastRow, SessionRow, Snapshot, restore
from tocsin.core.state import IdSource, Thread
from tocsin.journal.base import Journal
from tocsin.journal.changes import EventNumbers, ObservedExchange
from tocsin.journal.checksums import Seals, verified
from tocsin.journal.columns import Row, Table, row_reader
from tocsin.journal.errors import CommitsLost, TablesDamaged
from tocsin.journal.log import tail
from tocsin.journal.projection import batch_of
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
    RECOVERED,
    SEALED,
    SESSION_COLUMNS,
    SESSIONS,
    THREAD_COLUMNS,
    THREADS,
)
from tocsin.journal.tables import Standing, Tables

__all__ = ["rebuild", "reopen", "snapshot_of"]

_message = row_reader(MessageRow, MESSAGES, (*MESSAGE_COLUMNS, *CONTENT_COLUMNS))
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
_policy_version = POLICIES.values_of("version")


def reopen(journal: Journal, tables: Tables, ids: IdSource) -> ObservedExchange:
    """Return the exchange of a project, as of the last commit; raise `TablesDamaged` if only the tables are damaged."""
    return _replayed(journal, tables, ids, rebuilding=False)


def rebuild(journal: Journal, tables: Tables, ids: IdSource) -> ObservedExchange:
    """Return the exchange of a project whose tables have been reset, and write the tables up to the last commit."""
    return _replayed(journal, tables, ids, rebuilding=True)


def _replayed(journal: Journal, tables: Tables, ids: IdSource, *, rebuilding: bool) -> ObservedExchange:
    standing = tables.standing()
    if standing.seq > journal.last_seq():
        raise CommitsLost("the journal", journal.last_seq(), standing.seq)
    if standing.seq < (pruned := journal.pruned_seq()):
        raise TablesDamaged(
            f"the tables end with event {standing.seq}, but events up to {pruned} are no longer in the journal"
        )
    with _no_collections():
        snapshot, numbers = snapshot_of(tables)
        with _readable():
            state = restore(snapshot, emptied=True)
        exchange = ObservedExchange(ids, state, numbers, standing.at)
        del snapshot
        for _, event in tail(journal, standing.seq):
            exchange.apply(event)
            if rebuilding and exchange.uncaptured >= _step(exchange):
                tables.write(batch_of(exchange.capture()))
    if rebuilding and exchange.uncaptured:
        tables.write(batch_of(exchange.capture()))
    return exchange


def _step(exchange: ObservedExchange) -> float:
    """Return the number of events after which tables that are being rebuilt are written."""
    state = exchange.state
    return state.policy.storage.projection_events_max if state.has_policy else inf


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
    """Read the state from the tables, with the numbers that only the tables hold; raise where a row is damaged."""
    standing = tables.standing()
    with _readable():
        return _read(tables, standing)


@contextmanager
def _readable() -> Iterator[None]:
    """Report values that cannot be what was written as damage.

    Rows from before there were checksums are only as good as what can be made of them.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise TablesDamaged(f"a row cannot be read: {type(error).__name__}: {error}") from error


def _read(tables: Tables, standing: Standing) -> tuple[Snapshot, EventNumbers]:
    seals = Seals(standing.sealed)
    policy: Any = None
    for row in verified(POLICIES, tables.rows(POLICIES, order="version DESC"), seals):
        if _policy_version(row) == standing.policy_version:
            policy = msgspec.json.decode(_policy_document(row))
        break
    if policy is None and standing.policy_version:
        raise TablesDamaged(f"table policies: version {standing.policy_version} is missing")
    broadcasts = {
        _broadcast_number(row): _broadcast(row, [])
        for row in verified(BROADCASTS, tables.rows(BROADCASTS, RECOVERED[BROADCASTS], "seq"), seals)
    }
    messages, flights, failures, dead = _messages(tables, broadcasts, seals)
    agents = _rows(tables, seals, AGENTS, order="registered_seq")
    sessions = _rows(tables, seals, SESSIONS, order="opened_seq")
    threads = _rows(tables, seals, THREADS, order="touched_seq")
    documents = _rows(tables, seals, DOCUMENTS)
    found = (("signal_queue", messages), ("agents", agents), ("sessions", sessions), ("threads", threads))
    for name, rows in (*found, ("documents", documents)):
        if len(rows) != standing.held.get(name, len(rows)):
            raise TablesDamaged(f"table {name} has {len(rows)} of the {standing.held[name]} rows that were written")
    snapshot = Snapshot(
        seq=standing.seq,
        policy_version=standing.policy_version,
        policy=policy,
        agents=[_agent(row) for row in agents],
        sessions=[_session(row, flights.get(_session_numbers(row)[0], [])) for row in sessions],
        messages=messages,
        broadcasts=[_without_content(broadcast) for broadcast in broadcasts.values() if broadcast.copies],
        threads=[_thread(row) for row in threads],
        failures=failures,
        dead=dead,
        settled=tables.stored_queue("settled", seals),
        acknowledged=tables.stored_queue("acknowledged", seals),
        rate=standing.rate,
        rate_changed_at=standing.rate_changed_at,
        latencies=standing.latencies if standing.latencies_end is None else tables.stored_queue("latencies", seals),
        documents=[(kind, id_, bytes(data)) for kind, id_, data, _ in documents],
    )
    numbers = EventNumbers(
        dict(map(_agent_numbers, agents)),
        dict(map(_session_numbers, sessions)),
        standing.settled_head,
        standing.acknowledged_head,
        standing.latencies_end,
        seals.among(SEALED),
    )
    return snapshot, numbers


def _without_content(broadcast: BroadcastRow) -> BroadcastRow:
    """Return a broadcast as the state has it once its copies were accepted: they have the content."""
    return msgspec.structs.replace(broadcast, payload=b"", metadata=b"")


def _rows(tables: Tables, seals: Seals, table: Table, order: str = "") -> list[Row]:
    return list(verified(table, tables.rows(table, RECOVERED[table], order), seals))


def _messages(
    tables: Tables, broadcasts: dict[int, BroadcastRow], seals: Seals
) -> tuple[list[MessageRow], dict[str, list[int]], list[tuple[int, Failure]], list[int]]:
    """Read the messages that the state holds, their offers by session, their failures, and the dead letters.

    Copies of broadcasts are added to the broadcasts' rows.
    """
    messages: list[MessageRow] = []
    flights: list[tuple[int, str, int]] = []
    failures: list[tuple[int, Failure]] = []
    dead: list[tuple[int, int]] = []
    for row in verified(MESSAGES, tables.rows(MESSAGES, RECOVERED[MESSAGES], "seq"), seals):
        message = _message(row)
        messages.append(message)
        broadcast_seq, failed, own_level = _message_details(row)
        if broadcast_seq is not None or message.broadcast_id is not None:
            broadcast = _broadcast_of(message, broadcast_seq, broadcasts)
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


def _broadcast_of(message: MessageRow, seq: int | None, broadcasts: dict[int, BroadcastRow]) -> BroadcastRow:
    broadcast = None if seq is None else broadcasts.get(seq)
    if broadcast is None or broadcast.broadcast != message.broadcast_id:
        raise TablesDamaged(f"table signal_queue, row {message.seq}: its broadcast {message.broadcast_id} is missing")
    return broadcast

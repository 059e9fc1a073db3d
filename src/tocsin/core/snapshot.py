"""Snapshot of the whole state as plain rows, and its restoration: the recovery point, and the comparison of states.

A snapshot holds only what the events add up to; mailboxes and timers are scheduled again when it is restored. Two
exchanges that were given the same events have equal snapshots, bit for bit.
"""

from collections import deque
from typing import Any

import msgspec

from tocsin.core.documents import documents, restore_documents
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import LENT_BY_RECIPIENT, LENT_BY_SENDER, Failure, MessageRow
from tocsin.core.policy import document_of, stored_policy
from tocsin.core.queueing.mailbox import Mailbox
from tocsin.core.scheduling import schedule_all
from tocsin.core.state import Agent, Broadcast, LatencyWindow, ProjectState, Session, Thread

__all__ = ["AgentRow", "BroadcastRow", "SessionRow", "Snapshot", "restore", "take"]


class AgentRow(msgspec.Struct, frozen=True):
    """An agent without its mailbox and sessions, which are rebuilt from messages and session rows."""

    agent: str
    agent_type: str
    role: str
    version: str
    supported: tuple[str, ...]
    capabilities: tuple[str, ...]
    registered_at: int
    tokens: float
    tokens_at: int
    critical_quota: float
    blocking_quota: float
    quotas_at: int
    usage: list[int]
    gaming: bool


class SessionRow(msgspec.Struct, frozen=True):
    """A session with its offers, oldest first."""

    session: str
    agent: str
    kind: str
    opened_at: int
    heartbeat_at: int
    window: int
    in_flight: list[int]
    stale: bool


class BroadcastRow(msgspec.Struct, frozen=True):
    """A broadcast with its copies as pairs, in order."""

    broadcast: str
    sender: str
    message_type: str
    receiver_type: str
    copies: list[tuple[str, int]]
    failed: tuple[str, ...]
    payload: bytes
    metadata: bytes
    accepted: int


class Snapshot(msgspec.Struct, frozen=True):
    """All state as of one sequence number."""

    seq: int
    policy_version: int
    #: The whole policy document; null before the first policy.
    policy: Any
    agents: list[AgentRow]
    sessions: list[SessionRow]
    messages: list[MessageRow]
    broadcasts: list[BroadcastRow]
    threads: list[Thread]
    failures: list[tuple[int, Failure]]
    dead: list[int]
    settled: list[tuple[int, int]]
    acknowledged: list[tuple[int, int]]
    rate: float
    rate_changed_at: int
    latencies: list[tuple[int, int]]
    #: Coordination documents: kind, id and JSON.
    documents: list[tuple[str, str, bytes]]


def take(state: ProjectState) -> Snapshot:
    """Return a snapshot of the state.

    Its threads and failures are the live structs: encode them before the state changes.
    """
    return Snapshot(
        seq=state.seq,
        policy_version=state.policy_version,
        policy=document_of(state.policy) if state.has_policy else None,
        agents=[agent_row(agent) for agent in state.agents.values()],
        sessions=[session_row(session) for session in state.sessions.values()],
        messages=[MessageRow(*message.values()) for message in state.messages.values()],
        broadcasts=[broadcast_row(broadcast) for broadcast in state.broadcasts.values()],
        threads=list(state.threads.values()),
        failures=sorted(state.failures.items()),
        dead=list(state.dead),
        settled=list(state.settled),
        acknowledged=list(state.acknowledged),
        rate=state.latency.rate,
        rate_changed_at=state.latency.changed_at,
        latencies=list(state.latency.samples),
        documents=documents(state),
    )


def agent_row(agent: Agent) -> AgentRow:
    """Return an agent as a row."""
    return AgentRow(
        agent=agent.agent,
        agent_type=agent.agent_type,
        role=agent.role,
        version=agent.version,
        supported=agent.supported,
        capabilities=agent.capabilities,
        registered_at=agent.registered_at,
        tokens=agent.tokens,
        tokens_at=agent.tokens_at,
        critical_quota=agent.critical_quota,
        blocking_quota=agent.blocking_quota,
        quotas_at=agent.quotas_at,
        usage=list(agent.usage),
        gaming=agent.gaming,
    )


def session_row(session: Session) -> SessionRow:
    """Return a session as a row."""
    return SessionRow(
        session=session.session,
        agent=session.agent,
        kind=session.kind,
        opened_at=session.opened_at,
        heartbeat_at=session.heartbeat_at,
        window=session.window,
        in_flight=list(session.in_flight),
        stale=session.stale,
    )


def broadcast_row(broadcast: Broadcast) -> BroadcastRow:
    """Return a broadcast as a row."""
    return BroadcastRow(
        broadcast=broadcast.broadcast,
        sender=broadcast.sender,
        message_type=broadcast.message_type,
        receiver_type=broadcast.receiver_type,
        copies=list(broadcast.copies.items()),
        failed=broadcast.failed,
        payload=broadcast.payload,
        metadata=broadcast.metadata,
        accepted=broadcast.accepted,
    )


def restore(snapshot: Snapshot, *, emptied: bool = False) -> ProjectState:
    """Return the state of a snapshot; the snapshot's threads and failures become part of the state.

    With `emptied`, message rows are removed from the snapshot, so that few are in memory beside their messages.
    """
    state = ProjectState()
    state.seq = snapshot.seq
    state.policy_version = snapshot.policy_version
    if snapshot.policy is None:
        return state
    state.adopt(stored_policy(snapshot.policy))
    for row in snapshot.agents:
        state.agents[row.agent] = _agent(row, state.messages, state.policy.aging.top_level)
    for session_row_ in snapshot.sessions:
        session = _session(session_row_)
        state.sessions[session.session] = session
        state.agents[session.agent].sessions[session.session] = session
    message_rows = deque(snapshot.messages)
    if emptied:
        snapshot.messages.clear()
    while message_rows:
        message = Message(*message_rows.popleft().values())
        state.messages[message.seq] = message
        if message.broadcast_id is None:
            state.ids[message.message_id] = message.seq
        state.volume.add(message)
        _lend(state, message)
    for broadcast in snapshot.broadcasts:
        state.broadcasts[broadcast.broadcast] = _broadcast(broadcast)
    state.threads = {thread.correlation_id: thread for thread in snapshot.threads}
    state.failures = dict(snapshot.failures)
    state.dead = dict.fromkeys(snapshot.dead)
    state.settled = deque(snapshot.settled)
    state.volume.order(state.settled)
    state.acknowledged = deque(snapshot.acknowledged)
    state.latency = LatencyWindow(
        snapshot.rate,
        snapshot.rate_changed_at,
        deque(snapshot.latencies),
        sum(latency for _, latency in snapshot.latencies),
    )
    restore_documents(state, snapshot.documents)
    schedule_all(state)
    return state


def _lend(state: ProjectState, message: Message) -> None:
    if message.lent & LENT_BY_SENDER:
        state.lent.setdefault(message.sender, {})[message.seq] = None
    if message.lent & LENT_BY_RECIPIENT:
        state.lent.setdefault(message.recipient, {})[message.seq] = None


def _agent(row: AgentRow, messages: dict[int, Message], top: int) -> Agent:
    agent = Agent(
        agent=row.agent,
        agent_type=row.agent_type,
        role=row.role,
        version=row.version,
        supported=row.supported,
        capabilities=row.capabilities,
        registered_at=row.registered_at,
        mailbox=Mailbox(messages, top),
        tokens=row.tokens,
        tokens_at=row.tokens_at,
        critical_quota=row.critical_quota,
        blocking_quota=row.blocking_quota,
        quotas_at=row.quotas_at,
    )
    agent.usage.extend(row.usage)
    agent.usage_high = sum(entry & 1 for entry in row.usage)
    agent.gaming = row.gaming
    return agent


def _session(row: SessionRow) -> Session:
    session = Session(row.session, row.agent, row.kind, row.opened_at, row.heartbeat_at, row.window)
    session.in_flight.update(dict.fromkeys(row.in_flight))
    session.stale = row.stale
    return session


def _broadcast(row: BroadcastRow) -> Broadcast:
    return Broadcast(
        broadcast=row.broadcast,
        sender=row.sender,
        message_type=row.message_type,
        receiver_type=row.receiver_type,
        copies=dict(row.copies),
        failed=row.failed,
        payload=row.payload,
        metadata=row.metadata,
        accepted=row.accepted,
    )

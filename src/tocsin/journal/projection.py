"""From a capture to rows: what the tables are told about everything that changed.

This is plain arithmetic on copies and runs in whichever thread writes the tables.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.messages.model import NEVER, Message, State, signal_id
from tocsin.core.snapshot import AgentRow, SessionRow
from tocsin.journal.changes import LEVEL_EVENTS, MESSAGE_EVENTS, Capture
from tocsin.journal.records import life_line
from tocsin.journal.tables import (
    AGENTS,
    BROADCASTS,
    DOCUMENTS,
    MESSAGES,
    POLICIES,
    SESSIONS,
    THREADS,
    Batch,
    Standing,
    Table,
)

__all__ = ["batch_of"]

_PACK = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()
#: Rows between two breaths.
_BREATH = 16


def batch_of(capture: Capture, breathe: Callable[[], None] = lambda: None) -> Batch:
    """Turn a capture into rows, to be read once; `breathe` is called now and then while they are made.

    The thread that writes tables holds the interpreter for as long as it is let, and the threads that decide and commit
    would wait for it: so it pauses between a few rows and the next.
    """
    settled, acknowledged = capture.lines
    standing = Standing(
        seq=capture.seq,
        at=capture.at,
        policy_version=capture.policy_version,
        rate=capture.rate,
        rate_changed_at=capture.rate_changed_at,
        latencies=capture.latencies,
        settled_head=settled.head,
        acknowledged_head=acknowledged.head,
    )
    news = _news_of(capture, breathe)
    rows: list[tuple[Table, Iterable[tuple[Any, ...]]]] = [
        (POLICIES, [(p.version, seq, p.at, p.by, p.reason, p.policy) for seq, p in news.policies]),
        (AGENTS, [_agent(row, seq, retired_at) for row, seq, retired_at in capture.agents]),
        (SESSIONS, [_session(row, seq, closed_at) for row, seq, closed_at in capture.sessions]),
        (BROADCASTS, [_broadcast(seq, event) for seq, event in news.broadcasts]),
        (MESSAGES, _messages(capture, news, breathe)),
        (DOCUMENTS, [(kind, id_, data) for kind, id_, data in capture.documents if data is not None]),
        (
            THREADS,
            [
                (t.correlation_id, t.message_id, t.message_type, t.sender, t.opened_at, t.last_at, seq)
                for t, seq in capture.threads
            ],
        ),
    ]
    return Batch(
        standing=standing,
        rows=rows,
        forgotten=sorted(capture.forgotten),
        lines=capture.lines,
        oldest_thread=capture.oldest_thread,
        life_bytes_max=capture.life_bytes_max,
        removed=[(kind, id_) for kind, id_, data in capture.documents if data is None],
    )


class _News:
    """What the events of a capture say of each message."""

    def __init__(self) -> None:
        self.accepted: dict[int, ev.MessageAccepted] = {}
        self.lives: dict[int, list[bytes]] = {}
        self.offered: dict[int, int] = {}
        self.died: dict[int, int] = {}
        #: Payloads that messages were released with instead of their own.
        self.changed: dict[int, bytes] = {}
        self.broadcasts: list[tuple[int, ev.BroadcastAccepted]] = []
        #: Event of the broadcast that a message is a copy of.
        self.broadcast_of: dict[int, int] = {}
        self.policies: list[tuple[int, ev.PolicyAdopted]] = []


def _news_of(capture: Capture, breathe: Callable[[], None]) -> _News:
    news = _News()
    latest: dict[str, int] = {}
    for seq, event in enumerate(capture.events, capture.first_seq):
        if not seq % _BREATH:
            breathe()
        if isinstance(event, ev.MessageAccepted):
            news.accepted[seq] = event
            news.lives[seq] = [life_line(seq, event)]
            if event.broadcast is not None:
                news.broadcast_of[seq] = latest[event.broadcast]
        elif type(event) in MESSAGE_EVENTS:
            number: int = event.message  # type: ignore[union-attr]
            news.lives.setdefault(number, []).append(life_line(seq, event))
            if isinstance(event, ev.MessageOffered):
                news.offered[number] = seq
            elif isinstance(event, ev.MessageDied):
                news.died[number] = seq
            elif isinstance(event, ev.MessageReleased) and event.payload:
                news.changed[number] = event.payload
        elif type(event) in LEVEL_EVENTS:
            line = life_line(seq, event)
            for number in LEVEL_EVENTS[type(event)](event):
                news.lives.setdefault(number, []).append(line)
        elif isinstance(event, ev.BroadcastAccepted):
            latest[event.broadcast] = seq
            news.broadcasts.append((seq, event))
        elif isinstance(event, ev.PolicyAdopted):
            news.policies.append((seq, event))
    return news


def _messages(capture: Capture, news: _News, breathe: Callable[[], None]) -> Iterator[tuple[Any, ...]]:
    for number, message in enumerate(capture.messages):
        if not number % _BREATH:
            breathe()
        yield _message(message, news, capture)


def _broadcast(seq: int, event: ev.BroadcastAccepted) -> tuple[Any, ...]:
    return (
        seq,
        event.broadcast,
        event.sender,
        event.message_type,
        event.receiver_type,
        _JSON.encode(event.failed).decode(),
        event.accepted,
        event.at,
        event.payload,
        event.metadata,
    )


def _agent(row: AgentRow, registered_seq: int, retired_at: int) -> tuple[Any, ...]:
    return (
        row.agent,
        registered_seq,
        row.agent_type,
        row.role,
        row.version,
        _JSON.encode(row.supported).decode(),
        _JSON.encode(row.capabilities).decode(),
        row.registered_at,
        retired_at or None,
        row.tokens,
        row.tokens_at,
        row.critical_quota,
        row.blocking_quota,
        row.quotas_at,
        _PACK.encode(row.usage),
        row.gaming,
    )


def _session(row: SessionRow, opened_seq: int, closed_at: int) -> tuple[Any, ...]:
    return (
        row.session,
        opened_seq,
        row.agent,
        row.kind,
        row.opened_at,
        row.heartbeat_at,
        closed_at or None,
        row.window,
        row.stale,
    )


def _message(message: Message, news: _News, capture: Capture) -> tuple[Any, ...]:
    number = message.seq
    accepted, failure = news.accepted.get(number), capture.failures.get(number)
    content: tuple[bytes | None, bytes | None] = (None, None)
    if accepted is not None and accepted.broadcast is None:
        content = (accepted.payload, accepted.metadata)
    if number in news.changed:
        content = (news.changed[number], content[1])
    return (
        number,
        signal_id(message),
        message.message_id,
        message.sender,
        message.recipient,
        message.type,
        message.priority,
        message.level,
        message.requested,
        message.importance,
        message.decay_rate,
        message.delivery_class.value,
        message.ack_required,
        message.state.value,
        message.created_at,
        message.enqueued_at,
        message.expires_at,
        message.sent_at,
        *content,
        message.correlation_id,
        message.broadcast_id,
        news.broadcast_of.get(number),
        message.recipient_state.value,
        message.publish_path.value,
        message.resolved_session,
        message.pushed,
        message.attempts,
        message.offers,
        message.boosts,
        message.overdue,
        message.backing_off,
        message.ready_at or None,
        message.offered_at or None,
        message.delivered_at or None,
        message.acked_at or None,
        message.processed_at or None,
        message.expired_at or None,
        message.recalled_at or None,
        message.dead_at or None,
        _ended_at(message),
        message.session,
        message.digest,
        *(
            (None, None, None, None, None)
            if failure is None
            else (failure.count, failure.first_at, failure.last_at, failure.reason, failure.code)
        ),
        news.offered.get(number),
        news.died.get(number),
        number not in capture.forgotten,
        message.own_level,
        message.lent,
        b"\n".join(news.lives[number]),
    )


def _ended_at(message: Message) -> int | None:
    """Return when nothing more was awaited of a message."""
    if message.state in (State.HELD, State.QUEUED, State.OFFERED):
        return None
    stamps = (
        message.processed_at,
        message.acked_at,
        NEVER if message.state is State.DELIVERED and message.ack_required else message.delivered_at,
        message.expired_at,
        message.recalled_at,
        message.dead_at,
    )
    return max(stamps) or None

"""Conversion of a capture into rows of the tables.

It works on copies only and runs in the thread that writes the tables.
"""

from collections.abc import Callable, Iterable, Iterator

from tocsin.core import events as ev
from tocsin.core.messages.model import NEVER, Message, State, signal_id
from tocsin.journal.changes import LEVEL_EVENTS, MESSAGE_EVENTS, Capture
from tocsin.journal.checksums import sealer
from tocsin.journal.columns import Row, Table, row_writer
from tocsin.journal.records import life_line
from tocsin.journal.table_definitions import (
    AGENT_COLUMNS,
    AGENTS,
    BROADCAST_COLUMNS,
    BROADCASTS,
    DETAIL_COLUMNS,
    DOCUMENTS,
    FAILURE_COLUMNS,
    MESSAGE_COLUMNS,
    MESSAGES,
    POLICIES,
    POLICY_COLUMNS,
    SESSION_COLUMNS,
    SESSIONS,
    THREAD_COLUMNS,
    THREADS,
    MessageDetails,
)
from tocsin.journal.tables import Batch, Standing

__all__ = ["batch_of"]

_message_values = row_writer(MESSAGE_COLUMNS)
_failure_values = row_writer(FAILURE_COLUMNS)
_detail_values = row_writer(DETAIL_COLUMNS)
_agent_values = row_writer(AGENT_COLUMNS)
_session_values = row_writer(SESSION_COLUMNS)
_broadcast_values = row_writer(BROADCAST_COLUMNS)
_thread_values = row_writer(THREAD_COLUMNS)
_policy_values = row_writer(POLICY_COLUMNS)
_seal_message = sealer(MESSAGES)
_NO_FAILURE = (None,) * len(FAILURE_COLUMNS)
#: Rows between two pauses.
_PAUSE_EVERY = 16


def batch_of(capture: Capture, pause: Callable[[], None] = lambda: None) -> Batch:
    """Turn a capture into rows, which can be read once; `pause` is called every few rows while they are made.

    The thread that writes tables would otherwise hold the interpreter for the whole switch interval, while the threads
    that decide and commit wait for it.
    """
    settled, acknowledged = capture.ended
    standing = Standing(
        seq=capture.seq,
        at=capture.at,
        policy_version=capture.policy_version,
        rate=capture.rate,
        rate_changed_at=capture.rate_changed_at,
        latencies=capture.latencies,
        settled_head=settled.head,
        acknowledged_head=acknowledged.head,
        settled_end=settled.end,
        acknowledged_end=acknowledged.end,
        held=capture.held,
    )
    facts = _facts_of(capture, pause)
    # Values that no struct has follow in the order in which the table definition names them.
    rows: list[tuple[Table, Iterable[Row]]] = [
        _sealed(POLICIES, [(*_policy_values(event), seq) for seq, event in facts.policies]),
        _sealed(AGENTS, [(*_agent_values(row), seq, retired_at or None) for row, seq, retired_at in capture.agents]),
        _sealed(
            SESSIONS, [(*_session_values(row), seq, closed_at or None) for row, seq, closed_at in capture.sessions]
        ),
        _sealed(BROADCASTS, [(*_broadcast_values(event), seq, event.at) for seq, event in facts.broadcasts]),
        (MESSAGES, _messages(capture, facts, pause)),
        _sealed(DOCUMENTS, [(kind, id_, data) for kind, id_, data in capture.documents if data is not None]),
        _sealed(THREADS, [(*_thread_values(thread), seq) for thread, seq in capture.threads]),
    ]
    return Batch(
        standing=standing,
        rows=rows,
        forgotten=sorted(capture.forgotten),
        ended=capture.ended,
        oldest_thread=capture.oldest_thread,
        life_bytes_max=capture.life_bytes_max,
        removed=[(kind, id_) for kind, id_, data in capture.documents if data is None],
    )


def _sealed(table: Table, rows: list[Row]) -> tuple[Table, list[Row]]:
    """Append the checksums to rows."""
    return table, list(map(sealer(table), rows))


class _EventFacts:
    """Facts about messages that are in the events of a capture and not in the messages."""

    def __init__(self) -> None:
        self.accepted: dict[int, ev.MessageAccepted] = {}
        self.lives: dict[int, list[bytes]] = {}
        self.offered: dict[int, int] = {}
        self.died: dict[int, int] = {}
        #: Payloads that replaced the original ones when messages were released.
        self.changed: dict[int, bytes] = {}
        self.broadcasts: list[tuple[int, ev.BroadcastAccepted]] = []
        #: Event of the broadcast that a message is a copy of.
        self.broadcast_of: dict[int, int] = {}
        self.policies: list[tuple[int, ev.PolicyAdopted]] = []


def _facts_of(capture: Capture, pause: Callable[[], None]) -> _EventFacts:
    facts = _EventFacts()
    latest: dict[str, int] = {}
    for seq, event in enumerate(capture.events, capture.first_seq):
        if not seq % _PAUSE_EVERY:
            pause()
        if isinstance(event, ev.MessageAccepted):
            facts.accepted[seq] = event
            facts.lives[seq] = [life_line(seq, event)]
            if event.broadcast is not None:
                facts.broadcast_of[seq] = latest[event.broadcast]
        elif type(event) in MESSAGE_EVENTS:
            number: int = event.message  # type: ignore[union-attr]
            facts.lives.setdefault(number, []).append(life_line(seq, event))
            if isinstance(event, ev.MessageOffered):
                facts.offered[number] = seq
            elif isinstance(event, ev.MessageDied):
                facts.died[number] = seq
            elif isinstance(event, ev.MessageReleased) and event.payload:
                facts.changed[number] = event.payload
        elif type(event) in LEVEL_EVENTS:
            line = life_line(seq, event)
            for number in LEVEL_EVENTS[type(event)](event):
                facts.lives.setdefault(number, []).append(line)
        elif isinstance(event, ev.BroadcastAccepted):
            latest[event.broadcast] = seq
            facts.broadcasts.append((seq, event))
        elif isinstance(event, ev.PolicyAdopted):
            facts.policies.append((seq, event))
    return facts


def _messages(capture: Capture, facts: _EventFacts, pause: Callable[[], None]) -> Iterator[Row]:
    for number, message in enumerate(capture.messages):
        if not number % _PAUSE_EVERY:
            pause()
        yield _message(message, facts, capture)


def _message(message: Message, facts: _EventFacts, capture: Capture) -> Row:
    number = message.seq
    accepted, failure = facts.accepted.get(number), capture.failures.get(number)
    payload, metadata = facts.changed.get(number), None
    if accepted is not None and accepted.broadcast is None:
        payload, metadata = payload or accepted.payload, accepted.metadata
    details = MessageDetails(
        signal_id(message),
        payload,
        metadata,
        broadcast_seq=facts.broadcast_of.get(number),
        ended_at=_ended_at(message),
        offered_seq=facts.offered.get(number),
        dead_seq=facts.died.get(number),
        remembered=number not in capture.forgotten,
        life=b"\n".join(facts.lives[number]),
    )
    return _seal_message(
        (
            *_message_values(message),
            *(_NO_FAILURE if failure is None else _failure_values(failure)),
            *_detail_values(details),
        )
    )


def _ended_at(message: Message) -> int | None:
    """Return the time from which on nothing more is expected to happen to a message."""
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

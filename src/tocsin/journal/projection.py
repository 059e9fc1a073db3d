"""From a capture to rows: what the tables are told about everything that changed.

This is plain arithmetic on copies and runs in whichever thread writes the tables.
"""

from typing import Any

import msgspec

from tocsin.core.message import NEVER, State, signal_id
from tocsin.core.snapshot import AgentRow, SessionRow
from tocsin.journal.changes import Capture, CapturedMessage
from tocsin.journal.records import life_line
from tocsin.journal.tables import (
    AGENTS,
    BROADCASTS,
    MESSAGES,
    POLICIES,
    SESSIONS,
    THREADS,
    Batch,
    Standing,
)

__all__ = ["batch_of"]

_PACK = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()


def batch_of(capture: Capture) -> Batch:
    """Turn a capture into rows."""
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
    rows: list[tuple[Any, list[tuple[Any, ...]]]] = [
        (POLICIES, [(p.version, seq, p.at, p.by, p.reason, p.policy) for seq, p in capture.policies]),
        (AGENTS, [_agent(row, seq, retired_at) for row, seq, retired_at in capture.agents]),
        (SESSIONS, [_session(row, seq, closed_at) for row, seq, closed_at in capture.sessions]),
        (
            BROADCASTS,
            [
                (
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
                for seq, event in capture.broadcasts
            ],
        ),
        (MESSAGES, [_message(captured) for captured in capture.messages]),
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
        forgotten=capture.forgotten,
        lines=capture.lines,
        oldest_thread=capture.oldest_thread,
        life_bytes_max=capture.life_bytes_max,
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


def _message(captured: CapturedMessage) -> tuple[Any, ...]:
    message, accepted, failure = captured.message, captured.accepted, captured.failure
    content: tuple[bytes | None, bytes | None] = (None, None)
    if accepted is not None and accepted.broadcast is None:
        content = (accepted.payload, accepted.metadata)
    return (
        message.seq,
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
        captured.broadcast_seq,
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
        _ended_at(captured),
        message.session,
        message.digest,
        *(
            (None, None, None, None, None)
            if failure is None
            else (failure.count, failure.first_at, failure.last_at, failure.reason, failure.code)
        ),
        captured.offered_seq,
        captured.dead_seq,
        captured.remembered,
        b"\n".join([life_line(seq, event) for seq, event in captured.life]),
    )


def _ended_at(captured: CapturedMessage) -> int | None:
    """Return when nothing more was awaited of a message."""
    message = captured.message
    if message.state in (State.QUEUED, State.OFFERED):
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

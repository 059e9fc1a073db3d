"""Conversion of a capture into rows of the tables.

It works on copies only and runs in the thread that writes the tables.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.messages.model import NEVER, Failure, MessageRow, PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.journal.changes import LEVEL_EVENTS, MESSAGE_EVENTS, Capture
from tocsin.journal.checksums import row_writer, short_row_writer
from tocsin.journal.columns import Row, Table
from tocsin.journal.records import life_text, ordinary_life
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
    ORDINARY,
    POLICIES,
    POLICY_COLUMNS,
    SESSION_COLUMNS,
    SESSIONS,
    THREAD_COLUMNS,
    THREADS,
)
from tocsin.journal.tables import Batch, Standing

__all__ = ["batch_of", "discard"]

# Values that no struct has are given in the order in which the table definition names them.
_message_row: Final = row_writer(
    MESSAGES,
    MESSAGE_COLUMNS,
    FAILURE_COLUMNS,
    given=tuple(column.name for column in DETAIL_COLUMNS),
    values=MessageRow.__struct_fields__,
)
_ordinary_row: Final = short_row_writer(ORDINARY, MESSAGE_COLUMNS, given=("payload", "offered_seq", "life"))
_agent_row = row_writer(AGENTS, AGENT_COLUMNS, given=("registered_seq", "retired_at"))
_session_row = row_writer(SESSIONS, SESSION_COLUMNS, given=("opened_seq", "closed_at"))
_broadcast_row = row_writer(BROADCASTS, BROADCAST_COLUMNS, given=("seq", "created_at"))
_thread_row = row_writer(THREADS, THREAD_COLUMNS, given=("touched_seq",))
_policy_row = row_writer(POLICIES, POLICY_COLUMNS, given=("seq",))
_document_row = row_writer(DOCUMENTS, given=("kind", "id", "document"))
#: Stands for the failures of a message that had none: all columns are null.
_NO_FAILURE: Final = Failure(*cast("tuple[Any, ...]", (None,) * len(FAILURE_COLUMNS)))
# Constants of this module, because looking them up in another one takes as long as using them.
_HELD: Final = State.HELD
_QUEUED: Final = State.QUEUED
_OFFERED: Final = State.OFFERED
_DELIVERED: Final = State.DELIVERED
_ASYNC: Final = DeliveryClass.ASYNC
_AVAILABLE: Final = RecipientState.AVAILABLE
_PUSHED: Final = PublishPath.PUSHED
_NO_METADATA: Final = b"{}"
_ordinary_life: Final = ordinary_life
#: Events between two pauses, and rows of messages, which take more than ten times as long.
_PAUSE_EVENTS = 512
_PAUSE_ROWS = 64
#: Messages that are freed between two pauses.
_DISCARD = 1000


def batch_of(capture: Capture, pause: Callable[[], None] = lambda: None) -> Batch:
    """Turn a capture into rows; `pause` is called every few events and rows.

    The thread that writes tables would otherwise hold the interpreter for the whole switch interval, while the threads
    that decide and commit wait for it. The rows of messages can be read once and are made as they are read, so that
    the statements that write them release the interpreter in between.
    """
    settled, acknowledged, latencies = capture.queues
    standing = Standing(
        seq=capture.seq,
        at=capture.at,
        policy_version=capture.policy_version,
        rate=capture.rate,
        rate_changed_at=capture.rate_changed_at,
        settled_head=settled.head,
        acknowledged_head=acknowledged.head,
        settled_end=settled.end,
        acknowledged_end=acknowledged.end,
        latencies_head=latencies.head,
        latencies_end=latencies.end,
        held=capture.held,
        sealed=capture.sealed,
    )
    facts = _facts_of(capture, pause)
    rows: list[tuple[Table, list[Row]]] = [
        (POLICIES, [_policy_row(event, seq) for seq, event in facts.policies]),
        (AGENTS, [_agent_row(row, seq, retired_at or None) for row, seq, retired_at in capture.agents]),
        (SESSIONS, [_session_row(row, seq, closed_at or None) for row, seq, closed_at in capture.sessions]),
        (BROADCASTS, [_broadcast_row(event, seq, event.at) for seq, event in facts.broadcasts]),
        (DOCUMENTS, [_document_row(kind, id_, data) for kind, id_, data in capture.documents if data is not None]),
        (THREADS, [_thread_row(thread, seq) for thread, seq in capture.threads]),
    ]
    return Batch(
        standing=standing,
        rows=rows,
        new_messages=_new_messages(capture, facts, pause),
        changed_messages=_changed_messages(capture, facts, pause),
        forgotten=sorted(number for number in capture.forgotten if number < capture.first_seq),
        queues=capture.queues,
        oldest_thread=capture.oldest_thread,
        life_bytes_max=capture.life_bytes_max,
        removed=[(kind, id_) for kind, id_, data in capture.documents if data is None],
    )


def discard(capture: Capture, pause: Callable[[], None]) -> None:
    """Free what a capture holds, a part at a time; it cannot be used afterwards.

    Freeing a hundred thousand events at once keeps the interpreter for tens of milliseconds; nothing is decided then.
    """
    parts, messages = capture.parts, capture.messages
    while parts:
        del parts[-1]
        pause()
    while messages:
        for _ in range(min(_DISCARD, len(messages))):
            messages.popitem()
        pause()


class _Life(msgspec.Struct, gc=False):
    """What happened to a message since the last capture: the steps of an ordinary message, and the steps after them.

    It is not tracked by the garbage collector: a list for each message of a large capture would start collections, and
    one of those goes through every object of the process.
    """

    accepted: ev.MessageAccepted | None = None
    offered_seq: int = 0
    offered: ev.MessageOffered | None = None
    delivered_seq: int = 0
    delivered: ev.MessageDelivered | None = None
    #: Numbers and events, alternately; null until there is one.
    others: list[Any] | None = None


class _EventFacts:
    """Facts about messages that are in the events of a capture and not in the messages."""

    def __init__(self) -> None:
        self.lives: dict[int, _Life] = {}
        self.died: dict[int, int] = {}
        #: Payloads that replaced the original ones when messages were released.
        self.changed: dict[int, bytes] = {}
        self.broadcasts: list[tuple[int, ev.BroadcastAccepted]] = []
        #: Event of the broadcast that a message is a copy of.
        self.broadcast_of: dict[int, int] = {}
        self.policies: list[tuple[int, ev.PolicyAdopted]] = []


def _facts_of(capture: Capture, pause: Callable[[], None]) -> _EventFacts:
    facts = _EventFacts()
    lives = facts.lives
    latest: dict[str, int] = {}
    about_one, about_several = MESSAGE_EVENTS, LEVEL_EVENTS
    accepted_kind, offered_kind, delivered_kind = ev.MessageAccepted, ev.MessageOffered, ev.MessageDelivered
    died, released = ev.MessageDied, ev.MessageReleased
    event: Any
    life: Any
    for seq, event in enumerate(capture.events(), capture.first_seq):
        if not seq % _PAUSE_EVENTS:
            pause()
        kind = type(event)
        if kind is accepted_kind:
            lives[seq] = _Life(event)
            if event.broadcast is not None:
                facts.broadcast_of[seq] = latest[event.broadcast]
        elif kind in about_one:
            number = event.message
            life = lives.get(number)
            if life is None or life.others is not None:
                _add(lives, number, seq, event)
            elif kind is offered_kind and life.offered is None:
                life.offered_seq = seq
                life.offered = event
            elif kind is delivered_kind and life.delivered is None and life.offered is not None:
                life.delivered_seq = seq
                life.delivered = event
            else:
                _add(lives, number, seq, event)
            if kind is died:
                facts.died[number] = seq
            elif kind is released and event.payload:
                facts.changed[number] = event.payload
        elif kind in about_several:
            for number in about_several[kind](event):
                _add(lives, number, seq, event)
        elif kind is ev.BroadcastAccepted:
            latest[event.broadcast] = seq
            facts.broadcasts.append((seq, event))
        elif kind is ev.PolicyAdopted:
            facts.policies.append((seq, event))
    return facts


def _add(lives: dict[int, _Life], number: int, seq: int, event: Event) -> None:
    """Add a step that is not the next one of an ordinary message."""
    life = lives.get(number)
    if life is None:
        life = lives[number] = _Life()
    if life.others is None:
        life.others = []
    life.others += (seq, event)


def _steps_of(number: int, life: _Life) -> list[Any]:
    """Return what happened to a message: numbers and events, alternately."""
    steps = (number, life.accepted, life.offered_seq, life.offered, life.delivered_seq, life.delivered)
    given = [value for place in (0, 2, 4) if steps[place + 1] is not None for value in steps[place : place + 2]]
    return given + (life.others or [])


def _new_messages(capture: Capture, facts: _EventFacts, pause: Callable[[], None]) -> Iterator[Row]:
    """Make the rows of the messages that were accepted since the last capture."""
    first_seq, lives = capture.first_seq, facts.lives
    # Messages for which a value of the row is not in the message.
    special = capture.forgotten | facts.died.keys() | capture.failures.keys()
    # Copies are in the order of the first event that touched them, so new messages are in the order of their numbers.
    for place, (number, message) in enumerate(capture.messages.items()):
        if not place % _PAUSE_ROWS:
            pause()
        if number < first_seq:
            continue
        life: Any = lives.pop(number)
        if number not in special and life.delivered is not None and life.others is None and _is_ordinary(message):
            yield _ordinary(message, life)
            continue
        payload, metadata, accepted = facts.changed.get(number), None, life.accepted
        if accepted.broadcast is None:
            payload, metadata = payload or accepted.payload, accepted.metadata
        yield _message(message, facts, capture, payload, metadata, life)


def _changed_messages(capture: Capture, facts: _EventFacts, pause: Callable[[], None]) -> Iterator[Row]:
    """Make the rows of the messages that were accepted before and have changed."""
    first_seq = capture.first_seq
    numbers = [number for number in capture.messages if number < first_seq]
    for place, number in enumerate(numbers):
        if not place % _PAUSE_ROWS:
            pause()
        message, life = capture.messages[number], facts.lives.pop(number)
        yield _message(message, facts, capture, facts.changed.get(number), None, life)


def _is_ordinary(message: Message) -> bool:
    """Tell whether the row of a new message has the shape `ORDINARY`."""
    state: object = message.state
    delivery_class: object = message.delivery_class
    recipient_state: object = message.recipient_state
    publish_path: object = message.publish_path
    level = message.priority
    return (
        state is _DELIVERED
        and delivery_class is _ASYNC
        and recipient_state is _AVAILABLE
        and publish_path is _PUSHED
        and message.offers == 1
        and not message.ack_required
        and message.session is None
        and message.correlation_id is None
        and message.broadcast_id is None
        and message.digest is None
        and message.metadata == _NO_METADATA
        and message.level == level
        and message.requested == level
        and message.own_level == level
        and message.lent == 0
        and message.attempts == 0
        and message.boosts == 0
        and not message.overdue
        and not message.backing_off
        and message.enqueued_at == message.created_at
        and message.ready_at == NEVER
        and message.acked_at == NEVER
        and message.processed_at == NEVER
        and message.expired_at == NEVER
        and message.recalled_at == NEVER
        and message.dead_at == NEVER
    )


def _ordinary(message: Message, life: Any) -> Row:
    number, offered_seq = message.seq, life.offered_seq
    # In the order of the table definition, as `message.values()` for other messages.
    fields = (
        message.message_id,
        message.sender,
        message.recipient,
        message.type,
        message.priority,
        message.importance,
        message.decay_rate,
        message.created_at,
        message.sent_at,
        number,
        message.expires_at,
        message.resolved_session,
        message.pushed,
        message.offered_at,
        message.delivered_at,
    )
    text = _ordinary_life(number, life.accepted, offered_seq, life.offered, life.delivered_seq, life.delivered)
    return _ordinary_row(fields, message.payload, offered_seq, text)


def _message(
    message: Message, facts: _EventFacts, capture: Capture, payload: bytes | None, metadata: bytes | None, life: _Life
) -> Row:
    number = message.seq
    steps = _steps_of(number, life)
    offers = [seq for seq, event in zip(steps[::2], steps[1::2], strict=True) if type(event) is ev.MessageOffered]
    return _message_row(
        message.values(),
        capture.failures.get(number, _NO_FAILURE),
        message.message_id if message.broadcast_id is None else signal_id(message),
        payload,
        metadata,
        facts.broadcast_of.get(number),
        _ended_at(message),
        offers[-1] if offers else None,
        facts.died.get(number),
        number not in capture.forgotten,
        life_text(steps),
    )


def _ended_at(message: Message) -> int | None:
    """Return the time from which on nothing more is expected to happen to a message; null while it is open."""
    state: object = message.state
    if state is _HELD or state is _QUEUED or state is _OFFERED:
        return None
    # Written out, because it is called for every message.
    at = NEVER if state is _DELIVERED and message.ack_required else message.delivered_at
    if message.processed_at > at:
        at = message.processed_at
    if message.acked_at > at:
        at = message.acked_at
    if message.expired_at > at:
        at = message.expired_at
    if message.recalled_at > at:
        at = message.recalled_at
    if message.dead_at > at:
        at = message.dead_at
    return at or None

"""Conversion of the live state and of history rows to the records that operations return."""

from typing import TypeVar

import msgspec

from tocsin.core.agents.presence import presence
from tocsin.core.protocol.previews import preview
from tocsin.core.protocol.priority import PRIORITY_NAMES, Priority
from tocsin.core.protocol.timestamps import as_datetime_or_none
from tocsin.core.state import Agent, ProjectState
from tocsin.core.wake.model import Waking
from tocsin.core.wake.reach import reach_of
from tocsin.core.wake.transitions import HOUR_US
from tocsin.hub.project import Project
from tocsin.journal.history import Brief, DeadLetter, Signal
from tocsin.journal.records import life_of
from tocsin.wire.agents import AgentRecord, UnreadBytes, WakeRecord
from tocsin.wire.explanations import Explainer
from tocsin.wire.history import (
    DeadLetterRecord,
    HistoryEntry,
    MessageFields,
    MessageHistory,
    MessageRecord,
    MessageSummary,
)

__all__ = [
    "agent_record",
    "by_priority",
    "dead_letter_record",
    "history_record",
    "message_record",
    "message_summary",
    "record_of",
    "unread_bytes",
    "wake_record",
]

Record = TypeVar("Record", bound=msgspec.Struct)

#: Fields that are times, beside those whose names end with `_at`.
_TIMES = frozenset({"at", "since"})
_SUMMARY = MessageFields.__struct_fields__
_RECORD = tuple(name for name in MessageRecord.__struct_fields__ if name not in ("payload", "metadata", "ended_at"))
#: States in which a message has ended, with the time of the end.
_ENDS = ("processed_at", "acked_at", "delivered_at", "expired_at", "recalled_at", "dead_at")


def record_of(shape: type[Record], row: object, **others: object) -> Record:
    """Copy the fields of a record from a row of the state, times as datetimes; `others` has those that differ."""
    values: dict[str, object] = {}
    for name in shape.__struct_fields__:
        if name in others:
            values[name] = others[name]
        elif name in _TIMES or name.endswith("_at"):
            values[name] = as_datetime_or_none(getattr(row, name))
        else:
            value = getattr(row, name)
            values[name] = tuple(value) if isinstance(value, list) else value
    return shape(**values)


def by_priority(depths: tuple[int, ...]) -> dict[str, int]:
    """Name the priorities of counts by level."""
    return dict(zip(PRIORITY_NAMES, depths, strict=True))


def agent_record(project: Project, agent: Agent) -> AgentRecord:
    """Describe an agent."""
    kinds = [session.kind for session in agent.sessions.values()]
    return AgentRecord(
        agent=agent.agent,
        type=agent.agent_type,
        role=agent.role,
        version=agent.version,
        capabilities=tuple(agent.capabilities),
        presence=presence(agent, project.state.policy, project.now()),
        sessions={kind: kinds.count(kind) for kind in sorted(set(kinds))},
        waiting=by_priority(agent.mailbox.depths()),
        gaming=agent.gaming,
        registered_at=as_datetime_or_none(agent.registered_at),
        reach=reach_of(project.state, agent),
        wake=wake_record(project.state.wakes.get(agent.agent), project.now()),
        unread=unread_bytes(project.state, agent.agent),
    )


def unread_bytes(state: ProjectState, agent: str) -> UnreadBytes:
    """Return the bytes of the unsettled messages to and from an agent."""
    volume, limits = state.volume, state.policy.limits
    return UnreadBytes(volume.to(agent), limits.mailbox_bytes_max, volume.of(agent), limits.sender_bytes_max)


def wake_record(record: Waking | None, now: int) -> WakeRecord | None:
    """Return the latest wake of an agent, if there was one."""
    if record is None or not record.requested_at:
        return None
    under_way = bool(record.wake) and not record.settled
    return WakeRecord(
        requested_at=as_datetime_or_none(record.requested_at),
        outcome="under_way" if under_way else record.outcome,
        outcome_at=None if under_way else as_datetime_or_none(record.outcome_at),
        attempt=record.attempt if record.wake else 0,
        detail="" if under_way else record.detail,
        failed=record.failed,
        recent=sum(at > now - HOUR_US for at in record.recent),
    )


def _values(row: Signal | Brief, names: tuple[str, ...]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in names:
        value = getattr(row, "message_type" if name == "type" else name)
        if name.endswith("_at"):
            value = as_datetime_or_none(value)
        elif name in ("priority", "level"):
            value = PRIORITY_NAMES[Priority(value)]
        values[name] = value
    return values


def message_summary(brief: Brief, preview_max: int) -> MessageSummary:
    """Describe a message, with the beginning of its text."""
    return MessageSummary(**_values(brief, _SUMMARY), preview=preview(brief.excerpt, preview_max))  # type: ignore[arg-type]


def message_record(signal: Signal) -> MessageRecord:
    """Describe a message."""
    ended = next((at for name in reversed(_ENDS) if (at := getattr(signal, name))), None)
    return MessageRecord(
        **_values(signal, _RECORD),  # type: ignore[arg-type]
        ended_at=as_datetime_or_none(ended),
        payload=msgspec.json.decode(signal.payload or b"null"),
        metadata=msgspec.json.decode(signal.metadata or b"null"),
    )


def _entries(signal: Signal) -> list[HistoryEntry]:
    entries, explainer = [], Explainer()
    for event in life_of(signal.life):
        facts = dict(event)
        seq, at, kind = facts.pop("seq"), facts.pop("at", None), facts.pop("kind")
        told = explainer.explain(kind, at, facts)
        entries.append(HistoryEntry(seq, as_datetime_or_none(at), kind, facts, told.text, told.reason))
    return entries


def history_record(signal: Signal) -> MessageHistory:
    """Describe a message and its events."""
    return MessageHistory(message_record(signal), _entries(signal))


def dead_letter_record(letter: DeadLetter) -> DeadLetterRecord:
    """Describe a dead letter."""
    history = _entries(letter.signal)
    death = next((entry.facts for entry in reversed(history) if entry.kind == "MessageDied"), None)
    return DeadLetterRecord(
        message=message_record(letter.signal),
        failures=letter.failures,
        first_failed_at=as_datetime_or_none(letter.first_failed_at),
        last_failed_at=as_datetime_or_none(letter.last_failed_at),
        reason=letter.reason,
        code=letter.code,
        history=history,
        detail="" if death is None else str(death.get("detail", "")),
    )

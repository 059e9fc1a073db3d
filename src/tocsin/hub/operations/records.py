"""Conversion of the live state and of history rows to the records that operations return."""

from typing import TypeVar

import msgspec

from tocsin.core.agents.presence import presence
from tocsin.core.protocol.priority import PRIORITY_NAMES, Priority
from tocsin.core.protocol.timestamps import as_datetime_or_none
from tocsin.core.state import Agent
from tocsin.hub.project import Project
from tocsin.journal.history import Brief, DeadLetter, Signal, life_of
from tocsin.wire.agents import AgentRecord
from tocsin.wire.history import DeadLetterRecord, HistoryEntry, MessageHistory, MessageRecord, MessageSummary

__all__ = [
    "agent_record",
    "by_priority",
    "dead_letter_record",
    "history_record",
    "message_record",
    "message_summary",
    "record_of",
]

Record = TypeVar("Record", bound=msgspec.Struct)

#: Fields that are times, beside those whose names end with `_at`.
_TIMES = frozenset({"at", "since"})
_SUMMARY = MessageSummary.__struct_fields__
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


def message_summary(brief: Brief) -> MessageSummary:
    """Describe a message without its content."""
    return MessageSummary(**_values(brief, _SUMMARY))  # type: ignore[arg-type]


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
    entries = []
    for event in life_of(signal):
        facts = dict(event)
        seq, at, kind = facts.pop("seq"), facts.pop("at", None), facts.pop("kind")
        entries.append(HistoryEntry(seq, as_datetime_or_none(at), kind, facts))
    return entries


def history_record(signal: Signal) -> MessageHistory:
    """Describe a message and its events."""
    return MessageHistory(message_record(signal), _entries(signal))


def dead_letter_record(letter: DeadLetter) -> DeadLetterRecord:
    """Describe a dead letter."""
    return DeadLetterRecord(
        message=message_record(letter.signal),
        failures=letter.failures,
        first_failed_at=as_datetime_or_none(letter.first_failed_at),
        last_failed_at=as_datetime_or_none(letter.last_failed_at),
        reason=letter.reason,
        code=letter.code,
        history=_entries(letter.signal),
    )

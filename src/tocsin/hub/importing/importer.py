"""Import of found messages into a project: events at the times at which things happened, in the project's journal.

Theory of operation. The importer owns the project while it works, so no hub can serve it. Each message becomes the
events that an accepted message would have had: its acceptance, and its delivery, acknowledgement, expiry, recall or
death. What has not ended is queued for its recipient. Agents that the project does not know are registered, with the
role of least privilege. A message whose messageId the project has, in its live state, in its history or in its record
of imports, is left alone: an import can be repeated, and continued after a failure.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import Event
from tocsin.core.messages.model import UNENDING, PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import AckRule, DeliveryClass
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.priority import Priority
from tocsin.hub.importing.found import UNKNOWN, Found, Rejected
from tocsin.ids import RandomIds
from tocsin.journal.base import Journal
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.log import EventLog
from tocsin.journal.projection import batch_of
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite.connection import connect, translated

__all__ = ["Importer", "Report"]

#: Name of the record of imports in the project's directory.
RECORD = "imports.db"
#: Role of agents that are registered by an import.
_ROLE = "clone"
#: Agents that no agent of a team may be.
_RESERVED = frozenset({SYSTEM.agent})


class Report(msgspec.Struct):
    """Counts of an import."""

    read: int = 0
    imported: int = 0
    #: Messages that the project had already.
    duplicates: int = 0
    #: Records that were refused and written to the quarantine file.
    rejected: int = 0
    #: Imported messages that wait for their recipient.
    waiting: int = 0
    #: Agents that were registered.
    agents: int = 0
    #: Imported messages by state.
    states: dict[str, int] = {}
    #: File with the refused records; empty if there are none.
    quarantine: str = ""


class Importer:
    """Imports messages into one project."""

    def __init__(self, journal: Journal, data: Path, quarantine: Path) -> None:
        self._journal = journal
        self._tables = journal.tables()
        self._exchange: ObservedExchange = reopen(journal, self._tables, RandomIds())
        if not self._exchange.state.has_policy:
            self._tables.close()
            journal.close()
            raise Rejected("the project has no policy yet: create it with `tocsin init`, or serve it once")
        self._log = EventLog(journal)
        self._record = connect(data / RECORD, "FULL")
        with translated(JournalUnavailable, RECORD):
            self._record.execute(
                "CREATE TABLE IF NOT EXISTS imports"
                " (message_id TEXT, recipient TEXT, PRIMARY KEY (message_id, recipient)) WITHOUT ROWID"
            )
        self._quarantine = quarantine
        self._refused: list[bytes] = []
        self._group: list[Event] = []
        self._taken: list[tuple[str, str]] = []
        self.report = Report()

    @property
    def types(self) -> frozenset[str]:
        """Return the message types that the project's policy names."""
        return frozenset(self._exchange.state.policy.contracts)

    @property
    def bytes_max(self) -> int:
        """Return the size of the largest message."""
        return self._exchange.state.policy.limits.message_bytes_max

    def run(self, records: Iterable[Found | tuple[str, str, Any]], now: int) -> Report:
        """Import all messages, a group at a time."""
        group_max = self._exchange.state.policy.storage.group_events_max
        for record in records:
            self.report.read += 1
            if isinstance(record, Found):
                self.report.read += max(0, len(record.copies) - 1)
                self._take(record.copies or [record], now)
            else:
                self._refuse(*record)
            if len(self._group) >= group_max:
                self._commit()
        self._commit()
        if self._refused:
            self._quarantine.write_bytes(b"\n".join(self._refused) + b"\n")
            self.report.quarantine = str(self._quarantine)
        return self.report

    def close(self) -> None:
        """Close the project."""
        self._record.close()
        self._tables.close()
        self._journal.close()

    def _take(self, copies: list[Found], now: int) -> None:
        """Take a message: one copy, or all copies of a broadcast, which stay in one commit."""
        taken: list[Found] = []
        for found in copies:
            if self._is_known(found):
                self.report.duplicates += 1
            elif wrong := self._wrong(found, now):
                plain = {name: getattr(found, name) for name in found.__struct_fields__ if name != "copies"}
                self._refuse(found.where, wrong, plain)
            else:
                taken.append(found)
        for found in taken:
            for agent, kind in ((found.sender, found.sender_type), (found.recipient, found.recipient_type)):
                self._register(agent, kind or UNKNOWN, found.created_at)
        if taken and taken[0].copies:
            self._emit(_broadcast(taken))
        for found in taken:
            self._emit(self._acceptance(found))
            number = self._exchange.state.seq
            for event in self._endings(number, found, now):
                self._emit(event)
            self._taken.append((found.message_id, found.recipient))
            self._count(self._exchange.state.messages[number].state)

    def _count(self, state: State) -> None:
        report = self.report
        report.imported += 1
        report.waiting += state is State.QUEUED
        report.states[state.value] = report.states.get(state.value, 0) + 1

    def _is_known(self, found: Found) -> bool:
        state = self._exchange.state
        if found.message_id in state.ids or found.message_id in state.broadcasts:
            return True
        with translated(JournalUnavailable, RECORD):
            statement = "SELECT 1 FROM imports WHERE message_id = ? AND recipient = ?"
            if self._record.execute(statement, (found.message_id, found.recipient)).fetchone() is not None:
                return True
        return bool(self._tables.signals(found.message_id))

    def _wrong(self, found: Found, now: int) -> str:
        """Return why the project cannot take a message; nothing if it can."""
        state = self._exchange.state
        limits = state.policy.limits
        if len(found.payload) + len(found.metadata) > limits.message_bytes_max:
            return f"it has more than {limits.message_bytes_max} bytes"
        if found.recipient in _RESERVED:
            return f"{found.recipient} cannot receive messages"
        if found.created_at > now:
            return "it is from the future"
        new = {found.sender, found.recipient} - state.agents.keys() - {UNKNOWN}
        if len(state.agents) + len(new) > limits.agents_max:
            return f"the project has as many agents as it may: {limits.agents_max}"
        agent = state.agents.get(found.recipient)
        ended = (found.delivered_at, found.expired_at, found.recalled_at, found.dead_at)
        if ended != (None,) * 4:
            return ""
        if agent is not None and agent.mailbox.depth >= limits.mailbox_depth_max:
            return f"the mailbox of {found.recipient} is full: {limits.mailbox_depth_max} messages"
        volume, size = state.volume, len(found.payload) + len(found.metadata)
        if volume.to(found.recipient) + size > limits.mailbox_bytes_max:
            return f"the mailbox of {found.recipient} is full: {limits.mailbox_bytes_max} bytes"
        if volume.unsettled + size > limits.project_bytes_max:
            return f"the project is full: {limits.project_bytes_max} bytes"
        return ""

    def _refuse(self, where: str, wrong: str, record: Any) -> None:
        self.report.rejected += 1
        self._refused.append(
            msgspec.json.encode({"where": where, "wrong": wrong, "record": record}, enc_hook=lambda value: str(value))
        )

    def _register(self, agent: str, kind: str, at: int) -> None:
        if agent in self._exchange.state.agents or agent == UNKNOWN or agent in _RESERVED:
            return
        self._emit(ev.AgentRegistered(at, agent, kind, _ROLE, VERSIONS[0], tuple(VERSIONS), ()))
        self.report.agents += 1

    def _acceptance(self, found: Found) -> ev.MessageAccepted:
        policy = self._exchange.state.policy
        contract = policy.contract_of(found.type) or policy.custom_contract
        awaits_ack = found.delivered_at is None and contract.ack is AckRule.REQUIRED
        priority = contract.default_priority if found.priority is None else min(found.priority, Priority.CRITICAL)
        return ev.MessageAccepted(
            at=found.created_at,
            message_id=found.message_id,
            sender=found.sender,
            recipient=found.recipient,
            message_type=found.type,
            requested=priority,
            priority=priority,
            rule="imported",
            importance=policy.decay.importance_default,
            decay_rate=0.0,
            delivery_class=DeliveryClass(found.delivery_class),
            ack_required=awaits_ack or found.acked_at is not None,
            expires_at=UNENDING if found.expires_at is None else found.expires_at,
            sent_at=found.created_at,
            version=found.version,
            correlation_id=found.correlation_id,
            opens_thread=False,
            broadcast=found.message_id if found.copies else None,
            payload=b"" if found.copies else found.payload,
            metadata=b"" if found.copies else found.metadata,
            recipient_state=RecipientState.UNKNOWN,
            publish_path=PublishPath.UNKNOWN if found.publish_path is None else PublishPath(found.publish_path),
            resolved_session=None,
            tokens=None,
            critical_quota=None,
            blocking_quota=None,
        )

    def _endings(self, number: int, found: Found, now: int) -> Iterable[Event]:
        """Yield the events that ended a message, in order; one whose TTL is over has expired."""
        if found.recalled_at is not None:
            yield ev.MessageRecalled(found.recalled_at, number, found.sender)
        elif found.dead_at is not None:
            yield ev.MessageDied(found.dead_at, number, "rejected", "E_VALIDATION_004", 0, found.reason)
        elif found.delivered_at is not None:
            yield ev.MessageDelivered(found.delivered_at, number, "imported")
            if found.acked_at is not None:
                yield ev.MessageAcknowledged(found.acked_at, number, "received", found.acked_at - found.created_at)
            if found.processed_at is not None:
                yield ev.MessageProcessed(found.processed_at, number, "ack", found.processed_at - found.created_at)
        elif found.expired_at is not None or (found.expires_at is not None and found.expires_at <= now):
            due = found.expired_at if found.expires_at is None else found.expires_at
            importance = float(self._exchange.state.messages[number].importance)
            yield ev.MessageExpired(found.expired_at or now, number, "ttl", due or now, importance, 0.0)

    def _emit(self, event: Event) -> None:
        self._exchange.apply(event)
        self._group.append(event)

    def _commit(self) -> None:
        """Make what was taken durable, and record it as imported."""
        if not self._group:
            return
        self._log.append(self._group)
        self._tables.write(batch_of(self._exchange.capture()))
        with translated(JournalUnavailable, RECORD), self._record:
            self._record.executemany("INSERT OR IGNORE INTO imports VALUES (?, ?)", self._taken)
        self._group, self._taken = [], []


def _broadcast(copies: list[Found]) -> ev.BroadcastAccepted:
    first = copies[0]
    return ev.BroadcastAccepted(
        at=first.created_at,
        broadcast=first.message_id,
        sender=first.sender,
        message_type=first.type,
        receiver_type=first.recipient_type or "*",
        accepted=len(copies),
        failed=(),
        payload=first.payload,
        metadata=first.metadata,
    )

"""A team on a real exchange with a virtual clock: what the tests of the core are written against.

`Team` speaks for everybody: it asks as an agent, expects one kind of reply, keeps every event, and moves time from one
due moment to the next, so that nothing in a test waits.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from tests.envelopes import parsed
from tests.ids import SeededIds as CountedIds
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller, Command, Reply
from tocsin.core.errors import Problem
from tocsin.core.events import Event, decode_events, encode_events
from tocsin.core.exchange import Exchange, Outcome
from tocsin.core.messages.message import Message
from tocsin.core.policy import Policy, document_of
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.timestamps import as_microseconds, iso
from tocsin.core.snapshot import Snapshot, restore, take
from tocsin.policies import default_policy, parse_policy

__all__ = ["SECOND", "START", "CountedIds", "Team", "replayed", "snapshot_bytes"]

#: Microseconds.
SECOND = 1_000_000
#: Where every virtual clock begins: 2025-11-12T10:00:00Z.
START = 1_762_941_600 * SECOND
#: A tick that is due again this often at one moment will never be done.
_TICKS_AT_ONCE = 10_000
#: A session that `advance` keeps alive shows itself this often.
_BEAT_S = 20

_Expected = TypeVar("_Expected")
_Happened = TypeVar("_Happened", bound=Event)


class Team:
    """A project, its agents, their clock and everything that happened."""

    def __init__(self, policy: Policy | str | None = None, start: int = START) -> None:
        self.exchange = Exchange(CountedIds())
        self.now = start
        self.events: list[Event] = []
        self._callers: dict[str, Caller] = {}
        #: Cursor of the last drain, by session.
        self._cursors: dict[str, str] = {}
        self._sent = 0
        self.adopt(policy)

    def adopt(self, policy: Policy | str | None, *, reason: str = "a test asks for it") -> int:
        """Run the project by a policy, by YAML that changes the defaults, or by the defaults."""
        if not isinstance(policy, Policy):
            policy = default_policy() if policy is None else parse_policy(policy)
        return self.ask(cmd.AdoptPolicy(document_of(policy), reason), None, cmd.Adopted).version

    def handle(self, command: Command, caller: Caller) -> Outcome:
        """Give the exchange a command, and keep what happened."""
        outcome = self.exchange.handle(command, caller, self.now)
        self.events += outcome.events
        return outcome

    def ask(self, command: Command, agent: str | None, kind: type[_Expected]) -> _Expected:
        """Ask as an agent, or as the bus itself, and expect one kind of reply."""
        reply = self.tell(command, agent)
        assert isinstance(reply, kind), reply
        return reply

    def tell(self, command: Command, agent: str | None) -> Reply:
        """Ask as an agent, and take any reply."""
        return self.handle(command, self.caller(agent)).reply

    def refused(self, command: Command, agent: str | None) -> Problem:
        """Ask, and expect to be refused."""
        return self.ask(command, agent, Problem)

    def caller(self, agent: str | None) -> Caller:
        """Return who an agent is to the exchange."""
        if agent is None:
            return SYSTEM
        return self._callers.get(agent, Caller(agent, "primary"))

    def register(
        self,
        agent: str,
        agent_type: str = "Implementation",
        role: str = "primary",
        *,
        supported: tuple[str, ...] = ("1.0.0", "1.1.0"),
        capabilities: tuple[str, ...] = (),
    ) -> str:
        """Let an agent join, and return its protocol version."""
        self._callers[agent] = Caller(agent, role)
        return self.ask(cmd.RegisterAgent(agent_type, supported, capabilities), agent, cmd.Registered).version

    def attach(self, agent: str, kind: cmd.SessionKind = "push", window: int | None = None) -> str:
        """Open a session."""
        return self.ask(cmd.OpenSession(kind, window), agent, cmd.SessionReady).session

    def detach(self, session: str) -> None:
        """Close a session."""
        self.ask(cmd.CloseSession(session), self._owner(session), cmd.Done)

    def beat(self, session: str) -> None:
        """Show that a session lives."""
        self.ask(cmd.Heartbeat(session), self._owner(session), cmd.Done)

    def envelope(
        self,
        sender: str,
        receiver: str,
        message_type: str = "StatusUpdate",
        payload: Mapping[str, object] | None = None,
        *,
        message_id: str | None = None,
        receiver_type: str = "*",
        version: str = "1.1.0",
        priority: str | None = None,
        correlation_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        qos: Mapping[str, object] | None = None,
    ) -> Envelope:
        """Write an envelope, and read it back as a gateway would."""
        self._sent += 1
        agent = self.exchange.state.agents.get(sender)
        return parsed(
            message_id or f"msg_{self._sent:06d}_{sender}",
            sender,
            receiver,
            sender_type=agent.agent_type if agent else "Implementation",
            receiver_type=receiver_type,
            version=version,
            timestamp=iso(self.now),
            messageType=message_type,
            priority=priority,
            correlationId=correlation_id,
            payload={} if payload is None else payload,
            metadata=metadata,
            qos=qos,
        )

    def send(self, sender: str, receiver: str, message_type: str = "StatusUpdate", **parts: Any) -> cmd.Receipt:
        """Send to one agent, and expect a receipt; `parts` are those of `envelope`."""
        return self.ask(cmd.Send(self.envelope(sender, receiver, message_type, **parts)), sender, cmd.Receipt)

    def broadcast(self, sender: str, message_type: str = "StatusUpdate", **parts: Any) -> cmd.BroadcastReceipt:
        """Send to everybody, or to all of `receiver_type`."""
        return self.ask(cmd.Send(self.envelope(sender, "*", message_type, **parts)), sender, cmd.BroadcastReceipt)

    def refused_send(self, sender: str, receiver: str, message_type: str = "StatusUpdate", **parts: Any) -> Problem:
        """Send, and expect to be refused."""
        return self.refused(cmd.Send(self.envelope(sender, receiver, message_type, **parts)), sender)

    def drain(self, session: str, limit: int = 500) -> list[str]:
        """Quote the cursor of the last drain, take what waits, and return the signal ids in order."""
        cursor = self._cursors.pop(session, "")
        if cursor and not self.exchange.state.session(session).pushes:
            self.ask(cmd.Confirm(receipt=cursor), self._owner(session), cmd.Confirmed)
        reply = self.ask(cmd.Drain(session, limit), self._owner(session), cmd.Drained)
        self._cursors[session] = reply.cursor
        return [delivery.signal_id for delivery in reply.deliveries]

    def confirm(self, agent: str, *message_ids: str) -> cmd.Confirmed:
        """Confirm receipt."""
        return self.ask(cmd.Confirm(message_ids), agent, cmd.Confirmed)

    def ack(self, agent: str, message_id: str, status: cmd.AckStatus = "received") -> cmd.Acknowledged:
        """Acknowledge."""
        return self.ask(cmd.Acknowledge(message_id, status), agent, cmd.Acknowledged)

    def nack(self, agent: str, message_id: str, *, can_retry: bool, code: str = "") -> cmd.Rejected:
        """Reject, for now or for good."""
        return self.ask(cmd.Reject(message_id, "no", code, can_retry), agent, cmd.Rejected)

    def done(self, agent: str, message_id: str) -> None:
        """Say that a message has been dealt with."""
        self.ask(cmd.MarkProcessed(message_id), agent, cmd.Done)

    def recall(self, agent: str, message_id: str) -> str:
        """Recall, and return the outcome."""
        return self.ask(cmd.Recall(message_id), agent, cmd.RecallResult).outcome

    def redrive(self, agent: str, *signal_ids: str) -> cmd.Redriven:
        """Queue dead letters again."""
        return self.ask(cmd.Redrive(signal_ids), agent, cmd.Redriven)

    def hold(self, command: cmd.AcquireLease | cmd.RenewLease, agent: str) -> cmd.LeaseRecord:
        """Acquire or renew a lease, and expect to hold it."""
        record = self.ask(command, agent, cmd.LeaseRecord)
        assert record.state == "held", record
        return record

    def wait_for_lease(self, command: cmd.AcquireLease, agent: str) -> cmd.LeaseRecord:
        """Ask for a lease, and expect to wait for it."""
        record = self.ask(command, agent, cmd.LeaseRecord)
        assert record.state == "waiting", record
        return record

    def tick(self) -> cmd.Ticked:
        """Let what is due happen."""
        return self.ask(cmd.Tick(), None, cmd.Ticked)

    def advance(self, seconds: float, *, beating: bool = False) -> None:
        """Let time pass from one due moment to the next; `beating` keeps all sessions fresh meanwhile."""
        end = self.now + round(seconds * SECOND)
        while beating and end - self.now > _BEAT_S * SECOND:
            self._run_until(self.now + _BEAT_S * SECOND)
            self._beat_all()
        self._run_until(end)
        if beating:
            self._beat_all()

    def _run_until(self, end: int) -> None:
        ticks = 0
        while (due := self.exchange.next_due()) is not None and due <= end:
            ticks = ticks + 1 if due <= self.now else 0
            assert ticks < _TICKS_AT_ONCE, "the same moment is due again and again"
            self.now = max(self.now, due)
            self.tick()
        self.now = end

    def _beat_all(self) -> None:
        for session in list(self.exchange.state.sessions):
            self.beat(session)

    def _owner(self, session: str) -> str:
        return self.exchange.state.sessions[session].agent

    def message(self, signal_id: str) -> Message:
        """Return the one copy that a signal id names."""
        (found,) = self.exchange.state.copies_of(signal_id)
        return found

    def happened(self, kind: type[_Happened]) -> list[_Happened]:
        """Return the events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def seconds_since(self, moment: int) -> float:
        """Return how long ago a stamp is."""
        return (self.now - moment) / SECOND

    def elapsed_s(self, moment: datetime | int | None) -> float:
        """Return a stamp, or the time in a reply, as seconds since the start of the clock."""
        assert moment is not None
        return ((as_microseconds(moment) if isinstance(moment, datetime) else moment) - START) / SECOND

    def snapshot(self) -> Snapshot:
        """Write the state down."""
        return take(self.exchange.state)

    def check_replay(self) -> None:
        """Check that the journal adds up to the state: from nothing, and from a recovery point half-way."""
        events = decode_events(encode_events(self.events))
        assert events == self.events
        assert snapshot_bytes(replayed(events)) == snapshot_bytes(self.exchange)
        half = len(events) // 2
        if half:
            point = msgspec.msgpack.decode(snapshot_bytes(replayed(events[:half])), type=Snapshot)
            recovered = Exchange(CountedIds(), restore(point))
            recovered.replay(events[half:])
            assert snapshot_bytes(recovered) == snapshot_bytes(self.exchange)


def replayed(events: list[Event]) -> Exchange:
    """Make an exchange out of a journal."""
    exchange = Exchange(CountedIds())
    exchange.replay(events)
    return exchange


def snapshot_bytes(exchange: Exchange) -> bytes:
    """Write an exchange's whole state down, to be compared bit for bit."""
    return msgspec.msgpack.encode(take(exchange.state))

"""What changed since the tables were last written: collected while the exchange runs, captured at one sequence number.

Theory of operation. `ObservedExchange` notes, event by event, which messages, agents, sessions and threads are touched;
noting is a dictionary entry and a reference, no copy. `capture` then copies the touched rows as they are now: a short
moment's work, done between two commands, so that all rows are true of the same sequence number. Turning the copies into
rows and writing them happens elsewhere, while the exchange goes on. A message that lived and ended between two captures
is one row. One that the state has forgotten meanwhile is not lost: the note holds on to it.

Some orders follow from no field: who was offered, died, registered first at one and the same microsecond. The event's
sequence number is kept for each.
"""

import copy
from collections import deque
from itertools import islice

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.message import Failure, Message
from tocsin.core.snapshot import AgentRow, SessionRow, agent_row, session_row
from tocsin.core.state import IdSource, ProjectState, Thread
from tocsin.journal.tables import Line

__all__ = ["Capture", "CapturedMessage", "Memory", "ObservedExchange"]

_MESSAGE_EVENTS = frozenset(kind for kind in ev.EVENT_TYPES if kind.__struct_fields__[1:2] == ("message",))


class _Touched:
    """Notes on one message."""

    __slots__ = ("accepted", "broadcast_seq", "dead_seq", "life", "message", "offered_seq")

    def __init__(self, message: Message, accepted: ev.MessageAccepted | None = None) -> None:
        self.message = message
        self.accepted = accepted
        self.broadcast_seq: int | None = None
        self.offered_seq: int | None = None
        self.dead_seq: int | None = None
        self.life: list[tuple[int, Event]] = []


class CapturedMessage(msgspec.Struct, frozen=True, gc=False):
    """One message as it is now, and what happened to it since the last capture."""

    message: Message
    #: Its acceptance, where that is news: it holds content that an ended message has dropped.
    accepted: ev.MessageAccepted | None
    #: Event of the broadcast that it is a copy of, where that is news.
    broadcast_seq: int | None
    offered_seq: int | None
    dead_seq: int | None
    failure: Failure | None
    remembered: bool
    life: list[tuple[int, Event]]


class Capture(msgspec.Struct, frozen=True):
    """Everything that changed, as of one sequence number."""

    seq: int
    at: int
    policy_version: int
    rate: float
    rate_changed_at: int
    latencies: list[tuple[int, int]]
    messages: list[CapturedMessage]
    forgotten: list[int]
    #: With the event that registered it, and when it retired.
    agents: list[tuple[AgentRow, int, int]]
    #: With the event that opened it, and when it closed.
    sessions: list[tuple[SessionRow, int, int]]
    broadcasts: list[tuple[int, ev.BroadcastAccepted]]
    #: With the event that touched it last.
    threads: list[tuple[Thread, int]]
    policies: list[tuple[int, ev.PolicyAdopted]]
    lines: list[Line]
    oldest_thread: str | None
    life_bytes_max: int


class Memory(msgspec.Struct):
    """Numbers that the state does not keep and the tables do; what a restored exchange starts with."""

    #: Event that registered each agent.
    agents: dict[str, int] = {}
    #: Event that opened each session.
    sessions: dict[str, int] = {}
    #: Event that accepted each broadcast.
    broadcasts: dict[str, int] = {}
    #: Heads of the lines of ended messages: how many entries have been forgotten since the project's beginning.
    settled_head: int = 0
    acknowledged_head: int = 0


class _Line:
    """Where one of the state's lines of ended messages begins and how much of it has been captured."""

    def __init__(self, name: str, head: int, end: int) -> None:
        self.name = name
        self.head = head
        self.captured = end

    def capture(self, entries: deque[tuple[int, int]]) -> Line:
        """Say what is new."""
        end = self.head + len(entries)
        new = min(end - self.captured, len(entries))
        self.captured = end
        return Line(self.name, self.head, end, list(islice(entries, len(entries) - new, None)))


class ObservedExchange(Exchange):
    """An exchange that knows what changed."""

    def __init__(self, ids: IdSource, state: ProjectState | None = None, memory: Memory | None = None) -> None:
        super().__init__(ids, state)
        self._memory = Memory() if memory is None else memory
        head = self._memory.settled_head
        self._settled = _Line("settled", head, head + len(self.state.settled))
        head = self._memory.acknowledged_head
        self._acknowledged = _Line("acknowledged", head, head + len(self.state.acknowledged))
        self._forget_notes()
        #: When the last event happened.
        self.at = 0

    def _forget_notes(self) -> None:
        self._messages: dict[int, _Touched] = {}
        self._forgotten: list[int] = []
        self._agents: dict[str, None] = {}
        self._retired: dict[str, tuple[AgentRow, int, int]] = {}
        self._sessions: dict[str, None] = {}
        self._closed: list[tuple[SessionRow, int, int]] = []
        self._broadcasts: list[tuple[int, ev.BroadcastAccepted]] = []
        self._threads: dict[str, int] = {}
        self._policies: list[tuple[int, ev.PolicyAdopted]] = []

    @property
    def touched(self) -> int:
        """Count the messages that changed since the last capture."""
        return len(self._messages)

    def apply(self, event: Event) -> None:
        """Let the state follow an event, and note what it touches."""
        kind = type(event)
        self.at = event.at
        if kind in _MESSAGE_EVENTS:
            self._apply_to_message(event, kind)
        elif kind is ev.MessageAccepted:
            super().apply(event)
            self._note_accepted(event)  # type: ignore[arg-type]
        else:
            self._apply_other(event)

    def _apply_to_message(self, event: Event, kind: type) -> None:
        state, number = self.state, event.message  # type: ignore[union-attr]
        touched = self._messages.get(number)
        if touched is None:
            touched = self._messages[number] = _Touched(state.message(number))
        super().apply(event)
        touched.life.append((state.seq, event))
        if kind is ev.MessageOffered:
            touched.offered_seq = state.seq
        elif kind is ev.MessageDied:
            touched.dead_seq = state.seq
        elif kind is ev.DeadLetterPurged:
            self._forgotten.append(number)

    def _note_accepted(self, event: ev.MessageAccepted) -> None:
        state = self.state
        seq = state.seq
        touched = self._messages[seq] = _Touched(state.messages[seq], event)
        touched.life.append((seq, event))
        if event.broadcast is not None:
            touched.broadcast_seq = self._memory.broadcasts[event.broadcast]
        self._agents[event.sender] = None
        if event.correlation_id is not None and event.correlation_id in state.threads:
            self._threads[event.correlation_id] = seq

    def _apply_other(self, event: Event) -> None:
        state, memory = self.state, self._memory
        ending: list[int] = []
        if isinstance(event, ev.MessagesForgotten):
            ending = [seq for _, seq in islice(state.settled, event.settled)]
            ending += [seq for _, seq in islice(state.acknowledged, event.acknowledged)]
            self._settled.head += event.settled
            self._acknowledged.head += event.acknowledged
        elif isinstance(event, ev.AgentRetired):
            row = agent_row(state.agents[event.agent])
            self._retired[event.agent] = (row, memory.agents.pop(event.agent), event.at)
            self._agents.pop(event.agent, None)
        elif isinstance(event, ev.SessionClosed):
            session = session_row(state.session(event.session))
            self._closed.append((session, memory.sessions.pop(event.session), event.at))
            self._sessions.pop(event.session, None)
        super().apply(event)
        self._forgotten += [seq for seq in ending if seq not in state.messages]
        if isinstance(event, ev.AgentRegistered):
            memory.agents.setdefault(event.agent, state.seq)
            self._agents[event.agent] = None
        elif isinstance(event, ev.GamingDetected | ev.GamingCleared):
            self._agents[event.agent] = None
        elif isinstance(event, ev.SessionOpened):
            memory.sessions[event.session] = state.seq
            self._sessions[event.session] = None
        elif isinstance(event, ev.SessionHeartbeat | ev.SessionWentStale):
            self._sessions[event.session] = None
        elif isinstance(event, ev.BroadcastAccepted):
            memory.broadcasts[event.broadcast] = state.seq
            self._broadcasts.append((state.seq, event))
        elif isinstance(event, ev.PolicyAdopted):
            self._policies.append((state.seq, event))

    def capture(self) -> Capture:
        """Copy what changed, as it is now, and start anew."""
        state, memory = self.state, self._memory
        agents = [self._retired[name] for name in self._retired if name not in state.agents]
        agents += [
            (agent_row(state.agents[name]), memory.agents[name], 0) for name in self._agents if name in state.agents
        ]
        capture = Capture(
            seq=state.seq,
            at=self.at,
            policy_version=state.policy_version,
            rate=state.latency.rate,
            rate_changed_at=state.latency.changed_at,
            latencies=list(state.latency.samples),
            messages=[self._captured(number, touched) for number, touched in self._messages.items()],
            forgotten=self._forgotten,
            agents=agents,
            sessions=self._closed
            + [(session_row(state.sessions[name]), memory.sessions[name], 0) for name in self._sessions],
            broadcasts=self._broadcasts,
            threads=[
                (copy.copy(state.threads[name]), seq) for name, seq in self._threads.items() if name in state.threads
            ],
            policies=self._policies,
            lines=[self._settled.capture(state.settled), self._acknowledged.capture(state.acknowledged)],
            oldest_thread=next(iter(state.threads), None),
            life_bytes_max=state.policy.storage.life_bytes_max if state.has_policy else 0,
        )
        for name in [name for name in memory.broadcasts if name not in state.broadcasts]:
            del memory.broadcasts[name]
        self._forget_notes()
        return capture

    def _captured(self, number: int, touched: _Touched) -> CapturedMessage:
        state, message = self.state, touched.message
        failure = state.failures.get(number)
        return CapturedMessage(
            copy.copy(message),
            touched.accepted,
            touched.broadcast_seq,
            touched.offered_seq,
            touched.dead_seq,
            None if failure is None else copy.copy(failure),
            number in state.messages,
            touched.life,
        )

"""What changed since the tables were last written: kept while the exchange runs, captured at one sequence number.

Theory of operation. `ObservedExchange` keeps the events since the last capture, and takes a last look at what an event
is about to remove: forgotten messages, closed sessions, retired agents. `capture` then copies every message, agent,
session and thread that those events touched, as it is now: a short moment's work, done between two commands, so that
all rows are true of the same sequence number. Turning the copies into rows and writing them happens elsewhere, while
the exchange goes on. A message that lived and ended between two captures is one row.

Some orders follow from no field: who was offered, died, registered first at one and the same microsecond. The event's
sequence number is kept for each.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from operator import attrgetter, methodcaller
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.documents import DOCUMENT_EVENTS, document, touched
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.messages.model import Failure, Message
from tocsin.core.snapshot import AgentRow, SessionRow, agent_row, session_row
from tocsin.core.state import IdSource, ProjectState, Thread
from tocsin.journal.tables import Line

__all__ = ["LEVEL_EVENTS", "MESSAGE_EVENTS", "Capture", "Memory", "ObservedExchange"]

#: Events about one message, named by its number.
MESSAGE_EVENTS = frozenset(kind for kind in ev.EVENT_TYPES if kind.__struct_fields__[1:2] == ("message",))
#: Events about several messages at once, and how they name them.
LEVEL_EVENTS: dict[type, Callable[[Any], tuple[int, ...]]] = {
    ev.PriorityInherited: attrgetter("raised"),
    ev.PriorityRestored: attrgetter("lowered"),
}
#: `copy.copy` of a struct, without looking for other ways to copy it.
_copied: Callable[[Any], Any] = methodcaller("__copy__")
_REMOVALS = frozenset({ev.MessagesForgotten, ev.DeadLetterPurged, ev.SessionClosed, ev.AgentRetired})


class Capture(msgspec.Struct, frozen=True):
    """Everything that changed, as of one sequence number."""

    #: The events since the last capture, and the number of the first.
    events: list[Event]
    first_seq: int
    seq: int
    at: int
    policy_version: int
    rate: float
    rate_changed_at: int
    latencies: list[tuple[int, int]]
    #: The messages touched, as they are now or were last.
    messages: list[Message]
    #: Messages that the state no longer holds.
    forgotten: set[int]
    #: What went wrong with the messages touched so far.
    failures: dict[int, Failure]
    #: With the event that registered it, and when it retired.
    agents: list[tuple[AgentRow, int, int]]
    #: With the event that opened it, and when it closed.
    sessions: list[tuple[SessionRow, int, int]]
    #: With the event that touched it last.
    threads: list[tuple[Thread, int]]
    #: Documents touched, by kind and id, as they are now; nothing where one is gone.
    documents: list[tuple[str, str, bytes | None]]
    lines: list[Line]
    oldest_thread: str | None
    life_bytes_max: int


class Memory(msgspec.Struct):
    """Numbers that the state does not keep and the tables do; what a restored exchange starts with."""

    #: Event that registered each agent.
    agents: dict[str, int] = {}
    #: Event that opened each session.
    sessions: dict[str, int] = {}
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


class _Notes:
    """What one capture is made of."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        #: Messages that the state has let go, as they were last.
        self.gone: dict[int, Message] = {}
        #: Rows of sessions and agents as they were before an event removed them, by the event's number.
        self.sessions: dict[int, SessionRow] = {}
        self.agents: dict[int, AgentRow] = {}


class ObservedExchange(Exchange):
    """An exchange that knows what changed."""

    def __init__(
        self, ids: IdSource, state: ProjectState | None = None, memory: Memory | None = None, at: int = 0
    ) -> None:
        super().__init__(ids, state)
        self._memory = memory = Memory() if memory is None else memory
        state = self.state
        self._settled = _Line("settled", memory.settled_head, memory.settled_head + len(state.settled))
        self._acknowledged = _Line(
            "acknowledged", memory.acknowledged_head, memory.acknowledged_head + len(state.acknowledged)
        )
        self._captured_seq = state.seq
        self._captured_at = at
        self._notes = _Notes()

    @property
    def uncaptured(self) -> int:
        """Count the events since the last capture."""
        return len(self._notes.events)

    @property
    def at(self) -> int:
        """Return when the last event happened."""
        events = self._notes.events
        return events[-1].at if events else self._captured_at

    def apply(self, event: Event) -> None:
        """Let the state follow an event, and keep it."""
        if type(event) in _REMOVALS:
            self._look(event)
        super().apply(event)
        self._notes.events.append(event)

    def _look(self, event: Event) -> None:
        """Take a last look at what an event is about to remove."""
        state, notes = self.state, self._notes
        if isinstance(event, ev.MessagesForgotten):
            for entries, count in ((state.settled, event.settled), (state.acknowledged, event.acknowledged)):
                for _, number in islice(entries, count):
                    message = state.messages.get(number)
                    if message is not None:
                        notes.gone[number] = message
            self._settled.head += event.settled
            self._acknowledged.head += event.acknowledged
        elif isinstance(event, ev.DeadLetterPurged):
            notes.gone[event.message] = state.message(event.message)
        elif isinstance(event, ev.SessionClosed):
            notes.sessions[state.seq + 1] = session_row(state.session(event.session))
        elif isinstance(event, ev.AgentRetired):
            notes.agents[state.seq + 1] = agent_row(state.agents[event.agent])

    def capture(self) -> Capture:
        """Copy what changed, as it is now, and start anew."""
        state, notes = self.state, self._notes
        first_seq = self._captured_seq + 1
        touched_messages: dict[int, None] = {}
        senders: dict[str, None] = {}
        threads: dict[str, int] = {}
        others: list[tuple[int, Event]] = []
        papers: dict[tuple[str, str], None] = {}
        for seq, event in enumerate(notes.events, first_seq):
            kind = type(event)
            if kind is ev.MessageAccepted:
                touched_messages[seq] = None
                senders[event.sender] = None  # type: ignore[union-attr]
                if event.correlation_id is not None:  # type: ignore[union-attr]
                    threads[event.correlation_id] = seq  # type: ignore[union-attr]
            elif kind in MESSAGE_EVENTS:
                touched_messages[event.message] = None  # type: ignore[union-attr]
            else:
                others.append((seq, event))
                if kind in LEVEL_EVENTS:
                    touched_messages.update(dict.fromkeys(LEVEL_EVENTS[kind](event)))
                if kind in DOCUMENT_EVENTS:
                    papers.update(dict.fromkeys(touched(event)))
        messages, gone, failures = state.messages, notes.gone, state.failures
        capture = Capture(
            events=notes.events,
            first_seq=first_seq,
            seq=state.seq,
            at=self.at,
            policy_version=state.policy_version,
            rate=state.latency.rate,
            rate_changed_at=state.latency.changed_at,
            latencies=list(state.latency.samples),
            messages=[_copied(messages.get(number) or gone[number]) for number in touched_messages],
            forgotten={number for number in gone if number not in messages},
            failures={number: _copied(failures[number]) for number in touched_messages if number in failures},
            agents=self._captured_agents(others, senders),
            sessions=self._captured_sessions(others),
            threads=[(_copied(state.threads[name]), seq) for name, seq in threads.items() if name in state.threads],
            documents=[(kind, id_, document(state, kind, id_)) for kind, id_ in papers],
            lines=[self._settled.capture(state.settled), self._acknowledged.capture(state.acknowledged)],
            oldest_thread=next(iter(state.threads), None),
            life_bytes_max=state.policy.storage.life_bytes_max if state.has_policy else 0,
        )
        self._captured_seq, self._captured_at, self._notes = state.seq, capture.at, _Notes()
        return capture

    def _captured_agents(
        self, events: list[tuple[int, Event]], senders: dict[str, None]
    ) -> list[tuple[AgentRow, int, int]]:
        state, known = self.state, self._memory.agents
        touched, retired = senders, {}
        for seq, event in events:
            if isinstance(event, ev.AgentRegistered):
                known.setdefault(event.agent, seq)
                touched[event.agent] = None
            elif isinstance(event, ev.AgentRetired):
                retired[event.agent] = (self._notes.agents[seq], known.pop(event.agent), event.at)
            elif isinstance(event, ev.GamingDetected | ev.GamingCleared):
                touched[event.agent] = None
        gone = [row for name, row in retired.items() if name not in state.agents]
        return gone + [(agent_row(state.agents[name]), known[name], 0) for name in touched if name in state.agents]

    def _captured_sessions(self, events: list[tuple[int, Event]]) -> list[tuple[SessionRow, int, int]]:
        state, known = self.state, self._memory.sessions
        touched: dict[str, None] = {}
        closed: list[tuple[SessionRow, int, int]] = []
        for seq, event in events:
            if isinstance(event, ev.SessionOpened):
                known[event.session] = seq
                touched[event.session] = None
            elif isinstance(event, ev.SessionHeartbeat | ev.SessionWentStale | ev.SessionWindowChanged):
                touched[event.session] = None
            elif isinstance(event, ev.SessionClosed):
                closed.append((self._notes.sessions[seq], known.pop(event.session), event.at))
        there = [name for name in touched if name in state.sessions]
        return closed + [(session_row(state.sessions[name]), known[name], 0) for name in there]

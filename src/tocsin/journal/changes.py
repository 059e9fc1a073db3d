"""Changes of the state since the tables were last written, captured at one sequence number.

Theory of operation. `ObservedExchange` keeps the events since the last capture, and a copy of everything that an event
is about to remove: forgotten messages, closed sessions, retired agents. `gather` copies the messages that the events
since the last call touched, as they are now; called often, it leaves little to do for a capture of many events.
`capture` gathers the rest, copies every agent, session and thread that was touched, and starts again. That is quick and
happens between two commands, so all rows belong to the same sequence number. Turning the copies into rows and writing
them happens in another thread, while the exchange continues. A message that was accepted and ended between two captures
is one row.

Some orders cannot be derived from a field: the order of offers, deaths and registrations within one microsecond. The
event's sequence number is kept for each.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter, methodcaller
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.documents import DOCUMENT_EVENTS, document, document_count, touched
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import Failure
from tocsin.core.snapshot import AgentRow, SessionRow, agent_row, session_row
from tocsin.core.state import IdSource, ProjectState, Thread
from tocsin.journal.table_definitions import SEALED
from tocsin.journal.tables import StoredQueue

__all__ = ["LEVEL_EVENTS", "MESSAGE_EVENTS", "Capture", "EventNumbers", "ObservedExchange"]

#: Events about one message, named by its number.
MESSAGE_EVENTS = frozenset(kind for kind in ev.EVENT_TYPES if kind.__struct_fields__[1:2] == ("message",))
#: Events about messages and something else, and how they name the messages.
LEVEL_EVENTS: dict[type, Callable[[Any], tuple[int, ...]]] = {
    ev.PriorityInherited: attrgetter("raised"),
    ev.PriorityRestored: attrgetter("lowered"),
    ev.MessagesForgotten: attrgetter("contents"),
    **dict.fromkeys(
        (ev.AgentWakeRequested, ev.AgentWoken, ev.AgentWakeFailed, ev.ChannelIgnored), lambda event: (event.message,)
    ),
}
#: `copy.copy` of a struct, without looking for other ways to copy it.
_copied: Callable[[Any], Any] = methodcaller("__copy__")
#: Events in one part of a capture; a part is freed at once.
_PART = 1000
_REMOVALS = frozenset({ev.MessagesForgotten, ev.DeadLetterPurged, ev.SessionClosed, ev.AgentRetired})


class Capture(msgspec.Struct, frozen=True):
    """Changes of the state, as of one sequence number."""

    #: The events since the last capture, in parts that follow each other, and the number of the first.
    parts: list[tuple[Event, ...]]
    first_seq: int
    seq: int
    at: int
    policy_version: int
    rate: float
    rate_changed_at: int
    #: The messages touched, by number, as they are now, or as they were before the state forgot them.
    messages: dict[int, Message]
    #: Messages that the state no longer holds.
    forgotten: set[int]
    #: Failures of the messages touched.
    failures: dict[int, Failure]
    #: With the event that registered it, and when it retired.
    agents: list[tuple[AgentRow, int, int]]
    #: With the event that opened it, and when it closed.
    sessions: list[tuple[SessionRow, int, int]]
    #: With the event that touched it last.
    threads: list[tuple[Thread, int]]
    #: Documents touched, by kind and id, as they are now; null if deleted.
    documents: list[tuple[str, str, bytes | None]]
    #: Changes of the queues of settled and acknowledged messages, and of latencies.
    queues: list[StoredQueue]
    oldest_thread: str | None
    life_bytes_max: int
    #: Number of rows that the state holds, by table.
    held: dict[str, int]
    #: Tables in which every row has a checksum that a recovery reads.
    sealed: tuple[str, ...]

    def events(self) -> Iterator[Event]:
        """Return the events, in order."""
        return chain.from_iterable(self.parts)


class EventNumbers(msgspec.Struct):
    """What is in the tables and not in the state; a restored exchange starts with it, a new one with the defaults."""

    #: Event that registered each agent.
    agents: dict[str, int] = {}
    #: Event that opened each session.
    sessions: dict[str, int] = {}
    #: Number of entries of each queue of ended messages that have been forgotten since the project's beginning.
    settled_head: int = 0
    acknowledged_head: int = 0
    #: Number after the last latency, counted from the project's beginning; null if they are not a stored queue yet.
    latencies_end: int | None = None
    #: Tables in which every row has a checksum that a recovery reads: all of those that are empty.
    sealed: tuple[str, ...] = SEALED


class _EndedTracker:
    """Head of one of the state's queues of ended messages, and the part of it that has been captured."""

    def __init__(self, name: str, head: int, end: int) -> None:
        self.name = name
        self.head = head
        self.captured = end

    def capture(self, entries: deque[tuple[int, int]]) -> StoredQueue:
        """Return the new entries."""
        end = self.head + len(entries)
        new = min(end - self.captured, len(entries))
        self.captured = end
        # From the end, because the entries before the new ones are many.
        return StoredQueue(self.name, self.head, end, list(islice(reversed(entries), new))[::-1])


class _LatencyTracker:
    """The part of the state's recent latencies that has been captured.

    The state drops the oldest ones as it adds others, without an event for it. What is new follows the last one that
    was captured, which is the same object.
    """

    def __init__(self, end: int | None, samples: Any) -> None:
        self._end = end or 0
        self._last: Any = samples[-1] if samples and end is not None else None

    def capture(self, samples: Any) -> StoredQueue:
        """Return the new latencies."""
        added: list[Any] = []
        for sample in reversed(samples):
            if sample is self._last:
                break
            added.append(sample)
        added.reverse()
        self._end += len(added)
        if added:
            self._last = added[-1]
        return StoredQueue("latencies", self._end - len(samples), self._end, added)


class _Observations:
    """Events, copies and removed objects since the last capture."""

    def __init__(self) -> None:
        #: Events whose messages have been copied, in parts, and the number of them. They are tuples: the garbage
        #: collector stops looking at those, and would go through a list of all events in every full collection.
        self.parts: list[tuple[Event, ...]] = []
        self.gathered = 0
        #: The events after them.
        self.events: list[Event] = []
        #: Copies of the messages touched, and of their failures.
        self.messages: dict[int, Message] = {}
        self.failures: dict[int, Failure] = {}
        #: Senders, and threads with the event that touched each last.
        self.senders: dict[str, None] = {}
        self.threads: dict[str, int] = {}
        #: Events that are not about one message.
        self.others: list[tuple[int, Event]] = []
        #: Messages that the state has forgotten, as they were before.
        self.gone: dict[int, Message] = {}
        #: Rows of sessions and agents as they were before an event removed them, by the event's number.
        self.sessions: dict[int, SessionRow] = {}
        self.agents: dict[int, AgentRow] = {}


class ObservedExchange(Exchange):
    """An exchange that records its changes for projections."""

    def __init__(
        self, ids: IdSource, state: ProjectState | None = None, memory: EventNumbers | None = None, at: int = 0
    ) -> None:
        super().__init__(ids, state)
        self._memory = memory = EventNumbers() if memory is None else memory
        state = self.state
        self._settled = _EndedTracker("settled", memory.settled_head, memory.settled_head + len(state.settled))
        self._acknowledged = _EndedTracker(
            "acknowledged", memory.acknowledged_head, memory.acknowledged_head + len(state.acknowledged)
        )
        self._latencies = _LatencyTracker(memory.latencies_end, state.latency.samples)
        self._captured_seq = state.seq
        self._captured_at = at
        self._observed = _Observations()

    @property
    def uncaptured(self) -> int:
        """Count the events since the last capture."""
        observed = self._observed
        return observed.gathered + len(observed.events)

    @property
    def ungathered(self) -> int:
        """Count the events since messages were last copied."""
        return len(self._observed.events)

    @property
    def at(self) -> int:
        """Return when the last event happened."""
        observed = self._observed
        last = observed.events or (observed.parts[-1] if observed.parts else ())
        return last[-1].at if last else self._captured_at

    def apply(self, event: Event) -> None:
        """Apply an event to the state, and keep it for the next capture."""
        if type(event) in _REMOVALS:
            self._keep_removed(event)
        Exchange.apply(self, event)
        self._observed.events.append(event)

    def apply_pushed(self, accepted: ev.MessageAccepted, offered: ev.MessageOffered) -> None:
        """Apply an acceptance and its offer to the state, and keep both for the next capture."""
        Exchange.apply_pushed(self, accepted, offered)
        self._observed.events += (accepted, offered)

    def _keep_removed(self, event: Event) -> None:
        """Keep what an event is about to remove."""
        state, observed = self.state, self._observed
        if isinstance(event, ev.MessagesForgotten):
            for entries, count in ((state.settled, event.settled), (state.acknowledged, event.acknowledged)):
                for _, number in islice(entries, count):
                    message = state.messages.get(number)
                    if message is not None:
                        observed.gone[number] = message
            self._settled.head += event.settled
            self._acknowledged.head += event.acknowledged
        elif isinstance(event, ev.DeadLetterPurged):
            observed.gone[event.message] = state.message(event.message)
        elif isinstance(event, ev.SessionClosed):
            observed.sessions[state.seq + 1] = session_row(state.session(event.session))
        elif isinstance(event, ev.AgentRetired):
            observed.agents[state.seq + 1] = agent_row(state.agents[event.agent])

    def gather(self) -> None:
        """Copy the messages that the events since the last call touched, as they are now."""
        observed = self._observed
        events = observed.events
        if not events:
            return
        first_seq = self._captured_seq + 1 + observed.gathered
        for begin in range(0, len(events), _PART):
            observed.parts.append(tuple(events[begin : begin + _PART]))
        observed.gathered += len(events)
        observed.events = []
        threads, others = observed.threads, observed.others
        touched_messages: dict[int, None] = {}
        senders = observed.senders
        for seq, event in enumerate(events, first_seq):
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
        messages, gone = self.state.messages, observed.gone
        for number in touched_messages:
            message = messages.get(number) or gone.get(number)
            # The end of a wake may name a message that was forgotten, and written to the tables, before.
            if message is not None:
                observed.messages[number] = message.copy()
        if self.state.failures or observed.failures:
            self._gather_failures(touched_messages)

    def _gather_failures(self, numbers: Iterable[int]) -> None:
        failures, copies = self.state.failures, self._observed.failures
        for number in numbers:
            failure = failures.get(number)
            if failure is not None:
                copies[number] = _copied(failure)
            else:
                copies.pop(number, None)

    def capture(self) -> Capture:
        """Copy what has changed since the last capture, as it is now."""
        self.gather()
        state, observed = self.state, self._observed
        documents_touched: dict[tuple[str, str], None] = {}
        for _, event in observed.others:
            if type(event) in DOCUMENT_EVENTS:
                documents_touched.update(dict.fromkeys(touched(event)))
        capture = Capture(
            parts=observed.parts,
            first_seq=self._captured_seq + 1,
            seq=state.seq,
            at=self.at,
            policy_version=state.policy_version,
            rate=state.latency.rate,
            rate_changed_at=state.latency.changed_at,
            messages=observed.messages,
            forgotten={number for number in observed.gone if number not in state.messages},
            failures=observed.failures,
            agents=self._captured_agents(observed.others, observed.senders),
            sessions=self._captured_sessions(observed.others),
            threads=[
                (_copied(state.threads[name]), seq) for name, seq in observed.threads.items() if name in state.threads
            ],
            documents=[(kind, id_, document(state, kind, id_)) for kind, id_ in documents_touched],
            queues=[
                self._settled.capture(state.settled),
                self._acknowledged.capture(state.acknowledged),
                self._latencies.capture(state.latency.samples),
            ],
            oldest_thread=next(iter(state.threads), None),
            life_bytes_max=state.policy.storage.life_bytes_max if state.has_policy else 0,
            held={
                "signal_queue": len(state.messages),
                "agents": len(state.agents),
                "sessions": len(state.sessions),
                "threads": len(state.threads),
                "documents": document_count(state),
            },
            sealed=self._memory.sealed,
        )
        self._captured_seq, self._captured_at, self._observed = state.seq, capture.at, _Observations()
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
                retired[event.agent] = (self._observed.agents[seq], known.pop(event.agent), event.at)
            elif isinstance(event, ev.GamingDetected | ev.GamingCleared | ev.AgentCharged):
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
                closed.append((self._observed.sessions[seq], known.pop(event.session), event.at))
        there = [name for name in touched if name in state.sessions]
        return closed + [(session_row(state.sessions[name]), known[name], 0) for name in there]

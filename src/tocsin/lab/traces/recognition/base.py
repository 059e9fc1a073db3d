"""Reader of events for the recognition of commands: the state, the following events and the current step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import Event, encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.messages.message import Message
from tocsin.core.state import ProjectState
from tocsin.lab.traces.trace import APPLY, TICK, Step

__all__ = ["AHEAD", "FOLLOWS", "TICKS", "EventReader", "Opener", "Opening", "always"]

#: The event belongs to the current step.
FOLLOWS: Final = "follows"
#: The event was caused by a timer.
TICKS: Final = "ticks"
#: The step that an event opens, or `FOLLOWS` or `TICKS`.
Opening = Step | str
Opener = Callable[["EventReader", Any, int], Opening]

#: Kinds that are never the first event of a decision; a lone one has a cause that events do not show.
_NEVER_FIRST = frozenset(
    {
        *(ev.WaitBegan, ev.WaitShifted, ev.WaitRaised, ev.WaitEnded),
        *(ev.PriorityInherited, ev.PriorityRestored, ev.DeadlockFound),
    }
)

#: Number of following events that are examined for a decision.
AHEAD = 64


class EventReader:
    """Reads the events of one window and recognises their commands."""

    def __init__(self, shadow: Exchange, events: Sequence[Event], openers: Mapping[type, Opener]) -> None:
        self._shadow = shadow
        self._openers = openers
        self.events = events
        #: The current step.
        self.step: Step | None = None
        #: Events of that step that would otherwise open another: their type and message.
        self.expected: set[tuple[type, int]] = set()
        #: Position of an event that belongs to the step opened before it.
        self.taken = -1

    def open(self, event: Event, index: int) -> Opening:
        """Return the step that an event opens, or `FOLLOWS` or `TICKS`."""
        if index == self.taken:
            return FOLLOWS
        step = self.step
        same = step is not None and step.at == event.at
        if not same:
            self.expected = set()
        elif (type(event), getattr(event, "message", 0)) in self.expected:
            return FOLLOWS
        expected, self.expected = self.expected, set()
        opening = self._openers[type(event)](self, event, index)
        if isinstance(opening, Step):
            return opening
        self.expected = expected
        if opening == TICKS:
            return FOLLOWS if same and step is not None and step.ask == TICK else TICKS
        if same:
            return FOLLOWS
        return self.apply(event) if type(event) in _NEVER_FIRST else TICKS

    def ahead(self, index: int) -> Sequence[Event]:
        """Return the following events that may belong to the same decision."""
        at, found = self.events[index].at, []
        for later in self.events[index + 1 : index + 1 + AHEAD]:
            if later.at != at:
                break
            found.append(later)
        return found

    def reopen(self, index: int) -> Opening:
        """Open the step of a later event now; the events before it belong to it."""
        event = self.events[index]
        self.taken = index
        return self._openers[type(event)](self, event, index)

    @property
    def state(self) -> ProjectState:
        """Return the state before the event."""
        return self._shadow.state

    def message(self, seq: int) -> Message:
        """Return a message in its state before the event."""
        return self._shadow.state.message(seq)

    def under_way(self, ask: str, at: int) -> Step | None:
        """Return the current step if it has this command and time."""
        step = self.step
        return step if step is not None and step.ask == ask and step.at == at else None

    def by(self, at: int, caller: str, ask: str, /, **body: Any) -> Step:
        """Make a step for a caller's command."""
        if caller == SYSTEM.agent:
            return Step(at, SYSTEM.agent, SYSTEM.role, ask, body=body)
        known = self._shadow.state.agents.get(caller)
        # A caller that is not registered and was accepted used an administrator's token.
        return Step(at, caller, "human" if known is None else known.role, ask, body=body)

    def expect(self, *pairs: tuple[type, int]) -> None:
        """Set the events that belong to the step just opened."""
        self.expected = set(pairs)

    def apply(self, event: Event) -> Step:
        """Make a step that applies an event as recorded, because its command is not known."""
        return Step(event.at, SYSTEM.agent, SYSTEM.role, APPLY, body={"event": encode_events([event])})

    def tick_is_due(self, at: int) -> bool:
        """Return whether a timer can have been the cause."""
        due = self._shadow.next_due()
        return due is not None and due <= at


def always(answer: str) -> Opener:
    """Return an opener with a constant answer."""
    return lambda reader, event, index: answer

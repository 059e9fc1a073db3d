"""Recorder: turns recorded events into traces, one per window of a project.

The recorder applies the events to an exchange, so that every event is interpreted in the state at its time, and every
window starts with exactly the recorded state: open messages, token buckets, sessions, leases and timers.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby

import msgspec

from tocsin.core import events as ev
from tocsin.core import snapshot
from tocsin.core.commands import SYSTEM
from tocsin.core.errors import InvariantViolation, refusal
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.messages.model import State
from tocsin.core.policy import document_of
from tocsin.core.state import ProjectState
from tocsin.core.waiting.waits import BREAKERS
from tocsin.lab.settings import Settings
from tocsin.lab.traces.causes import CauseFinder
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.message_tracker import MessageTracker
from tocsin.lab.traces.recognition import OPENERS, TICKS, EventReader
from tocsin.lab.traces.trace import TICK, Step, Trace, encoded_consumers, encoded_histories, fingerprint

__all__ = ["record", "record_span", "track_open_messages", "windows_of"]

DAY_US = 86_400_000_000
_ENCODER = msgspec.msgpack.Encoder()
_OPEN = frozenset({State.HELD, State.QUEUED, State.OFFERED})


class _NoIds:
    """Source of ids for the recorder, which applies events and never needs new ids."""

    def fresh(self, prefix: str, now: int) -> str:
        """Raise an error."""
        raise InvariantViolation(f"the recorder requested an id with prefix {prefix}")


def windows_of(events: Iterable[tuple[int, Event]], window_us: int = DAY_US) -> Iterator[tuple[int, int, list[Event]]]:
    """Split a project's events into windows; yield the window's number, the first sequence number and the events."""
    for number, group in groupby(events, lambda numbered: numbered[1].at // window_us):
        numbered = list(group)
        yield number, numbered[0][0], [event for _, event in numbered]


def record(
    project: str, events: Iterable[tuple[int, Event]], settings: Settings, window_us: int = DAY_US
) -> Iterator[Trace]:
    """Yield the traces of a project's windows from its events, in order."""
    shadow = Exchange(_NoIds())
    for number, _, found in windows_of(events, window_us):
        yield _window(project, shadow, found, number * window_us, (number + 1) * window_us, settings)


def record_span(
    project: str, events: Iterable[tuple[int, Event]], settings: Settings, first_seq: int, last_seq: int
) -> Trace | None:
    """Return one trace of the events from about `first_seq` to `last_seq`; None if there are none.

    Earlier events are only applied. The trace begins where the time changes, and so with a command.
    """
    shadow = Exchange(_NoIds())
    found: list[Event] = []
    before = -1
    for seq, event in events:
        if seq > last_seq:
            break
        if found or (seq >= first_seq and (event.at != before or seq == 1)):
            found.append(event)
        else:
            shadow.apply(event)
        before = event.at
    if not found:
        return None
    return _window(project, shadow, found, found[0].at, found[-1].at + 1, settings)


def _window(
    project: str, shadow: Exchange, events: list[Event], begins_at: int, ends_at: int, settings: Settings
) -> Trace:
    state = shadow.state
    begun = state.has_policy
    kept = _ENCODER.encode(snapshot.take(state)) if begun else b""
    policy = document_of(state.policy) if begun else None
    tracker = MessageTracker()
    track_open_messages(tracker, state)
    causes = CauseFinder(settings.think_max_us, settings.examples_max)
    reader = EventReader(shadow, events, OPENERS)
    steps: list[Step] = []
    run: list[Event] = []
    ids: list[str] = []
    lags: list[int] = []
    for wait in state.waits.waits.values():
        _require_known(project, wait.kind)
    for index, event in enumerate(events):
        if type(event) is ev.WaitBegan:
            _require_known(project, event.wait_kind)
        opening = reader.open(event, index)
        if opening == TICKS:
            due = shadow.next_due()
            if due is not None and due <= event.at:
                lags.append(event.at - due)
            opening = Step(event.at, SYSTEM.agent, SYSTEM.role, TICK)
        if isinstance(opening, Step):
            _close(reader.step, run, ids, state)
            if reader.step is not None and reader.step.ask == "Confirm":
                causes.step(len(steps) - 1, reader.step, state)  # All its receipts are known only now.
            run, ids = [], []
            reader.step = opening
            if opening.ask != "Confirm":
                causes.step(len(steps), opening, state)
            steps.append(opening)
        shadow.apply(event)
        tracker.follow(state.seq, [event])
        causes.event(state, event)
        run.append(event)
        ids += _issued_ids(event)
    _close(reader.step, run, ids, state)
    if reader.step is not None and reader.step.ask == "Confirm":
        causes.step(len(steps) - 1, reader.step, state)
    message_data, history_data = encoded_histories(tracker.histories.values())
    return Trace(
        project=project,
        window=_name(begins_at, ends_at),
        begins_at=begins_at,
        ends_at=events[-1].at + 1,
        snapshot=kept,
        policy=policy,
        steps=steps,
        refused=tracker.refused,
        events=len(events),
        messages=len(tracker.histories),
        message_data=message_data,
        history_data=history_data,
        consumer_data=encoded_consumers(causes.finish()),
        escalations=tracker.escalations,
        lag_us=sorted(lags)[len(lags) // 2] if lags else 0,
        lag_max_us=max(lags, default=0),
    )


def _require_known(project: str, kind: str) -> None:
    """Refuse a history with a kind of wait that this version does not have: its deadlocks could not be decided."""
    if kind not in BREAKERS:
        raise refusal("E_LAB_002", f"{project}: there are waits of kind {kind}, which this version cannot replay")


def _close(step: Step | None, run: list[Event], ids: list[str], state: ProjectState) -> None:
    """Record the events and ids of a step when the next one begins."""
    if step is None:
        return
    step.events, step.digest, step.ids = len(run), fingerprint(run), tuple(ids)
    if step.ask == "Drain":
        agent = state.agents.get(step.agent)
        step.polls = agent is None or not agent.mailbox.depth


def _issued_ids(event: Event) -> tuple[str, ...]:
    """Return the ids that the bus issued in an event."""
    match event:
        case ev.MessageAccepted():
            return (event.message_id,) if event.sender == SYSTEM.agent else ()
        case ev.SessionOpened():
            return (event.session,)
        case ev.ApprovalRequested():
            return (event.approval,)
        case ev.DiscussionOpened():
            return (event.discussion,)
        case ev.EscalationOpened():
            return (event.escalation,)
        case ev.AgentWakeRequested():
            return (event.wake,)
    return ()


def _name(begins_at: int, ends_at: int) -> str:
    begin = datetime.fromtimestamp(begins_at // 1_000_000, UTC)
    return f"{begin:%Y-%m-%d}" if ends_at - begins_at == DAY_US else f"{begin:%Y-%m-%dT%H%M%S}"


def track_open_messages(tracker: MessageTracker, state: ProjectState) -> None:
    """Add the messages that were open before the window to a tracker."""
    for message in state.messages.values():
        if message.state in _OPEN or (message.state is State.DELIVERED and message.ack_required):
            tracker.carry(message.seq, _history_of(message))


def _history_of(message: Message) -> MessageHistory:
    return MessageHistory(
        signal_id(message),
        message.sender,
        message.recipient,
        message.type,
        message.requested,
        message.priority,
        message.created_at,
        message.state.value,
        "",
        message.offered_at,
        message.delivered_at,
        message.acked_at,
        message.processed_at,
        0,
        message.offers,
        0,
        message.attempts,
    )

"""Recognition of commands on agents, sessions and the policy."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.lab.traces.recognition.base import FOLLOWS, TICKS, EventReader, Opener, Opening, always
from tocsin.lab.traces.trace import Step

__all__ = ["AGENTS", "closing", "drain", "drain_under_way", "retiring"]

#: A level above all priorities, for a drain that took nothing although messages were waiting.
_NO_LEVEL = 9


def _policy(reader: EventReader, event: ev.PolicyAdopted, index: int) -> Opening:
    return reader.by(event.at, event.by, "AdoptPolicy", policy=msgspec.json.decode(event.policy), reason=event.reason)


def _registered(reader: EventReader, event: ev.AgentRegistered, index: int) -> Opening:
    body = {"type": event.agent_type, "versions": event.supported, "capabilities": event.capabilities}
    return Step(event.at, event.agent, event.role, "RegisterAgent", body=body)


def retiring(reader: EventReader, index: int) -> Opening:
    """Return the step of the retirement that an event belongs to; its own event comes last."""
    for later in (reader.events[index], *reader.ahead(index)):
        if isinstance(later, ev.AgentRetired):
            step = reader.under_way("RetireAgent", later.at)
            if step is not None and step.body["agent"] == later.agent:
                return FOLLOWS
            return reader.by(later.at, later.by, "RetireAgent", agent=later.agent, reason=later.reason)
    return FOLLOWS


def _retired(reader: EventReader, event: ev.AgentRetired, index: int) -> Opening:
    return retiring(reader, index)


def _opened(reader: EventReader, event: ev.SessionOpened, index: int) -> Opening:
    return reader.by(event.at, event.agent, "OpenSession", kind=event.session_kind, window=event.window)


def _heartbeat(reader: EventReader, event: ev.SessionHeartbeat, index: int) -> Opening:
    state = reader.state
    session = state.session(event.session)
    rest = reader.ahead(index)
    if rest:
        first = rest[0]
        if isinstance(first, ev.SessionWindowChanged) and first.session == event.session:
            reader.taken = index + 1
            return reader.by(event.at, session.agent, "GrantCredit", session=event.session, window=first.window)
        if not session.pushes and _drains(reader, session.session, session.agent, rest):
            return drain(reader, event.at, session.session)
    step = reader.by(event.at, session.agent, "Heartbeat", session=event.session)
    step.polls = not session.pushes and not state.agents[session.agent].mailbox.depth
    return step


def _drains(reader: EventReader, session: str, agent: str, rest: Sequence[Event]) -> bool:
    """Return whether the events right after a session's heartbeat show that the call was a drain."""
    swept = False
    for event in rest:
        if isinstance(event, ev.MessageOffered):
            return event.session == session and not event.pushed
        if not isinstance(event, ev.MessageExpired) or reader.message(event.message).recipient != agent:
            break
        swept = True
    return swept and not reader.tick_is_due(rest[0].at)


def drain(reader: EventReader, at: int, session: str) -> Step:
    """Open a drain of a session; its limit is raised with each offer."""
    holder = reader.state.session(session)
    waiting = reader.state.agents[holder.agent].mailbox.depth
    body: dict[str, Any] = {"session": session, "limit": 1}
    if waiting:
        body["at_least"] = _NO_LEVEL
    step = reader.by(at, holder.agent, "Drain", **body)
    step.polls = True
    return step


def drain_under_way(reader: EventReader, at: int, session: str) -> bool:
    """Return whether the current step drains a session."""
    step = reader.under_way("Drain", at)
    return step is not None and step.body["session"] == session


def _window(reader: EventReader, event: ev.SessionWindowChanged, index: int) -> Opening:
    agent = reader.state.session(event.session).agent
    return reader.by(event.at, agent, "GrantCredit", session=event.session, window=event.window)


def closing(reader: EventReader, event: ev.SessionClosed, index: int) -> Opening:
    """Return the cause of a session's end: its agent, a new session, missing heartbeats, or its agent's retirement."""
    if event.reason == "lapsed":
        return TICKS
    if event.reason == "replaced":
        opening = reader.under_way("OpenSession", event.at)
        if opening is not None and event.session not in (replaced := opening.body.setdefault("replaces", [])):
            replaced.append(event.session)
        return FOLLOWS
    if event.reason == "retired":
        return retiring(reader, index)
    step = reader.under_way("CloseSession", event.at)
    if step is not None and step.body["session"] == event.session:
        return FOLLOWS
    return reader.by(event.at, event.agent, "CloseSession", session=event.session)


AGENTS: dict[type, Opener] = {
    ev.PolicyAdopted: _policy,
    ev.AgentRegistered: _registered,
    ev.AgentRetired: _retired,
    ev.SessionOpened: _opened,
    ev.SessionHeartbeat: _heartbeat,
    ev.SessionWentStale: always(TICKS),
    ev.SessionClosed: closing,
    ev.SessionWindowChanged: _window,
}

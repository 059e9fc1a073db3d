"""Summary of the state for the dashboard: counts of agents, sessions and waiting messages.

It runs on the event loop, some agents at a time. Its cost is linear in the number of agents, not of messages: mailboxes
count their messages.
"""

from collections.abc import Generator

import msgspec

from tocsin.core.agents.presence import is_fresh
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Agent, ProjectState

__all__ = ["Daemons", "Summary", "summary"]


class Daemons(msgspec.Struct):
    """The always-on listeners (SPEC-071 §11)."""

    #: Fresh, and accepting messages.
    live: int = 0
    #: Fresh, and accepting no more messages: its window is closed.
    shutting_down: int = 0
    #: Without a heartbeat for too long.
    orphaned: int = 0
    #: Agents with sessions: with a fresh daemon among them, and without.
    attached: int = 0
    daemonless: int = 0


class Summary(msgspec.Struct):
    """Counts of the state."""

    #: Waiting messages by priority.
    depths: list[int]
    #: Waiting messages whose recipient is absent now; the tables' `pending_pickup` is about the time of sending.
    recipient_away: int = 0
    #: Offered messages without a receipt.
    in_flight: int = 0
    #: Agents by presence.
    available: int = 0
    stale: int = 0
    offline: int = 0
    #: Open sessions by kind.
    push: int = 0
    piggyback: int = 0
    daemon: int = 0
    #: Agents marked as inflating their priorities.
    gaming: int = 0
    #: Agents that are busy.
    busy: int = 0
    daemons: Daemons = msgspec.field(default_factory=Daemons)


def summary(state: ProjectState, now: int, agents_per_turn: int) -> Generator[None, None, Summary]:
    """Count the state; it yields after each turn's number of agents, and others may change the state meanwhile."""
    seen = Summary([0] * len(Priority))
    for number, agent in enumerate(list(state.agents.values()), 1):
        _presence(seen, agent, state, now)
        seen.gaming += agent.gaming
        if not number % agents_per_turn:
            yield
    seen.depths = list(state.depths)
    seen.busy = sum(attention.work is not None for attention in state.attention.values())
    return seen


def _presence(seen: Summary, agent: Agent, state: ProjectState, now: int) -> None:
    there = daemon = False
    for session in agent.sessions.values():
        fresh = is_fresh(session, state.policy, now)
        there = there or fresh
        seen.in_flight += len(session.in_flight)
        if session.kind == "push":
            seen.push += 1
        elif session.kind == "piggyback":
            seen.piggyback += 1
        else:
            seen.daemon += 1
            daemon = daemon or fresh
            _daemon(seen.daemons, fresh=fresh, open_window=session.window > 0)
    if not agent.sessions:
        seen.offline += 1
    else:
        seen.available += there
        seen.stale += not there
        seen.daemons.attached += daemon
        seen.daemons.daemonless += not daemon
    if not there:
        seen.recipient_away += agent.mailbox.depth


def _daemon(daemons: Daemons, *, fresh: bool, open_window: bool) -> None:
    if not fresh:
        daemons.orphaned += 1
    elif open_window:
        daemons.live += 1
    else:
        daemons.shutting_down += 1

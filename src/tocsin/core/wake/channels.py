"""Decisions on channel sessions: when one no longer counts as a way to its agent, and when it counts again.

Theory of operation. A channel session is only told of messages that wait; its program notifies the agent, and cannot
know whether the agent's client passes notifications on. If the client ignores them, its session would hold back the
waker for ever. So an agent that is notified is checked (`scheduling`): when a message at or above `wake.level` has
waited for as long as its notifications take, and the agent has made no call in that time, the channel is ignored. The
agent's next call over another session shows that somebody is there: the channel counts again.
"""

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import NEVER
from tocsin.core.scheduling import schedule_wake
from tocsin.core.state import Agent

__all__ = ["check", "first_waiting", "heard"]


def check(decision: Decision, agent: Agent) -> None:
    """Ignore the channels of an agent that have led to nothing; check the others again when they may have."""
    state, policy = decision.state, decision.policy.wake
    message = first_waiting(decision, agent)
    if message is None:
        return
    called_at = max((s.heartbeat_at for s in agent.sessions.values() if s.kind != "channel"), default=NEVER)
    for session in list(agent.sessions.values()):
        if session.kind != "channel" or session.stale or session.session in state.ignored:
            continue
        since = max(message.enqueued_at, session.opened_at, called_at)
        if decision.now < since + policy.notifications_us:
            schedule_wake(state, agent.agent, since + policy.notifications_us)
            continue
        ignored = ev.ChannelIgnored(
            at=decision.now,
            agent=agent.agent,
            session=session.session,
            message=message.seq,
            notifications=policy.notifications_max,
            waited_us=decision.now - since,
            threshold_s=policy.notifications_us / 1_000_000,
        )
        decision.emit(ignored)


def heard(decision: Decision, event: ev.SessionOpened | ev.SessionHeartbeat) -> None:
    """Count the ignored channels of an agent again once it makes a call over another session."""
    state = decision.state
    session = state.sessions.get(event.session) if state.ignored else None
    if session is not None and session.kind != "channel":
        for name in state.agents[session.agent].sessions:
            if name in state.ignored:
                decision.emit(ev.ChannelAnswered(decision.now, session.agent, name))


def first_waiting(decision: Decision, agent: Agent) -> Message | None:
    """Return the oldest of the messages that wake an agent and wait in its mailbox."""
    level, first = decision.policy.wake.level_number, None
    for message in agent.mailbox:
        if message.level < level:
            break
        if message.priority < level or decision.now > message.expires_at:
            continue
        if first is None or (message.enqueued_at, message.seq) < (first.enqueued_at, first.seq):
            first = message
    return first

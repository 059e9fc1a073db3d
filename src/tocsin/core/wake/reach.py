"""Ways in which a message reaches an agent, as its record and the receipt of a send name them."""

from tocsin.core.commands.messages import Reach
from tocsin.core.state import Agent, ProjectState

__all__ = ["reach_of"]


def reach_of(state: ProjectState, agent: Agent | None) -> Reach:
    """Return the fastest way to an agent: a push, a notification through its channel, its next check, or a waker."""
    if agent is None:
        return "none"
    live = [s for s in agent.sessions.values() if not s.stale and s.session not in state.ignored]
    if any(session.pushes for session in live):
        return "push"
    if any(session.kind == "channel" for session in live):
        return "channel"
    if live:
        return "hook"
    return "waker" if state.can_wake(agent) else "none"

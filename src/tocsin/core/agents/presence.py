"""Presence of an agent, derived from its sessions, and the session that a message is routed to.

Requirement: SPEC-071 §4.1.
"""

from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.policy import Policy
from tocsin.core.state import Agent, Session

__all__ = ["has_room", "is_fresh", "presence", "push_session", "resolve"]


def is_fresh(session: Session, policy: Policy, now: int) -> bool:
    """Return whether a session's last heartbeat is recent enough."""
    return now - session.heartbeat_at <= policy.sessions.stale_after_us


def has_room(session: Session) -> bool:
    """Return whether a session can take another offer before a receipt."""
    return len(session.in_flight) < session.window


def presence(agent: Agent, policy: Policy, now: int) -> RecipientState:
    """Return the availability of an agent as a sender sees it."""
    if not agent.sessions:
        return RecipientState.OFFLINE
    if any(is_fresh(session, policy, now) for session in agent.sessions.values()):
        return RecipientState.AVAILABLE
    return RecipientState.STALE


def push_session(agent: Agent, policy: Policy, now: int) -> Session | None:
    """Return the session to push to: fresh, with room, the fewest offers in flight, then the oldest."""
    best: Session | None = None
    for session in agent.sessions.values():
        usable = session.pushes and has_room(session) and is_fresh(session, policy, now)
        if usable and (best is None or len(session.in_flight) < len(best.in_flight)):
            best = session
    return best


def resolve(agent: Agent, policy: Policy, now: int) -> tuple[RecipientState, PublishPath, str | None]:
    """Return an agent's presence, the path of a message to it, and the session at the end of that path.

    A message is pushed only to a session with room. The session of a socket that has dropped has none.
    """
    if not agent.sessions:
        return RecipientState.OFFLINE, PublishPath.QUEUED, None
    best = push_session(agent, policy, now)
    if best is not None:
        return RecipientState.AVAILABLE, PublishPath.PUSHED, best.session
    fresh = [session for session in agent.sessions.values() if is_fresh(session, policy, now)]
    if not fresh:
        return RecipientState.STALE, PublishPath.QUEUED, None
    asking = next((session.session for session in fresh if not session.pushes), None)
    return RecipientState.AVAILABLE, PublishPath.QUEUED if asking is None else PublishPath.PIGGYBACK, asking

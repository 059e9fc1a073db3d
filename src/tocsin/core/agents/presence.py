"""Who is there, as the sessions tell: the three states that a sender is told (SPEC-071 §4.1), and the way to them."""

from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.policy import Policy
from tocsin.core.state import Agent, Session

__all__ = ["has_room", "is_fresh", "presence", "push_session", "resolve"]


def is_fresh(session: Session, policy: Policy, now: int) -> bool:
    """Tell whether a session has shown itself recently enough."""
    return now - session.heartbeat_at <= policy.sessions.stale_after_us


def has_room(session: Session) -> bool:
    """Tell whether a session takes another offer before a receipt."""
    return len(session.in_flight) < session.window


def presence(agent: Agent, policy: Policy, now: int) -> RecipientState:
    """Return what a sender is told of an agent."""
    if not agent.sessions:
        return RecipientState.OFFLINE
    if any(is_fresh(session, policy, now) for session in agent.sessions.values()):
        return RecipientState.AVAILABLE
    return RecipientState.STALE


def push_session(agent: Agent, policy: Policy, now: int) -> Session | None:
    """Choose the session to push to: fresh, with room, the emptiest, the oldest of those."""
    best: Session | None = None
    for session in agent.sessions.values():
        usable = session.pushes and has_room(session) and is_fresh(session, policy, now)
        if usable and (best is None or len(session.in_flight) < len(best.in_flight)):
            best = session
    return best


def resolve(agent: Agent, policy: Policy, now: int) -> tuple[RecipientState, PublishPath, str | None]:
    """Return an agent's presence, the path that a message to it takes, and the session at its end."""
    if not agent.sessions:
        return RecipientState.OFFLINE, PublishPath.QUEUED, None
    best: Session | None = None
    for session in agent.sessions.values():
        if is_fresh(session, policy, now) and (best is None or _nearer(session, best)):
            best = session
    if best is None:
        return RecipientState.STALE, PublishPath.QUEUED, None
    path = PublishPath.PUSHED if best.pushes else PublishPath.PIGGYBACK
    return RecipientState.AVAILABLE, path, best.session


def _nearer(session: Session, best: Session) -> bool:
    """Tell whether a session is the better way: pushed before piggyback, and the emptier of two pushed ones."""
    if session.pushes != best.pushes:
        return session.pushes
    return session.pushes and len(session.in_flight) < len(best.in_flight)

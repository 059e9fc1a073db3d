"""What happens to agents and their sessions."""

from tocsin.core.events.base import EventBase

__all__ = [
    "AgentRegistered",
    "AgentRetired",
    "GamingCleared",
    "GamingDetected",
    "SessionClosed",
    "SessionHeartbeat",
    "SessionOpened",
    "SessionWentStale",
    "SessionWindowChanged",
]


class AgentRegistered(EventBase, frozen=True):
    """An agent joined the project, or came back with other abilities."""

    #: The agent.
    agent: str
    #: What it is for routing.
    agent_type: str
    #: What it may do, as its token says.
    role: str
    #: Negotiated protocol version: the highest in common.
    version: str
    #: Versions that it offered.
    supported: tuple[str, ...]
    #: Message types that it takes; empty is any.
    capabilities: tuple[str, ...]


class AgentRetired(EventBase, frozen=True):
    """An agent left the project for good."""

    #: The agent.
    agent: str
    #: Who did it.
    by: str
    #: Why.
    reason: str


class SessionOpened(EventBase, frozen=True):
    """An agent attached."""

    #: The session.
    session: str
    #: The agent.
    agent: str
    #: `push`, `piggyback` or `daemon`.
    session_kind: str
    #: Offers without receipt that it takes at a time.
    window: int


class SessionHeartbeat(EventBase, frozen=True):
    """A session showed that it lives; beats closer together than the policy's interval are one."""

    #: The session.
    session: str


class SessionWentStale(EventBase, frozen=True):
    """A session has not shown itself for too long."""

    #: The session.
    session: str
    #: The agent.
    agent: str
    #: Its last heartbeat.
    heartbeat_at: int
    #: The threshold that it crossed, seconds.
    threshold_s: float


class SessionWindowChanged(EventBase, frozen=True):
    """A session takes more offers at a time from now on, or fewer, or none."""

    #: The session.
    session: str
    #: Offers without receipt that it takes at a time; 0 where it is paused.
    window: int


class SessionClosed(EventBase, frozen=True):
    """A session ended; offers that it did not confirm have been requeued before."""

    #: The session.
    session: str
    #: The agent.
    agent: str
    #: `closed` by the agent, `lapsed` without heartbeat, or `retired` with its agent.
    reason: str


class GamingDetected(EventBase, frozen=True):
    """An agent was found to inflate its priorities; its messages count as Info from now on."""

    #: The agent.
    agent: str
    #: Messages in the window.
    messages: int
    #: Of those, at Blocking or above.
    high: int
    #: The share allowed.
    threshold: float
    #: How far back was looked, seconds.
    window_s: float


class GamingCleared(EventBase, frozen=True):
    """An agent no longer inflates its priorities."""

    #: The agent.
    agent: str
    #: Messages in the window.
    messages: int
    #: Of those, at Blocking or above.
    high: int
    #: The share allowed.
    threshold: float
    #: How far back was looked, seconds.
    window_s: float

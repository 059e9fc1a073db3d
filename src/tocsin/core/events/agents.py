"""Events of agents and their sessions."""

from tocsin.core.events.base import EventBase

__all__ = [
    "AgentCharged",
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
    """An agent was registered, or registered again with other properties."""

    #: The agent.
    agent: str
    #: Its type, used for routing.
    agent_type: str
    #: Its role, from its token.
    role: str
    #: Negotiated protocol version: the highest in common.
    version: str
    #: Protocol versions that it supports.
    supported: tuple[str, ...]
    #: Message types that it takes; empty is any.
    capabilities: tuple[str, ...]
    #: Role that it had before; empty for a new agent.
    former_role: str = ""


class AgentRetired(EventBase, frozen=True):
    """An agent was removed from the project."""

    #: The agent.
    agent: str
    #: Agent that retired it.
    by: str
    #: Reason given.
    reason: str


class SessionOpened(EventBase, frozen=True):
    """A session was opened."""

    #: The session.
    session: str
    #: The agent.
    agent: str
    #: `push`, `piggyback` or `daemon`.
    session_kind: str
    #: Offers without receipt that it takes at a time.
    window: int


class SessionHeartbeat(EventBase, frozen=True):
    """A session sent a heartbeat; heartbeats closer together than the policy's interval are recorded as one."""

    #: The session.
    session: str


class SessionWentStale(EventBase, frozen=True):
    """A session became stale: it sent no heartbeat for too long."""

    #: The session.
    session: str
    #: The agent.
    agent: str
    #: Time of its last heartbeat.
    heartbeat_at: int
    #: Threshold that was crossed, seconds.
    threshold_s: float


class SessionWindowChanged(EventBase, frozen=True):
    """The window of a session was changed."""

    #: The session.
    session: str
    #: Offers without receipt that it takes at a time; 0 while it is paused.
    window: int


class SessionClosed(EventBase, frozen=True):
    """A session ended; its unconfirmed offers were requeued before."""

    #: The session.
    session: str
    #: The agent.
    agent: str
    #: `closed` by the agent, `lapsed` without heartbeat, `replaced` by a new session after its connection was lost, or
    #: `retired` with its agent.
    reason: str


class GamingDetected(EventBase, frozen=True):
    """An agent was found to inflate its priorities; its messages are sent as Info from then on."""

    #: The agent.
    agent: str
    #: Messages in the window.
    messages: int
    #: Messages at Blocking or above among them.
    high: int
    #: Share that is allowed.
    threshold: float
    #: Length of the window, seconds.
    window_s: float


class GamingCleared(EventBase, frozen=True):
    """An agent was found to no longer inflate its priorities."""

    #: The agent.
    agent: str
    #: Messages in the window.
    messages: int
    #: Messages at Blocking or above among them.
    high: int
    #: Share that is allowed.
    threshold: float
    #: Length of the window, seconds.
    window_s: float


class AgentCharged(EventBase, frozen=True):
    """An agent was charged for copies that it caused the bus to put into mailboxes."""

    #: The agent.
    agent: str
    #: What it was charged for: `discussion`, `contribution`, `approval` or `notices`.
    cause: str
    #: Number of copies.
    copies: int
    #: Tokens that they cost.
    cost: float
    #: Tokens that it has left.
    tokens: float
    #: Critical quota that it has left.
    critical_quota: float
    #: Blocking quota that it has left.
    blocking_quota: float

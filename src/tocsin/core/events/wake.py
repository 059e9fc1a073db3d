"""Events of wakes: starting an agent that nothing reaches because a message waits for it."""

from tocsin.core.events.base import EventBase

__all__ = [
    "AgentWakeFailed",
    "AgentWakeRequested",
    "AgentWoken",
    "ChannelAnswered",
    "ChannelIgnored",
    "WakerExited",
    "WakersDeclared",
]


class WakersDeclared(EventBase, frozen=True):
    """The hub declared which agents it can wake; this replaces what was declared before."""

    #: Agents that have a waker.
    agents: tuple[str, ...]
    #: Roles whose agents all have a waker.
    roles: tuple[str, ...]


class AgentWakeRequested(EventBase, frozen=True):
    """A wake of an agent was requested: its waker is to be started."""

    #: The agent.
    agent: str
    #: The wake.
    wake: str
    #: Message that waits for the agent.
    message: int
    #: Number of this attempt; 1 is the first.
    attempt: int
    #: Priority of the message at admission.
    level: int
    #: Time that the message has waited, microseconds.
    waited_us: int
    #: Time that it had to wait for an agent without a session, seconds.
    threshold_s: float
    #: Time by which the agent must have taken the message.
    due_at: int


class AgentWoken(EventBase, frozen=True):
    """A wake worked: the agent attached and took the message."""

    #: The agent.
    agent: str
    #: The wake.
    wake: str
    #: Message that it took.
    message: int
    #: Session that took it; empty if the agent settled it without fetching it.
    session: str
    #: Number of the attempt that worked.
    attempt: int
    #: Time from the request of the wake, microseconds.
    took_us: int


class AgentWakeFailed(EventBase, frozen=True):
    """A wake did not work, or became unnecessary."""

    #: The agent.
    agent: str
    #: The wake.
    wake: str
    #: Message that the wake was requested for.
    message: int
    #: Number of the attempt.
    attempt: int
    #: Attempts that the policy allows.
    attempts_max: int
    #: `waker_failed`, `not_attached`, `not_taken`, `moot` (the message no longer waits) or `retired`.
    reason: str
    #: Details, such as the exit code of the waker.
    detail: str
    #: Time that was exceeded, seconds; 0 for another reason.
    threshold_s: float
    #: Earliest time of the next attempt; 0 if there is none.
    retry_at: int
    #: Whether the attempts are used up, which is escalated.
    final: bool


class WakerExited(EventBase, frozen=True):
    """The waker of a wake is over: its process has ended, or its webhook has answered."""

    #: The agent.
    agent: str
    #: The wake.
    wake: str
    #: `exited`, `not_started`, `lost` (with an earlier hub), `timeout` (it ran too long) or `retired`.
    outcome: str
    #: Exit code or HTTP status; null if there is none.
    exit_code: int | None
    #: Details.
    detail: str


class ChannelIgnored(EventBase, frozen=True):
    """A channel session led to nothing: it no longer counts as a way to its agent."""

    #: The agent.
    agent: str
    #: The channel session.
    session: str
    #: Message that was announced and still waits.
    message: int
    #: Notifications of it that the policy provides for.
    notifications: int
    #: Time that it waited without any call of the agent, microseconds.
    waited_us: int
    #: Time that the notifications take, seconds.
    threshold_s: float


class ChannelAnswered(EventBase, frozen=True):
    """An agent whose channel was ignored has made a call: the channel counts as a way to it again."""

    #: The agent.
    agent: str
    #: The channel session.
    session: str

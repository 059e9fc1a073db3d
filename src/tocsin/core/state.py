"""State of one project: agents, messages, sessions, leases, waits and coordination, with their lookups.

The state is the sum of the project's events. Only the appliers in the other modules of the core change it; each owns
the events that it applies. Effects that follow from an event alone (such as how long an ended message is kept) are
computed here.

Agents, sessions and the state itself are plain classes: the compiled form reads their fields directly, and the pure
form reads them faster than those of a msgspec struct. They are few and are never encoded; `snapshot` has their rows.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from tocsin.core.errors import InvariantViolation
from tocsin.core.leases.book import LeaseBook
from tocsin.core.messages.message import Message, drop_content, queue_cause
from tocsin.core.messages.model import Failure, State
from tocsin.core.messages.volume import Volume
from tocsin.core.policy import Policy
from tocsin.core.protocol.contracts import Contract
from tocsin.core.protocol.priority import Priority
from tocsin.core.queueing.mailbox import Mailbox
from tocsin.core.teamwork.model import (
    Alert,
    Approval,
    Attention,
    Deferred,
    Discussion,
    Escalation,
    FoldedNotices,
    Request,
    TimedRecord,
    Topic,
)
from tocsin.core.timers import Timers
from tocsin.core.waiting.graph import WaitGraph
from tocsin.core.wake.model import IgnoredChannel, Wakers, Waking

__all__ = ["Agent", "Broadcast", "IdSource", "LatencyWindow", "ProjectState", "Session", "Thread"]


#: More latencies than there ever are.
_NEVER_ENOUGH = 1 << 60
#: Kinds of sessions that messages are pushed to.
_PUSHED_TO: Final = frozenset({"push", "daemon"})
_DELIVERED: Final = State.DELIVERED
_ACKNOWLEDGED: Final = State.ACKNOWLEDGED


class IdSource(Protocol):
    """Source of new ids: random in a hub, seeded in a simulation. Ids are recorded in events."""

    def fresh(self, prefix: str, now: int) -> str:
        """Return an unused id, `{prefix}_{timestamp}_{random}`."""


class Agent:
    """An agent of the project, with its mailbox, sessions, tokens and quotas."""

    __slots__ = (
        "agent",
        "agent_type",
        "blocking_quota",
        "capabilities",
        "critical_quota",
        "gaming",
        "mailbox",
        "quotas_at",
        "registered_at",
        "role",
        "sessions",
        "supported",
        "tokens",
        "tokens_at",
        "usage",
        "usage_high",
        "version",
    )

    def __init__(
        self,
        agent: str,
        agent_type: str,
        role: str,
        version: str,
        supported: tuple[str, ...],
        capabilities: tuple[str, ...],
        registered_at: int,
        mailbox: Mailbox,
        tokens: float,
        tokens_at: int,
        critical_quota: float,
        blocking_quota: float,
        quotas_at: int,
    ) -> None:
        self.agent = agent
        self.agent_type = agent_type
        self.role = role
        self.version = version
        self.supported = supported
        self.capabilities = capabilities
        self.registered_at = registered_at
        self.mailbox = mailbox
        #: Open sessions, oldest first.
        self.sessions: dict[str, Session] = {}
        #: Tokens in the bucket at `tokens_at`.
        self.tokens = tokens
        self.tokens_at = tokens_at
        self.critical_quota = critical_quota
        self.blocking_quota = blocking_quota
        self.quotas_at = quotas_at
        #: Recent sends as `at * 2 + high`, oldest first.
        self.usage: deque[int] = deque()
        #: Number of those sends that asked for a high priority: the sum of their lowest bits.
        self.usage_high = 0
        #: Whether gaming detection has found that it inflates its priorities.
        self.gaming = False


class Session:
    """A live attachment of an agent."""

    __slots__ = ("agent", "heartbeat_at", "in_flight", "kind", "opened_at", "session", "stale", "window")

    def __init__(self, session: str, agent: str, kind: str, opened_at: int, heartbeat_at: int, window: int) -> None:
        self.session = session
        self.agent = agent
        self.kind = kind
        self.opened_at = opened_at
        self.heartbeat_at = heartbeat_at
        self.window = window
        #: Sequence numbers of offers without receipt, oldest first.
        self.in_flight: dict[int, None] = {}
        #: Whether a `SessionWentStale` event has been recorded.
        self.stale = False

    @property
    def pushes(self) -> bool:
        """Return whether messages are pushed to this session."""
        return self.kind in _PUSHED_TO


class Broadcast(msgspec.Struct):
    """One message to several recipients."""

    broadcast: str
    sender: str
    message_type: str
    receiver_type: str
    #: Sequence number of each copy, by recipient.
    copies: dict[str, int]
    failed: tuple[str, ...]
    #: Content, until each copy has it.
    payload: bytes
    metadata: bytes
    #: Number of copies that were accepted.
    accepted: int


class Thread(msgspec.Struct, gc=False):
    """The messages of one correlationId, with the message that opened it."""

    correlation_id: str
    #: The opening message.
    message_id: str
    message_type: str
    sender: str
    opened_at: int
    last_at: int


class LatencyWindow:
    """Recent processing latencies, and the decay rate derived from them."""

    __slots__ = ("changed_at", "rate", "samples", "total_us")

    def __init__(self, rate: float, changed_at: int, samples: deque[tuple[int, int]], total_us: int = 0) -> None:
        self.rate = rate
        self.changed_at = changed_at
        #: `(at, latency_us)`, oldest first.
        self.samples = samples
        self.total_us = total_us


class ProjectState:
    """All state of one project."""

    def __init__(self) -> None:
        #: Whether a policy is in force; before that, `policy` and `timers` do not exist.
        self.has_policy = False
        self.policy: Policy
        self.timers: Timers
        self.policy_version = 0
        #: Sequence number of the last event applied.
        self.seq = 0
        self.agents: dict[str, Agent] = {}
        self.sessions: dict[str, Session] = {}
        self.messages: dict[int, Message] = {}
        #: Sequence number by messageId, for messages to one recipient.
        self.ids: dict[str, int] = {}
        self.broadcasts: dict[str, Broadcast] = {}
        #: Bytes of the contents of messages.
        self.volume = Volume()
        #: By correlationId, least recently used first.
        self.threads: dict[str, Thread] = {}
        #: Failures so far of messages that have not ended, by sequence number.
        self.failures: dict[int, Failure] = {}
        #: Dead letters, oldest first.
        self.dead: dict[int, None] = {}
        #: `(at, seq)` of ended messages, oldest first.
        self.settled: deque[tuple[int, int]] = deque()
        #: `(at, seq)` of acknowledged messages, oldest first.
        self.acknowledged: deque[tuple[int, int]] = deque()
        self.latency = LatencyWindow(0.0, 0, deque())
        #: By agent, for agents that are busy or have put work aside.
        self.attention: dict[str, Attention] = {}
        #: Open requests by messageId; `asked` finds them by thread, responder and requester.
        self.requests: dict[str, Request] = {}
        self.asked: dict[tuple[str, str, str], str] = {}
        #: Number of open requests by requester.
        self.asking: dict[str, int] = {}
        #: Open approvals and discussions.
        self.approvals: dict[str, Approval] = {}
        self.discussions: dict[str, Discussion] = {}
        #: Topics that have a subscriber.
        self.topics: dict[str, Topic] = {}
        #: Metrics that exceed their limit, by name.
        self.alerts: dict[str, Alert] = {}
        #: Open escalations, and closed ones that are kept for a while.
        self.escalations: dict[str, Escalation] = {}
        #: Names of escalations that are not closed.
        self.open_escalations: dict[str, None] = {}
        #: Names of closed escalations, in the order of closing.
        self.closed_escalations: dict[str, None] = {}
        #: Escalation by cause; `escalated` finds those about a message.
        self.causes: dict[str, str] = {}
        self.escalated: dict[int, dict[str, None]] = {}
        #: Escalations to open once there is room, by cause, oldest first.
        self.deferred: dict[str, Deferred] = {}
        #: The graph of agents that wait for agents.
        self.waits = WaitGraph()
        #: Priority level that each agent inherits from those that wait for it.
        self.inherited: dict[str, int] = {}
        #: Held leases and queued lease requests.
        self.leases = LeaseBook(self.waits, self.inherited)
        #: Messages that an agent's inherited priority raises, by agent.
        self.lent: dict[str, dict[int, None]] = {}
        #: Plans of ordinary sends by sender and type, null where there is none, and the number of recipients in all of
        #: them. They follow from the policy and the agents and are not part of a snapshot: whoever changes those
        #: calls `drop_plans`.
        self.plans: dict[tuple[str, str], Any] = {}
        self.planned_recipients = 0
        #: Directors and humans in the order of `agents`, once someone has asked for them; dropped with the plans.
        self.directors: list[Agent] | None = None
        self.humans: list[Agent] | None = None
        self.receipt_timeouts: dict[tuple[str, str, bool], int] = {}
        #: What the journal that the events go to promises: receipts by plan name it. It is not part of a snapshot.
        self.durability = "none"
        self.copies = 0
        #: Notices that were not sent, by recipient and subject.
        self.folded: dict[str, FoldedNotices] = {}
        #: Queued notices of the bus that have a subject, by recipient and subject.
        self.noticed: dict[tuple[str, str], dict[int, None]] = {}
        #: Number of messages in all mailboxes by level.
        self.depths = [0] * len(Priority)
        #: Queued messages by sender.
        self.outgoing: dict[str, dict[int, None]] = {}
        #: Agents that the hub can wake.
        self.wakers = Wakers()
        #: Wakes, by agent.
        self.wakes: dict[str, Waking] = {}
        #: Agent by message, for wakes that have neither worked nor failed yet.
        self.wake_targets: dict[int, str] = {}
        #: Lowest priority of messages that may wake an agent.
        self.wake_from = 0
        #: Channel sessions that led to nothing, by session.
        self.ignored: dict[str, IgnoredChannel] = {}

    def adopt(self, policy: Policy) -> None:
        """Put a policy in force with empty timers; the caller schedules what is open."""
        self.drop_plans()
        self.policy = policy
        #: For each priority, the time that a message waits before it is escalated, and before it first rises;
        #: kept here because every message reads them.
        self.queue_after_us = policy.escalation.queue_after_us
        self.boost_after_us = policy.aging.boost_after_us
        retention, manager = policy.retention, policy.queue_manager
        #: Entries from which on the oldest are forgotten.
        self.settled_full = retention.settled_max + retention.batch
        self.acknowledged_full = retention.acknowledged_max + retention.batch
        self.threads_full = policy.limits.threads_max + retention.batch
        #: Bytes of content over which the oldest is dropped.
        self.kept_full = retention.settled_bytes_max + retention.batch_bytes
        self.latencies_max = manager.samples_max
        self.latency_window_us = manager.window_us
        #: Latencies from which on the decay rate may change, and the least time between two changes.
        self.latencies_min = manager.samples_min if manager.enabled else _NEVER_ENOUGH
        self.rate_cooldown_us = manager.cooldown_us
        #: Time and number of the sends that are looked at for inflated priorities, and the roles that are.
        self.usage_window_us = policy.gaming.window_us
        self.usage_max = policy.gaming.samples_max
        self.watched_roles = frozenset(name for name, role in policy.roles.items() if role.watched)
        #: Time for a receipt by kind of session, message type and whether an ACK is required, as they come up.
        self.receipt_timeouts.clear()
        self.timers = Timers(policy)
        self.wake_from = policy.wake.level_number
        self.has_policy = True

    def can_wake(self, agent: Agent) -> bool:
        """Return whether an agent has a waker."""
        return agent.agent in self.wakers.agents or agent.role in self.wakers.roles

    def drop_plans(self) -> None:
        """Drop what follows from the policy and the agents: one of them has changed, or there are too many plans."""
        self.plans.clear()
        self.planned_recipients = 0
        self.directors = self.humans = None

    def contract(self, message: Message) -> Contract:
        """Return the contract of a message's type; a type that the policy no longer has is treated as a custom one."""
        return self.policy.contract_of(message.type) or self.policy.custom_contract

    def message(self, seq: int) -> Message:
        """Return a message that must exist."""
        message = self.messages.get(seq)
        if message is None:
            raise InvariantViolation(f"an event names message {seq}, which does not exist")
        return message

    def session(self, session: str) -> Session:
        """Return a session that must exist."""
        found = self.sessions.get(session)
        if found is None:
            raise InvariantViolation(f"an event names session {session}, which does not exist")
        return found

    def copy_for(self, recipient: str, message_id: str) -> Message | None:
        """Return a recipient's copy of a message, by messageId or signal id."""
        message_id, _, named = message_id.partition(":")
        if named not in ("", recipient):
            return None
        seq = self.ids.get(message_id)
        if seq is None:
            broadcast = self.broadcasts.get(message_id)
            seq = broadcast.copies.get(recipient) if broadcast is not None else None
        message = self.messages.get(seq) if seq is not None else None
        return message if message is not None and message.recipient == recipient else None

    def copies_of(self, message_id: str) -> list[Message]:
        """Return all copies of a message by messageId, or one by signal id."""
        message_id, _, recipient = message_id.partition(":")
        broadcast = self.broadcasts.get(message_id)
        if broadcast is not None:
            seqs = [seq for name, seq in broadcast.copies.items() if recipient in ("", name)]
        else:
            seqs = [self.ids[message_id]] if message_id in self.ids else []
        copies = [self.messages[seq] for seq in seqs]
        return [copy for copy in copies if recipient in ("", copy.recipient)]

    def with_deadlines(self) -> dict[str, Mapping[str, TimedRecord]]:
        """Return the coordination objects that have a deadline, by kind and name."""
        return {
            "attention": self.attention,
            "request": self.requests,
            "approval": self.approvals,
            "discussion": self.discussions,
            "escalation": self.escalations,
        }

    def remember_request(self, request: Request) -> None:
        """Add a request to the state and its lookups."""
        self.requests[request.request] = request
        self.asked[request.correlation_id, request.responder, request.requester] = request.request
        self.asking[request.requester] = self.asking.get(request.requester, 0) + 1

    def forget_request(self, name: str) -> Request:
        """Remove a request from the state and its lookups, and return it."""
        request = self.requests.pop(name)
        self.asked.pop((request.correlation_id, request.responder, request.requester), None)
        self.asking[request.requester] -= 1
        if not self.asking[request.requester]:
            del self.asking[request.requester]
        return request

    def remember_escalation(self, escalation: Escalation) -> None:
        """Add an escalation to the state and its lookups."""
        name = escalation.escalation
        self.escalations[name] = escalation
        self.causes[escalation.cause] = name
        if escalation.about:
            self.escalated.setdefault(escalation.about, {})[name] = None
        (self.closed_escalations if escalation.closed_at else self.open_escalations)[name] = None

    def order_closed_escalations(self) -> None:
        """Sort the closed escalations by time of closing, after they were restored in another order."""
        known = self.escalations
        names = sorted(self.closed_escalations, key=lambda name: (known[name].closed_at, name))
        self.closed_escalations = dict.fromkeys(names)

    def close_escalation(self, name: str) -> None:
        """Record that an escalation is closed."""
        self.open_escalations.pop(name, None)
        self.closed_escalations[name] = None

    def forget_escalation(self, name: str) -> None:
        """Remove an escalation from the state."""
        escalation = self.escalations.pop(name)
        self.closed_escalations.pop(name, None)
        del self.causes[escalation.cause]
        if escalation.about:
            del self.escalated[escalation.about][name]
            if not self.escalated[escalation.about]:
                del self.escalated[escalation.about]

    def is_known(self, cause: str) -> bool:
        """Return whether a cause has opened an escalation or waits to open one."""
        return cause in self.causes or cause in self.deferred

    def was_escalated(self, message: Message) -> bool:
        """Return whether a message's present time in the queue has been escalated, or is deferred."""
        if self.deferred and queue_cause(message) in self.deferred:
            return True
        for name in self.escalated.get(message.seq, ()):
            known = self.escalations[name]
            if known.trigger == "time_in_queue" and known.waiting_since == message.enqueued_at:
                return True
        return False

    def note_latency(self, at: int, latency_us: int) -> None:
        """Record one processing latency, and drop those outside the window."""
        window, most, since = self.latency, self.latencies_max, at - self.latency_window_us
        samples = window.samples
        samples.append((at, latency_us))
        total_us = window.total_us + latency_us
        while len(samples) > most or samples[0][0] <= since:
            total_us -= samples.popleft()[1]
        window.total_us = total_us

    def settle(self, message: Message, at: int) -> None:
        """Keep an ended message for a while; one that cannot be queued again loses its content."""
        seq, status = message.seq, message.state
        if status is not _DELIVERED:
            drop_content(message)
        if self.failures:
            self.failures.pop(seq, None)
        kept = self.acknowledged if status is _ACKNOWLEDGED else self.settled
        kept.append((at, seq))

    def drop(self, message: Message) -> None:
        """Remove a message at once."""
        self.failures.pop(message.seq, None)
        self.volume.remove(message)
        del self.messages[message.seq]
        if message.broadcast_id is None:
            del self.ids[message.message_id]
            return
        broadcast = self.broadcasts[message.broadcast_id]
        del broadcast.copies[message.recipient]
        if not broadcast.copies:
            del self.broadcasts[message.broadcast_id]

"""What a project's events add up to.

`State` is the data and the ways to find things in it. It is changed by the appliers in the modules beside this one,
each of which owns the events it applies, and by nothing else. What follows from the events alone (how long an ended
message is remembered) is done here, in passing.
"""

from collections import deque
from collections.abc import Mapping
from typing import Protocol

import msgspec

from tocsin.core.errors import InvariantViolation
from tocsin.core.leases.book import LeaseBook
from tocsin.core.messages.model import Failure, Message, State, content_digest, queue_cause
from tocsin.core.policy import Policy
from tocsin.core.protocol.contracts import Contract
from tocsin.core.queueing.mailbox import Mailbox
from tocsin.core.teamwork.model import (
    Alert,
    Approval,
    Attention,
    Deferred,
    Discussion,
    Escalation,
    Request,
    TimedRecord,
    Topic,
)
from tocsin.core.timers import Timers
from tocsin.core.waiting.graph import WaitGraph

__all__ = ["Agent", "Broadcast", "IdSource", "LatencyWindow", "ProjectState", "Session", "Thread"]


class IdSource(Protocol):
    """Where new ids come from: random in a hub, seeded in a simulation. They are recorded in events."""

    def fresh(self, prefix: str, now: int) -> str:
        """Return an id that was never used, `{prefix}_{timestamp}_{random}`."""


class Agent(msgspec.Struct):
    """An identity in the project, with what waits for it and what it may still spend."""

    agent: str
    agent_type: str
    role: str
    version: str
    supported: tuple[str, ...]
    capabilities: tuple[str, ...]
    registered_at: int
    mailbox: Mailbox
    #: Open sessions, oldest first.
    sessions: dict[str, "Session"]
    #: Tokens, and as of when.
    tokens: float
    tokens_at: int
    critical_quota: float
    blocking_quota: float
    quotas_at: int
    #: Recent sends as `at * 2 + high`, oldest first.
    usage: deque[int]
    #: How many of them asked for a high priority: the sum of their lowest bits.
    usage_high: int = 0
    #: Whether it is taken to inflate its priorities.
    gaming: bool = False


class Session(msgspec.Struct):
    """A live attachment of an agent."""

    session: str
    agent: str
    kind: str
    opened_at: int
    heartbeat_at: int
    window: int
    #: Offers without receipt, oldest first.
    in_flight: dict[int, None]
    #: Whether its going stale has been recorded.
    stale: bool = False

    @property
    def pushes(self) -> bool:
        """Tell whether messages are pushed to it."""
        return self.kind != "piggyback"


class Broadcast(msgspec.Struct):
    """One message to several recipients."""

    broadcast: str
    sender: str
    message_type: str
    receiver_type: str
    #: Whom the copies went to, by recipient.
    copies: dict[str, int]
    failed: tuple[str, ...]
    payload: bytes
    metadata: bytes
    #: Copies accepted so far, of `accepted` in all.
    accepted: int


class Thread(msgspec.Struct, gc=False):
    """The messages of one correlationId: who opened it with what."""

    correlation_id: str
    #: The opening message.
    message_id: str
    message_type: str
    sender: str
    opened_at: int
    last_at: int


class LatencyWindow(msgspec.Struct):
    """The recent processing latencies, and the decay rate that they led to."""

    rate: float
    changed_at: int
    #: `(at, latency_us)`, oldest first.
    samples: deque[tuple[int, int]]
    total_us: int = 0


class ProjectState:
    """Everything that the exchange knows of one project."""

    def __init__(self) -> None:
        #: Whether a policy is in force; before that there is neither `policy` nor `timers`.
        self.has_policy = False
        self.policy: Policy
        self.timers: Timers
        self.policy_version = 0
        #: Sequence number of the last event applied.
        self.seq = 0
        self.agents: dict[str, Agent] = {}
        self.sessions: dict[str, Session] = {}
        self.messages: dict[int, Message] = {}
        #: messageId to sequence number, of messages to one recipient.
        self.ids: dict[str, int] = {}
        self.broadcasts: dict[str, Broadcast] = {}
        #: By correlationId, the one idle longest first.
        self.threads: dict[str, Thread] = {}
        #: What went wrong so far, of messages that are not settled.
        self.failures: dict[int, Failure] = {}
        #: Dead letters, oldest first.
        self.dead: dict[int, None] = {}
        #: `(at, seq)` of ended messages, oldest first.
        self.settled: deque[tuple[int, int]] = deque()
        #: `(at, seq)` of acknowledged messages, oldest first.
        self.acknowledged: deque[tuple[int, int]] = deque()
        self.latency = LatencyWindow(0.0, 0, deque())
        #: By agent, of those that are busy or have put work aside.
        self.attention: dict[str, Attention] = {}
        #: Open ones, by messageId, and by thread, responder and requester.
        self.requests: dict[str, Request] = {}
        self.asked: dict[tuple[str, str, str], str] = {}
        #: Open ones.
        self.approvals: dict[str, Approval] = {}
        self.discussions: dict[str, Discussion] = {}
        #: Those that somebody is subscribed to.
        self.topics: dict[str, Topic] = {}
        #: Metrics that are not well, by name.
        self.alerts: dict[str, Alert] = {}
        #: Open and remembered.
        self.escalations: dict[str, Escalation] = {}
        #: Those that have not returned to normal.
        self.open_escalations: dict[str, None] = {}
        #: Those that have, in the order in which they did.
        self.closed_escalations: dict[str, None] = {}
        #: Escalation by cause, and those about a message.
        self.causes: dict[str, str] = {}
        self.escalated: dict[int, dict[str, None]] = {}
        #: What is to be escalated once there is room, by cause, the oldest first.
        self.deferred: dict[str, Deferred] = {}
        #: Who waits for whom.
        self.waits = WaitGraph()
        #: What each agent is lent by those who wait for it.
        self.inherited: dict[str, int] = {}
        #: Who holds what, and who stands in line for it.
        self.leases = LeaseBook(self.waits, self.inherited)
        #: Messages that an agent's inheritance raises, by the agent.
        self.lent: dict[str, dict[int, None]] = {}
        #: Messages that wait, by their sender.
        self.outgoing: dict[str, dict[int, None]] = {}

    def adopt(self, policy: Policy) -> None:
        """Put a policy in force, with fresh timers; the caller schedules what is open into them."""
        self.policy = policy
        #: For each priority, how long a message may wait before it is escalated: looked at for every message.
        self.queue_after_us = policy.escalation.queue_after_us
        self.timers = Timers(policy)
        self.has_policy = True

    def contract(self, message: Message) -> Contract:
        """Return what a message's type promises now; a type that the policy has dropped is a custom one."""
        return self.policy.contract_of(message.type) or self.policy.custom_contract

    def message(self, seq: int) -> Message:
        """Return a message that must be there."""
        message = self.messages.get(seq)
        if message is None:
            raise InvariantViolation(f"an event names message {seq}, which is not there")
        return message

    def session(self, session: str) -> Session:
        """Return a session that must be there."""
        found = self.sessions.get(session)
        if found is None:
            raise InvariantViolation(f"an event names session {session}, which is not there")
        return found

    def copy_for(self, recipient: str, message_id: str) -> Message | None:
        """Find a recipient's copy of a message by messageId or signal id."""
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
        """Find all copies of a message by messageId, or one by signal id."""
        message_id, _, recipient = message_id.partition(":")
        broadcast = self.broadcasts.get(message_id)
        if broadcast is not None:
            seqs = [seq for name, seq in broadcast.copies.items() if recipient in ("", name)]
        else:
            seqs = [self.ids[message_id]] if message_id in self.ids else []
        copies = [self.messages[seq] for seq in seqs]
        return [copy for copy in copies if recipient in ("", copy.recipient)]

    def with_deadlines(self) -> dict[str, Mapping[str, TimedRecord]]:
        """Return what waits for a moment of its own, by kind and name."""
        return {
            "attention": self.attention,
            "request": self.requests,
            "approval": self.approvals,
            "discussion": self.discussions,
            "escalation": self.escalations,
        }

    def remember_request(self, request: Request) -> None:
        """Enter a request where it is looked up."""
        self.requests[request.request] = request
        self.asked[request.correlation_id, request.responder, request.requester] = request.request

    def remember_escalation(self, escalation: Escalation) -> None:
        """Enter an escalation where it is looked up."""
        name = escalation.escalation
        self.escalations[name] = escalation
        self.causes[escalation.cause] = name
        if escalation.about:
            self.escalated.setdefault(escalation.about, {})[name] = None
        (self.closed_escalations if escalation.closed_at else self.open_escalations)[name] = None

    def order_closed_escalations(self) -> None:
        """Bring those that were entered in another order into the one in which they were closed."""
        known = self.escalations
        names = sorted(self.closed_escalations, key=lambda name: (known[name].closed_at, name))
        self.closed_escalations = dict.fromkeys(names)

    def close_escalation(self, name: str) -> None:
        """Enter an escalation among those that have returned to normal."""
        self.open_escalations.pop(name, None)
        self.closed_escalations[name] = None

    def forget_escalation(self, name: str) -> None:
        """Strike an escalation out."""
        escalation = self.escalations.pop(name)
        self.closed_escalations.pop(name, None)
        del self.causes[escalation.cause]
        if escalation.about:
            del self.escalated[escalation.about][name]
            if not self.escalated[escalation.about]:
                del self.escalated[escalation.about]

    def is_known(self, cause: str) -> bool:
        """Tell whether a cause has set off an escalation, or will."""
        return cause in self.causes or cause in self.deferred

    def was_escalated(self, message: Message) -> bool:
        """Tell whether a message's present waiting has been escalated, or will be once there is room."""
        if self.deferred and queue_cause(message) in self.deferred:
            return True
        for name in self.escalated.get(message.seq, ()):
            known = self.escalations[name]
            if known.trigger == "time_in_queue" and known.waiting_since == message.enqueued_at:
                return True
        return False

    def note_latency(self, at: int, latency_us: int) -> None:
        """Remember one processing latency, and forget those out of the window."""
        manager, window = self.policy.queue_manager, self.latency
        window.samples.append((at, latency_us))
        window.total_us += latency_us
        while len(window.samples) > manager.samples_max or window.samples[0][0] <= at - manager.window_us:
            window.total_us -= window.samples.popleft()[1]

    def settle(self, message: Message, at: int) -> None:
        """Remember an ended message for a while; one that cannot come back loses its content."""
        if message.digest is None and message.state is not State.DELIVERED:
            message.digest = content_digest(message.payload)
            message.payload = message.metadata = b""
        self.failures.pop(message.seq, None)
        kept = self.acknowledged if message.state is State.ACKNOWLEDGED else self.settled
        kept.append((at, message.seq))

    def drop(self, message: Message) -> None:
        """Forget a message at once."""
        self.failures.pop(message.seq, None)
        del self.messages[message.seq]
        if message.broadcast_id is None:
            del self.ids[message.message_id]
            return
        broadcast = self.broadcasts[message.broadcast_id]
        del broadcast.copies[message.recipient]
        if not broadcast.copies:
            del self.broadcasts[message.broadcast_id]

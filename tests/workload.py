"""A seeded team on a real exchange, for tests that need a history with everything in it."""

import random
from collections.abc import Callable, Iterator

from tests.envelopes import parsed
from tocsin.core.commands import (
    SYSTEM,
    Acknowledge,
    AckStatus,
    AcquireLease,
    AdoptPolicy,
    Caller,
    CloseSession,
    Command,
    Confirm,
    Drain,
    GrantCredit,
    Heartbeat,
    MarkProcessed,
    OpenSession,
    Recall,
    Redrive,
    RegisterAgent,
    Reject,
    ReleaseLease,
    RenewLease,
    RetireAgent,
    Send,
    Tick,
)
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.messages.message import signal_id
from tocsin.core.policy import Policy, document_of
from tocsin.core.protocol.priority import priority_name
from tocsin.core.protocol.timestamps import iso
from tocsin.policies import parse_policy

#: A policy under which things happen soon: few are remembered, deaths and expiries are common.
BRISK = """
limits: {dead_letters_max: 20, threads_max: 30}
bucket: {capacity: 100000, refill_per_s: 100000}
quotas: {critical: {cap: 1000, refill_per_s: 100}, blocking: {cap: 1000, refill_per_s: 100}}
retention: {settled_s: 20, settled_max: 40, acknowledged_s: 30, acknowledged_max: 15, thread_idle_s: 60, dead_s: 90}
sessions: {stale_after_s: 10, lapse_after_s: 40, heartbeat_record_s: 0.5}
sweeper: {interval_s: 1}
queue_manager: {samples_min: 3, cooldown_s: 2, latency_high_s: 3, latency_low_s: 1}
aging: {threshold_s: 5}
leases: {ttl_default_s: 15, warn_before_s: 4, wait_default_s: 10, lapsed_max: 5}
"""

START = 1_750_000_000_000_000
DIRECTOR = Caller("boss", "director")
TYPES = ("StatusUpdate", "Question", "TaskAssigned", "ReviewRequested", "CUSTOM_NOTE", "TASK_ASSIGNMENT")


class Workload:
    """Agents that do all that agents do, in an order that a seed decides."""

    def __init__(self, seed: int, policy: str = BRISK) -> None:
        self._random = random.Random(seed)
        self.policy: Policy = parse_policy(policy)
        self.now = START
        self._sent = 0
        self._ids: list[str] = []
        self.names = [f"agent{number}" for number in range(6)]
        self._moves: list[tuple[int, Callable[[Exchange], tuple[Command, Caller] | None]]] = [
            (30, self._send),
            (4, self._broadcast),
            (10, self._drain),
            (6, self._confirm),
            (8, self._acknowledge),
            (4, self._reject),
            (4, self._processed),
            (3, self._recall),
            (3, self._redrive),
            (4, self._open),
            (2, self._close),
            (4, self._beat),
            (1, self._retire),
            (2, self._join),
            (12, self._tick),
            (1, self._govern),
            (8, self._acquire),
            (3, self._release),
            (2, self._renew),
        ]

    def play(self, exchange: Exchange, steps: int) -> Iterator[list[Event]]:
        """Run the team on an exchange and yield the events of each command that led to any."""
        if not exchange.state.has_policy:
            yield exchange.handle(AdoptPolicy(document_of(self.policy), "start"), SYSTEM, self.now).events
            yield exchange.handle(RegisterAgent("Manager", ("1.1.0",)), DIRECTOR, self.now).events
        weights = [weight for weight, _ in self._moves]
        for _ in range(steps):
            self.now += self._random.choice((0, 0, 1, 1000, 200_000, 1_500_000))
            move = self._random.choices([move for _, move in self._moves], weights)[0](exchange)
            if move is not None:
                events = exchange.handle(move[0], move[1], self.now).events
                if events:
                    yield events

    def _caller(self, exchange: Exchange) -> Caller:
        return Caller(self._random.choice(self.names), "primary")

    def _message_id(self) -> str:
        self._sent += 1
        message_id = f"msg_{self._sent}_{self._random.getrandbits(32):08x}"
        self._ids.append(message_id)
        return message_id

    def _send(self, exchange: Exchange) -> tuple[Command, Caller]:
        caller, message_type = self._caller(exchange), self._random.choice(TYPES)
        payload: dict[str, object] = {"text": f"word{self._sent % 7} körper", "n": self._sent}
        correlation = self._random.choice((None, f"thread-{self._random.randrange(60)}"))
        if message_type == "TASK_ASSIGNMENT":
            correlation = f"task-{self._sent}"
            payload = {
                "taskId": f"T{self._sent}",
                "title": "do it",
                "description": "now",
                "taskType": "implementation",
                "requirements": {},
                "deadline": None,
            }
        again = self._ids and self._random.random() < 0.05
        message_id = self._random.choice(self._ids) if again else self._message_id()
        receiver = self._random.choice(self.names)
        agent = exchange.state.agents.get(caller.agent)
        sender_type = agent.agent_type if agent is not None else "Manager"
        ttl = self._random.choice((None, 2, 30))
        metadata = {} if ttl is None else {"ttl": ttl}
        sent = parsed(
            message_id, caller.agent, receiver, messageType=message_type, timestamp=iso(self.now), payload=payload,
            correlationId=correlation, sender_type=sender_type, metadata=metadata, priority=None,
        )  # fmt: skip
        return Send(sent), caller

    def _broadcast(self, exchange: Exchange) -> tuple[Command, Caller]:
        said, at = {"text": "to all"}, iso(self.now)
        return Send(parsed(self._message_id(), "boss", "*", timestamp=at, payload=said, priority=None)), DIRECTOR

    def _session(self, exchange: Exchange) -> tuple[str, Caller] | None:
        sessions = list(exchange.state.sessions.values())
        if not sessions:
            return None
        session = self._random.choice(sessions)
        return session.session, Caller(session.agent, exchange.state.agents[session.agent].role)

    def _drain(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        found = self._session(exchange)
        return None if found is None else (Drain(found[0], self._random.choice((1, 5, 50))), found[1])

    def _beat(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        found = self._session(exchange)
        if found is None:
            return None
        beat = self._random.random() < 0.7
        return (Heartbeat(found[0]) if beat else GrantCredit(found[0], self._random.choice((0, 4, 32)))), found[1]

    def _close(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        found = self._session(exchange)
        return None if found is None else (CloseSession(found[0]), found[1])

    def _open(self, exchange: Exchange) -> tuple[Command, Caller]:
        return OpenSession(self._random.choice(("push", "piggyback", "daemon"))), self._caller(exchange)

    def _message(self, exchange: Exchange) -> tuple[str, Caller] | None:
        messages = exchange.state.messages
        offered = [message for message in list(messages.values())[-60:] if message.offers]
        if not offered:
            return None
        message = self._random.choice(offered)
        agent = exchange.state.agents.get(message.recipient)
        return None if agent is None else (signal_id(message), Caller(agent.agent, agent.role))

    def _confirm(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        found = self._message(exchange)
        return None if found is None else (Confirm((found[0],)), found[1])

    def _acknowledge(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        found = self._message(exchange)
        status: AckStatus = self._random.choice(("received", "processed"))
        return None if found is None else (Acknowledge(found[0], status), found[1])

    def _reject(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        found = self._message(exchange)
        retry = self._random.random() < 0.5
        return None if found is None else (Reject(found[0], "no", can_retry=retry), found[1])

    def _processed(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        found = self._message(exchange)
        return None if found is None else (MarkProcessed(found[0]), found[1])

    def _recall(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        messages = list(exchange.state.messages.values())
        if not messages:
            return None
        message = messages[-1]
        agent = exchange.state.agents.get(message.sender)
        return None if agent is None else (Recall(message.message_id), Caller(agent.agent, agent.role))

    def _redrive(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        dead = list(exchange.state.dead)
        if not dead:
            return None
        return Redrive((signal_id(exchange.state.messages[self._random.choice(dead)]),)), DIRECTOR

    def _retire(self, exchange: Exchange) -> tuple[Command, Caller]:
        return RetireAgent(self._random.choice(self.names), "gone"), DIRECTOR

    def _join(self, exchange: Exchange) -> tuple[Command, Caller]:
        kind = self._random.choice(("Manager", "Implementation"))
        return RegisterAgent(kind, ("1.0.0", "1.1.0")), self._caller(exchange)

    def _tick(self, exchange: Exchange) -> tuple[Command, Caller]:
        return Tick(), SYSTEM

    def _acquire(self, exchange: Exchange) -> tuple[Command, Caller]:
        names = ("db", "src/**", "src/a.py", "docs/*.md")
        wanted = tuple(self._random.sample(names, self._random.choice((1, 1, 2))))
        shared = self._random.random() < 0.4
        priority = priority_name(self._random.randrange(4))
        command = AcquireLease(() if shared else wanted, wanted if shared else (), priority=priority)
        return command, self._caller(exchange)

    def _release(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        leases = list(exchange.state.leases.leases.values())
        if not leases:
            return None
        lease = self._random.choice(leases)
        return ReleaseLease(lease.lease), Caller(lease.holder, exchange.state.agents[lease.holder].role)

    def _renew(self, exchange: Exchange) -> tuple[Command, Caller] | None:
        leases = list(exchange.state.leases.leases.values())
        if not leases:
            return None
        lease = self._random.choice(leases)
        return RenewLease(lease.lease), Caller(lease.holder, exchange.state.agents[lease.holder].role)

    def _govern(self, exchange: Exchange) -> tuple[Command, Caller]:
        return AdoptPolicy(document_of(self.policy), "again"), DIRECTOR

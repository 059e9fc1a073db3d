"""A random team at work: who does what next, out of one seed.

A world draws an action, gives the live exchange the command, lets the ledger follow the events and checks everything.
Agents forget to confirm, confirm twice or late, send again, vanish and come back; clocks jump; the exchange is thrown
away and rebuilt from the journal, or from a snapshot, at any time.
"""

import json
import random
from collections.abc import Callable

import msgspec

from tests.envelopes import envelope
from tests.ids import SeededIds
from tests.simulation import errands, leases, teamwork, wakes
from tests.simulation.ledger import Ledger, Violation, fingerprint
from tests.simulation.policies import drawn_policy
from tests.simulation.stores import MemoryStore, Store
from tests.simulation.twin import Twin
from tests.simulation.waiting import check_times
from tests.soak import tally
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller, Command, Reply
from tocsin.core.errors import Problem, TocsinError
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.messages.model import State
from tocsin.core.policy import document_of
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.timestamps import iso
from tocsin.core.snapshot import Snapshot, restore, take
from tocsin.journal.errors import JournalDamaged, JournalError

__all__ = ["ProjectStopped", "World"]

_SECOND = 1_000_000
_START = 1_762_940_000 * _SECOND
_ROLES = ("director", "human", "primary", "primary", "primary", "clone", "clone")
_TYPES = ("Manager", "Implementation", "Implementation", "AdHoc")
_SIGNALS = (
    "Blocker",
    "Question",
    "ReviewRequested",
    "TaskAssigned",
    "TaskCompleted",
    "StatusUpdate",
    "Acknowledgment",
    "MasterPreempted",
    "PeerJoined",
    "PeerLeft",
)
_OLD_PRIORITIES = ("HIGH", "NORMAL", "LOW")
_PRIORITIES = (None, "Info", "Info", "Coordinate", "Blocking", "Critical", "DirectorOverride", "ASK", "LOW")
_HISTORY = 30


class ProjectStopped(Exception):
    """The stored data is damaged: a host does not serve the project any more."""


class World:
    """One seeded run."""

    def __init__(self, seed: int, tell: Callable[[str], None] | None = None, store: Store | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = self.latest = _START
        self.steps = 0
        #: Every event so far, in memory, for rebuilding prefixes.
        self.journal = MemoryStore()
        self.store = self.journal if store is None else store
        #: Source of the ids of the exchange.
        self.ids = SeededIds(seed)
        self.exchange = self.store.exchange(self.ids)
        self.ledger = Ledger()
        self.twin = Twin()
        #: Decisions by plan so far.
        self.planned = 0
        self.losing = False
        #: Whether agents wait for each other in ways that no command has.
        self.errands = True
        #: Whether the state is checked after every step.
        self.checked = True
        #: Fingerprints of the state by number of batches, for rebuilding prefixes.
        self.milestones: dict[int, bytes] = {}
        self.callers: dict[str, Caller] = {}
        self.types: dict[str, str] = {}
        self.sent: list[tuple[str, bytes]] = []
        self.story: list[str] = []
        self.last_events: list[Event] = []
        self._tell = tell
        self._serial = 0
        self.policy = drawn_policy(self.rng)
        self.ask(cmd.AdoptPolicy(document_of(self.policy), "start"), SYSTEM)
        for _ in range(self.rng.randint(2, 7)):
            self.join()

    def step(self) -> None:
        """Do one random thing and, if `checked`, check everything."""
        self.steps += 1
        tally("simulated_steps")
        self.now += self.rng.choice((0, 1, 1000, 20_000, 300_000, _SECOND, 3 * _SECOND))
        actions, weights = zip(*_ACTIONS, strict=True)
        self.rng.choices(actions, weights)[0](self)
        if self.checked:
            self.check()
        if self.steps % 10 == 0:
            self.milestones[len(self.journal.batches)] = fingerprint(self.exchange.state)

    def check(self) -> None:
        """Check the state against the ledger and the twin."""
        try:
            self.ledger.check_state(self.exchange.state, self.now)
            self.twin.check(self.exchange.state)
        except Violation as violation:
            raise self.failure(violation) from violation

    def failure(self, error: BaseException) -> Violation:
        """Say what broke and how to see it again."""
        story = "\n".join(self.story[-_HISTORY:])
        return Violation(
            f"{error}\nseed {self.seed}, step {self.steps}; the last things that happened:\n{story}\n"
            f"see it again with: make simulate SEED={self.seed} STEPS={self.steps}"
        )

    def ask(self, command: Command, caller: Caller) -> Reply:
        """Give the live exchange a command, and let the ledger follow."""
        self.latest = max(self.latest, self.now)
        try:
            reply, events = self.twin.handle(self.exchange, self.ids, command, caller, self.now)
        except Violation as violation:
            raise self.failure(violation) from violation
        return self.keep(type(command).__name__, caller, events, reply)

    def receive(self, message_id: str, caller: Caller) -> None:
        """Give the live exchange a receipt that nobody waits for, and let the ledger follow."""
        self.latest = max(self.latest, self.now)
        try:
            reply, events = self.twin.confirm(self.exchange, self.ids, message_id, caller, self.now)
        except Violation as violation:
            raise self.failure(violation) from violation
        self.keep("receipt", caller, events, reply)

    def keep(self, what: str, caller: Caller, events: list[Event], reply: Reply) -> Reply:
        """Make durable what was decided, or lose it, and let the ledger follow."""
        self.last_events = events
        names = ", ".join(type(event).__name__ for event in events) or "nothing"
        answer = reply.code if isinstance(reply, Problem) else type(reply).__name__
        line = f"{self.steps:6} {iso(self.now)} {caller.agent}: {what} → {answer} [{names}]"
        self.story.append(line)
        del self.story[:-_HISTORY]
        if self._tell is not None:
            self._tell(line)
        for delivery in self.exchange.deliveries(events):
            parse_envelope(delivery.envelope, self.policy.limits.message_bytes_max)
        if isinstance(reply, Problem) and reply.code != "E_LEASE_004":
            done = [event for event in events if not _may_go_with_a_refusal(event)]
            if done:
                raise self.failure(Violation(f"the command was refused, and yet: {done}"))
        planned, self.planned = self.planned, sum(self.twin.by_plan.values())
        # A rebuilt state has to look at its lines once. A decision by plan does not concern them and leaves them as is.
        book = self.exchange.state.leases
        if (book.touched or book.unsettled or book.ready) and planned == self.planned:
            raise self.failure(Violation("a decision left the lines unsettled"))
        if self.losing:
            return self.lose()
        if events:
            try:
                self.store.append(self.exchange, events)
            except JournalError as error:
                return self.survive(events, error)
            if self.store is not self.journal:
                self.journal.append(self.exchange, events)
            try:
                self.ledger.follow(events)
            except Violation as violation:
                raise self.failure(violation) from violation
        return reply

    def lose(self) -> Problem:
        """Let the commit of a decided command fail: the state is thrown away, as if it had never been asked."""
        self.losing = False
        self.story.append(f"{self.steps:6} the commit of that failed")
        self.exchange = self.store.exchange(self.new_ids())
        self.twin.rebuild(self.exchange)
        if fingerprint(self.exchange.state) != fingerprint(self.ledger.shadow.state):
            raise self.failure(Violation("a failed commit left something behind"))
        return Problem("E_HUB_001", "the commit failed")

    def new_ids(self) -> SeededIds:
        """Return a new source of ids, for an exchange that takes over."""
        self.ids = SeededIds(self.rng.randrange(2**32))
        return self.ids

    def survive(self, events: list[Event], error: JournalError) -> Problem:
        """Go on after a commit that failed on a faulty disk: it is stored as a whole, or not at all."""
        self.story.append(f"{self.steps:6} the commit of that failed: {error}")
        rebuilt = self.store.exchange(self.new_ids())
        if fingerprint(rebuilt.state) != fingerprint(self.ledger.shadow.state):
            self.journal.append(self.exchange, events)
            self.ledger.follow(events)
            if fingerprint(rebuilt.state) != fingerprint(self.ledger.shadow.state):
                raise self.failure(Violation("a failed commit is neither stored nor gone"))
        self.exchange = rebuilt
        self.twin.rebuild(rebuilt)
        if isinstance(error, JournalDamaged):
            raise ProjectStopped(str(error)) from error
        return Problem("E_HUB_001", "the commit failed")

    def somebody(self) -> Caller:
        """Draw an agent that once joined."""
        return self.callers[self.rng.choice(list(self.callers))]

    def join(self) -> None:
        """Let a new agent join, or a known one come back with other abilities."""
        if not self.callers or (len(self.callers) < 9 and self.rng.random() < 0.8):
            name = f"agent_{len(self.callers)}"
            self.callers[name] = Caller(name, self.rng.choice(_ROLES))
            self.types[name] = self.rng.choice(_TYPES)
        else:
            name = self.somebody().agent
        versions = self.rng.choice((("1.0.0",), ("1.0.0", "1.1.0"), ("1.1.0",), ("1.1.0", "2.0.0")))
        capabilities = self.rng.choice(((), (), (), ("STATE_SYNC", "ERROR_REPORT", "StatusUpdate")))
        if self.rng.random() < 0.05:
            versions = ("2.0.0",)
        self.ask(cmd.RegisterAgent(self.types[name], versions, capabilities), self.callers[name])

    def retire(self) -> None:
        """Let somebody leave for good, or try to throw somebody out."""
        agent = self.somebody().agent
        self.ask(cmd.RetireAgent(agent, "simulated"), self.callers[self.rng.choice([agent, self.somebody().agent])])

    def change_role(self) -> None:
        """Hand somebody a token with another role."""
        name = self.somebody().agent
        self.callers[name] = Caller(name, self.rng.choice(_ROLES))

    def attach(self) -> None:
        """Open a session; now and then it replaces all others of its agent, and is named those of others too."""
        kind = self.rng.choice(("push", "push", "piggyback", "piggyback", "daemon", "channel", "carrier pigeon"))
        window = self.rng.choice((None, 1, 2, 8))
        replaces = tuple(self.exchange.state.sessions) if window == 2 else ()
        self.ask(cmd.OpenSession(kind, window, replaces), self.somebody())  # type: ignore[arg-type]

    def beat(self) -> None:
        """Let sessions show life; now and then one that is not the caller's."""
        for name, session in list(self.exchange.state.sessions.items()):
            caller = self.callers[session.agent] if self.rng.random() < 0.95 else self.somebody()
            if self.rng.random() < 0.8:
                self.ask(cmd.Heartbeat(name), caller)

    def credit(self) -> None:
        """Let a session take more at a time, or less, or nothing for now."""
        sessions = list(self.exchange.state.sessions.values())
        if sessions:
            session = self.rng.choice(sessions)
            window = self.rng.choice((0, 1, 2, 8, 8, 100_000))
            self.ask(cmd.GrantCredit(session.session, window), self.callers[session.agent])

    def detach(self) -> None:
        """Close a session, in order or by vanishing."""
        sessions = list(self.exchange.state.sessions.values())
        if sessions:
            session = self.rng.choice(sessions)
            self.ask(cmd.CloseSession(session.session), self.callers[session.agent])

    def send(self) -> None:
        """Send something new."""
        sender = self.somebody()
        self.submit(sender, self.envelope(sender))

    def burst(self) -> None:
        """Send much, as an agent that floods."""
        sender = self.somebody()
        for _ in range(self.rng.randint(3, 12)):
            self.submit(sender, self.envelope(sender))

    def talk(self) -> None:
        """Let two agents exchange plain messages, mostly with a connection that takes them at once."""
        rng, agents = self.rng, self.exchange.state.agents
        here = [caller for name, caller in self.callers.items() if name in agents and agents[name].role == caller.role]
        if not here:
            return
        sender, receiver = rng.choice(here), rng.choice(here)
        if not agents[receiver.agent].sessions and rng.random() < 0.8:
            self.ask(cmd.OpenSession("push", 8), receiver)
        kind = rng.choice(("TaskAssigned", "StatusUpdate", "Question", "CUSTOM_THING", "CUSTOM_THING"))
        for _ in range(rng.randint(1, 6)):
            self.submit(sender, self.plain_envelope(sender, receiver.agent, kind))
            agent = self.exchange.state.agents.get(receiver.agent)
            for session in () if agent is None else list(agent.sessions.values()):
                for seq in list(session.in_flight):
                    if rng.random() < 0.8:
                        self.receive(self.exchange.state.messages[seq].message_id, receiver)

    def plain_envelope(self, sender: Caller, receiver: str, kind: str) -> bytes:
        """Write a message without a thread, metadata or QoS fields."""
        self._serial += 1
        message = envelope(
            f"msg_{self.now}_{self._serial}",
            sender.agent,
            receiver,
            sender_type=self.types[sender.agent],
            timestamp=iso(self.now),
            messageType=kind,
            payload={"text": "x" * self.rng.choice((0, 10, 300))},
            priority=self.rng.choice((None, None, "Info", "Coordinate", "Blocking", "Critical")),
        )
        return msgspec.json.encode(message)

    def send_again(self) -> None:
        """Send what was sent before: the same, or other content under the same id."""
        if not self.sent:
            return
        sender, data = self.rng.choice(self.sent[-40:])
        if self.rng.random() < 0.3:
            changed = json.loads(data)
            changed["payload"]["note"] = "other"
            data = json.dumps(changed).encode()
        caller = self.callers[sender] if self.rng.random() < 0.9 else self.somebody()
        self.submit(caller, data, new=False)

    def submit(self, caller: Caller, data: bytes, *, new: bool = True) -> None:
        """Give bytes to the exchange as a gateway does."""
        try:
            message = parse_envelope(data, self.policy.limits.message_bytes_max)
        except TocsinError as error:
            raise self.failure(error) from error
        before = self.exchange.state.ids.keys() | self.exchange.state.broadcasts.keys()
        self.ask(cmd.Send(message), caller)
        news = [event for event in self.last_events if not isinstance(event, ev.MessagesForgotten)]
        if message.message_id in before and news:
            raise self.failure(Violation(f"{message.message_id} was sent again and changed something"))
        if new:
            self.sent.append((caller.agent, data))

    def envelope(self, sender: Caller) -> bytes:
        """Write a random message."""
        self._serial += 1
        rng = self.rng
        version = rng.choice(("1.0.0", "1.1.0", "1.1.0"))
        kinds: tuple[str, ...] = (*_PAYLOADS, "CUSTOM_THING") if version == "1.0.0" else (*_PAYLOADS, *_SIGNALS)
        kind = rng.choice(kinds)
        receiver = rng.choice([*self.callers, *self.callers, "nobody", "*"])
        message = envelope(
            f"msg_{self.now}_{self._serial}",
            sender.agent,
            receiver,
            sender_type=self.types[sender.agent],
            receiver_type=rng.choice(("*", "*", self.types.get(receiver, "AdHoc"))),
            version=version,
            timestamp=iso(self.now),
            messageType=kind,
            payload=self.payload(kind, sender),
            priority=rng.choice(_OLD_PRIORITIES if version == "1.0.0" else _PRIORITIES),
        )
        correlation = self.correlation(kind, message["payload"])
        if correlation is not None:
            message["correlationId"] = correlation
        if rng.random() < 0.4:
            message["metadata"] = {"ttl": rng.choice((0.5, 2, 30, 600)), "colour": "blue"}
        if version == "1.1.0" and rng.random() < 0.4:
            message["qos"] = {
                "deliveryClass": rng.choice(("sync", "async", "async")),
                "importance": rng.randint(1, 10),
                "decayRate": rng.choice((0.0, 0.0, 0.01, 0.5, 1.0)),
            }
        return msgspec.json.encode(message)

    def payload(self, kind: str, sender: Caller) -> object:
        """Write a payload that fits its type."""
        if kind in ("ACK", "NACK"):
            mine = [m.message_id for m in self.exchange.state.messages.values() if m.recipient == sender.agent]
            about = self.rng.choice(mine) if mine else "msg_none_0"
            if kind == "ACK":
                status = self.rng.choice(("received", "queued", "processed"))
                return {"acknowledgedMessageId": about, "status": status, "timestamp": iso(self.now)}
            retry = self.rng.random() < 0.5
            return {"rejectedMessageId": about, "reason": "no", "timestamp": iso(self.now), "canRetry": retry}
        if kind == "TASK_UPDATE":
            return {"taskId": "t", "status": self.rng.choice(("in_progress", "completed", "failed")), "progress": 0.5}
        return dict(_PAYLOADS.get(kind, {"text": "x" * self.rng.choice((0, 10, 300))}))

    def correlation(self, kind: str, payload: object) -> str | None:
        """Choose a correlationId, mostly one that fits."""
        rng, state = self.rng, self.exchange.state
        if isinstance(payload, dict) and kind in ("ACK", "NACK"):
            about = payload.get("acknowledgedMessageId") or payload.get("rejectedMessageId")
            known = [m.correlation_id for m in state.messages.values() if m.message_id == about and m.correlation_id]
            return known[0] if known and rng.random() < 0.8 else str(about)
        if kind == "TASK_UPDATE" and state.threads and rng.random() < 0.9:
            return rng.choice(list(state.threads))
        if kind in ("TASK_ASSIGNMENT", "HANDOFF_REQUEST") and rng.random() < 0.9:
            return f"req_{self._serial}"
        if state.threads and rng.random() < 0.4:
            return rng.choice(list(state.threads))
        return rng.choice((None, f"req_{self._serial}"))

    def drain(self) -> None:
        """Let a session take what waits."""
        sessions = list(self.exchange.state.sessions.values())
        if sessions:
            session = self.rng.choice(sessions)
            self.ask(cmd.Drain(session.session, self.rng.choice((1, 2, 10, 500))), self.callers[session.agent])

    def confirm(self) -> None:
        """Confirm receipts: some, twice, late, or of what is somebody else's."""
        caller = self.somebody()
        known = [m.message_id for m in self.exchange.state.messages.values() if m.recipient == caller.agent]
        if self.rng.random() < 0.1:
            known += [m.message_id for m in self.exchange.state.messages.values()]
        some = tuple(self.rng.sample(known, min(len(known), self.rng.randint(0, 6))))
        if self.steps % 2:
            self.ask(cmd.Confirm(some), caller)
            return
        for message_id in some:
            self.receive(message_id, caller)

    def settle(self) -> None:
        """Acknowledge, reject or finish something."""
        caller = self.somebody()
        known = [m for m in self.exchange.state.messages.values() if m.recipient == caller.agent]
        interesting = [m for m in known if m.state in (State.OFFERED, State.DELIVERED, State.ACKNOWLEDGED)]
        message_id = self.rng.choice(interesting or known).message_id if known else "msg_none_0"
        command: Command = self.rng.choice(
            (
                cmd.Acknowledge(message_id),
                cmd.Acknowledge(message_id, "processed"),
                cmd.Reject(message_id, "cannot", "E_TASK_004", can_retry=True),
                cmd.Reject(message_id, "will not", "E_TASK_001", can_retry=False),
                cmd.MarkProcessed(message_id),
            )
        )
        self.ask(command, caller)

    def recall(self) -> None:
        """Recall something: the caller's own, mostly."""
        messages = list(self.exchange.state.messages.values())
        if not messages:
            return
        message = self.rng.choice(messages)
        caller = self.callers.get(message.sender) if self.rng.random() < 0.9 else self.somebody()
        self.ask(cmd.Recall(message.message_id), caller or self.somebody())

    def redrive(self) -> None:
        """Redrive dead letters."""
        dead = [self.exchange.state.messages[seq].message_id for seq in self.exchange.state.dead]
        chosen = tuple(self.rng.sample(dead, min(3, len(dead)))) or ("msg_none_0",)
        self.ask(cmd.Redrive(chosen), self.somebody())

    def tick(self) -> None:
        """Let what is due happen, on time or late."""
        due = self.exchange.next_due()
        if due is not None and self.rng.random() < 0.7 and due > self.now:
            self.now = due
        self.tick_all()

    def tick_all(self) -> None:
        """Tick until nothing is due, and hold the exchange to its aging bound."""
        for _ in range(10_000):
            self.ask(cmd.Tick(), SYSTEM)
            due = self.exchange.next_due()
            if due is None or due > self.now:
                break
        else:
            raise self.failure(Violation("something is due for ever"))
        try:
            self.ledger.check_bound(self.exchange.state, self.now)
            check_times(self.exchange.state, self.now)
        except Violation as violation:
            raise self.failure(violation) from violation

    def lone_tick(self) -> None:
        """Tick once, with more left due."""
        self.ask(cmd.Tick(), SYSTEM)

    def jump(self) -> None:
        """Let the clock jump, forwards or backwards."""
        self.now += self.rng.choice((-3600, -30, -1, 45, 600, 5000, 100_000)) * _SECOND

    def change_policy(self) -> None:
        """Adopt another policy, as one who may or one who may not."""
        policy = drawn_policy(self.rng)
        caller = self.rng.choice((SYSTEM, self.somebody()))
        reply = self.ask(cmd.AdoptPolicy(document_of(policy), "simulated"), caller)
        if isinstance(reply, cmd.Adopted):
            self.policy = policy

    def fail_commit(self) -> None:
        """Do something whose commit fails."""
        self.losing = True
        actions = (World.send, World.drain, World.settle, World.recall, World.tick, World.attach, leases.acquire)
        self.rng.choice(actions)(self)
        self.losing = False

    def project(self) -> None:
        """Bring the recovery point up to date; where that fails, go on from what is stored."""
        try:
            self.store.project(self.exchange)
        except JournalError:
            self.rebuild()

    def rebuild(self) -> None:
        """Throw the exchange away and rebuild it from what is stored."""
        self.replace(self.store.exchange(self.new_ids()), "the journal")

    def rebuild_prefix(self) -> None:
        """Rebuild an earlier state from a prefix of the journal."""
        if not self.milestones:
            return
        length = self.rng.choice(list(self.milestones))
        rebuilt = self.journal.prefix(length)
        if fingerprint(rebuilt.state) != self.milestones[length]:
            raise self.failure(Violation(f"the first {length} batches do not rebuild the state of then"))

    def restore(self) -> None:
        """Go on from a snapshot of the present, or from a recovery point just written."""
        if self.store is not self.journal:
            self.project()
            self.rebuild()
            return
        data = msgspec.msgpack.encode(take(self.exchange.state))
        state = restore(msgspec.msgpack.decode(data, type=Snapshot))
        self.replace(Exchange(self.new_ids(), state), "a snapshot")

    def replace(self, rebuilt: Exchange, source: str) -> None:
        """Let a rebuilt exchange take over."""
        if fingerprint(rebuilt.state) != fingerprint(self.exchange.state):
            raise self.failure(Violation(f"an exchange rebuilt from {source} differs"))
        self.exchange = rebuilt
        self.twin.rebuild(rebuilt)

    def finish(self) -> None:
        """Let everybody catch up, and check that every message ends."""
        state = self.exchange.state
        self.now = max(self.now, self.latest)
        errands.end_all(self)
        for _ in range(40):
            for name in list(state.agents):
                caller = self.callers[name] = Caller(name, state.agents[name].role)
                for known in [s for s in state.agents[name].sessions.values() if s.kind == "channel"]:
                    self.ask(cmd.CloseSession(known.session), caller)
                if not state.agents[name].sessions:
                    self.ask(cmd.OpenSession("piggyback", 1000), caller)
                session = next(iter(state.agents[name].sessions), None)
                if session is not None:
                    self.ask(cmd.GrantCredit(session, 1000), caller)
                    self.empty(session, caller)
                for message in [m for m in state.messages.values() if m.recipient == name]:
                    if message.ack_required and message.state is State.DELIVERED:
                        self.ask(cmd.Acknowledge(message.message_id), caller)
            teamwork.finish_affairs(self)
            self.now += 61 * _SECOND
            self.tick_all()
        self.ledger.check_state(state, self.now)
        self.ledger.check_ended(state)

    def empty(self, session: str, caller: Caller) -> None:
        """Let somebody take and confirm all that waits for it, however little comes at a time."""
        while True:
            drained = self.ask(cmd.Drain(session, 500), caller)
            here = [m for m in self.exchange.state.messages.values() if m.recipient == caller.agent]
            arrived = tuple(m.message_id for m in here if m.state is State.OFFERED)
            self.ask(cmd.Confirm(arrived[:500]), caller)
            if not isinstance(drained, cmd.Drained) or not drained.deliveries:
                return


def _may_go_with_a_refusal(event: Event) -> bool:
    """Tell whether an event is about a refusal, or only noticed on the way to one."""
    if isinstance(event, ev.MessageAccepted):
        return event.sender == SYSTEM.agent
    if isinstance(event, ev.MessageBoosted):
        return event.rule == "escalation"
    kinds = (ev.SendRefused, ev.LeaseRefused, ev.GamingDetected, ev.GamingCleared, ev.MessageOffered, ev.MessageExpired)
    # A refusal may open an escalation, which boosts messages and waits.
    escalated = (ev.EscalationOpened, ev.EscalationDeferred, ev.EscalationMoved, ev.EscalationsForgotten, ev.WaitRaised)
    followed = (ev.ApprovalEnded, ev.RequestEnded, ev.WaitEnded, *escalated)
    noticed = (ev.InterruptRaised, ev.InterruptEnded, ev.MessagesForgotten, ev.AgentCharged, ev.NoticeFolded)
    woken = (ev.AgentWoken, ev.AgentWakeFailed)
    return isinstance(event, (*kinds, *followed, *noticed, *woken))


_PAYLOADS: dict[str, dict[str, object]] = {
    "TASK_ASSIGNMENT": {
        "taskId": "t",
        "taskRef": "Task",
        "taskDescription": "Do it",
        "memoryLogPath": "log.md",
        "executionType": "single-step",
    },
    "TASK_UPDATE": {},
    "STATE_SYNC": {
        "entityType": "task",
        "entityId": "t",
        "operation": "update",
        "state": {},
        "syncTimestamp": "2025-11-12T10:30:00.000Z",
    },
    "ERROR_REPORT": {"errorType": "SystemError", "errorMessage": "broken", "severity": "low"},
    "HANDOFF_REQUEST": {
        "taskId": "t",
        "reason": "load_balancing",
        "sourceAgent": {"agentId": "a", "type": "AdHoc"},
        "targetAgent": {"agentId": "b", "type": "AdHoc"},
        "handoffContext": {},
    },
    "ACK": {},
    "NACK": {},
}

_ACTIONS: tuple[tuple[Callable[[World], None], float], ...] = (
    (World.send, 30),
    (World.burst, 3),
    (World.talk, 8),
    (World.send_again, 4),
    (World.drain, 14),
    (World.confirm, 8),
    (World.settle, 14),
    (World.tick, 10),
    (World.lone_tick, 3),
    (World.beat, 6),
    (World.attach, 6),
    (World.detach, 2),
    (World.credit, 2),
    (World.recall, 4),
    (World.redrive, 2),
    (World.join, 1.5),
    (World.retire, 0.3),
    (World.change_role, 0.2),
    (World.jump, 0.6),
    (World.change_policy, 0.4),
    (World.fail_commit, 1),
    (World.project, 2),
    (World.rebuild, 0.4),
    (World.rebuild_prefix, 0.3),
    (World.restore, 0.6),
    (leases.acquire, 12),
    (leases.renew, 3),
    (leases.release, 5),
    (leases.force, 0.5),
    (errands.begin, 3),
    (errands.shift, 1),
    (errands.end, 1.5),
    *teamwork.ACTIONS,
    *wakes.ACTIONS,
)

"""Simulated histories, and their fold in plain Python, for the differential tests.

Only the names of columns are taken from the pipeline. Depths come from the mailboxes of a real exchange to which the
events are applied.
"""

from collections import Counter, defaultdict
from typing import Any

from tests.ids import SeededIds
from tests.pipeline.rows import S, T, day_of
from tests.pipeline.traffic import unchecked_world
from tests.workload import Workload
from tocsin.core import events as ev
from tocsin.core.events import Event, decode_events, encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.messages.model import State

__all__ = ["History", "Life", "played", "simulated"]

Life = dict[str, Any]


def simulated(seed: int, steps: int) -> list[Event]:
    """Run a seeded simulation whose clock only moves forward, and return its journal."""
    world = unchecked_world(seed)
    for _ in range(steps):
        world.now = max(world.now, world.latest)
        world.step()
    return [event for batch in world.journal.batches for event in decode_events(batch)]


def played(seed: int, steps: int) -> list[Event]:
    """Run a seeded team over midnight, and return its journal."""
    team = Workload(seed)
    team.now = T - 120 * S
    batches = team.play(Exchange(SeededIds(seed)), steps)
    return [event for batch in batches for event in decode_events(encode_events(batch))]


class History:
    """One project's events, applied one by one."""

    def __init__(self, project: str, events: list[Event]) -> None:
        self.project = project
        self.events = events
        self.lives: dict[int, Life] = {}
        #: For each second and level: messages that came to a mailbox, and that left one.
        self.steps: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        #: Depths by level after each event that changed them.
        self.depths: list[tuple[int, tuple[int, ...]]] = []
        #: Per session: kind, agent, opened, closed, reason, heartbeats, stale times.
        self.sessions: dict[str, dict[str, Any]] = {}
        self.policies: list[ev.PolicyAdopted] = []
        self._exchange = Exchange(SeededIds(0))
        for seq, event in enumerate(events, 1):
            self._follow_mailboxes(event)
            self._follow_life(seq, event)
            self._follow_session(event)
            if isinstance(event, ev.PolicyAdopted):
                self.policies.append(event)

    def _follow_mailboxes(self, event: Event) -> None:
        before = self._depths()
        self._exchange.apply(event)
        after = self._depths()
        if before != after:
            self.depths.append((event.at, after))
        for level, (old, new) in enumerate(zip(before, after, strict=True)):
            if new > old:
                self.steps[event.at // S, level]["entered"] += new - old
            elif new < old:
                self.steps[event.at // S, level]["left"] += old - new

    def _depths(self) -> tuple[int, ...]:
        """Count the messages in mailboxes by level, without inherited priority."""
        depths = [0] * 5
        for message in self._exchange.state.messages.values():
            if message.state is State.QUEUED and not message.backing_off:
                depths[message.own_level] += 1
        waiting = sum(agent.mailbox.depth for agent in self._exchange.state.agents.values())
        assert sum(depths) == waiting
        return tuple(depths)

    def _follow_life(self, seq: int, event: Event) -> None:
        if isinstance(event, ev.MessageAccepted):
            self.lives[seq] = self._accepted(seq, event)
            return
        message = getattr(event, "message", None)
        if not isinstance(message, int) or message not in self.lives:
            return
        life = self.lives[message]
        life["last_seq"], life["last_at"] = seq, event.at
        match event:
            case ev.MessageReleased():
                life |= {"state": "queued", "expires_at": event.expires_at}
            case ev.MessageOffered():
                if life["first_offered_at"] is None:
                    life |= {"first_offered_at": event.at, "first_waited_us": event.waited_us}
                life |= {"state": "offered", "offered_at": event.at, "offers": event.offer}
            case ev.MessageDelivered():
                life |= {"state": "delivered", "delivered_at": event.at, "delivered_how": event.how}
            case ev.MessageAcknowledged():
                life |= {"state": "acknowledged", "acked_at": event.at, "ack_latency_us": event.latency_us}
            case ev.MessageProcessed():
                life |= {"state": "processed", "processed_at": event.at, "processed_how": event.how}
                life["processing_latency_us"] = event.latency_us
            case ev.MessageRejected():
                life["rejections"] += 1
            case ev.MessageRequeued():
                life |= {"state": "queued", "delivered_at": None, "attempts": event.attempts}
                life["requeues"] += 1
            case ev.MessageBoosted():
                own = event.new_level if event.own_level is None else event.own_level
                life |= {"level": own, "boosts": event.boosts}
            case ev.MessageExpired():
                life |= {"state": "expired", "expired_at": event.at, "reason": event.reason}
            case ev.MessageRecalled():
                life |= {"state": "recalled", "recalled_at": event.at}
            case ev.MessageDied():
                life |= {"state": "dead", "dead_at": event.at, "delivered_at": None}
                life |= {"reason": event.reason, "code": event.code, "attempts": event.attempts}
            case ev.DeadLetterRedriven():
                life |= {"state": "queued", "dead_at": None, "redriven_at": event.at, "level": life["priority"]}
                life |= {"expires_at": event.expires_at, "attempts": 0, "boosts": 0}
                life["redrives"] += 1
            case ev.DeadLetterPurged():
                life["purged_at"] = event.at

    def _accepted(self, seq: int, event: ev.MessageAccepted) -> Life:
        kept = {
            name: getattr(event, name)
            for name in (
                "message_id", "sender", "recipient", "message_type", "requested", "priority", "rule", "importance",
                "decay_rate", "delivery_class", "ack_required", "version", "correlation_id", "opens_thread",
                "broadcast", "recipient_state", "publish_path", "resolved_session", "held", "expires_at", "sent_at",
            )
        }  # fmt: skip
        stamps = dict.fromkeys(
            f"{name}_at"
            for name in (
                "first_offered", "offered", "delivered", "acked", "processed", "expired", "recalled", "dead",
                "redriven", "purged",
            )
        )  # fmt: skip
        counts = dict.fromkeys(("offers", "attempts", "requeues", "rejections", "boosts", "redrives"), 0)
        waits = dict.fromkeys(("first_waited_us", "ack_latency_us", "processing_latency_us", "reason", "code"))
        return {
            "project": self.project,
            "date": day_of(event.at),
            "message": seq,
            **kept,
            **{name: str(kept[name]) for name in ("delivery_class", "recipient_state", "publish_path")},
            "level": event.priority,
            "created_at": event.at,
            "state": "held" if event.held else "queued",
            "delivered_how": None,
            "processed_how": None,
            **stamps,
            **counts,
            **waits,
            "last_seq": seq,
            "last_at": event.at,
        }

    def _follow_session(self, event: Event) -> None:
        match event:
            case ev.SessionOpened():
                self.sessions[event.session] = {
                    "session": event.session,
                    "agent": event.agent,
                    "session_kind": event.session_kind,
                    "window": event.window,
                    "opened_at": event.at,
                    "closed_at": None,
                    "close_reason": None,
                    "heartbeats": 0,
                    "last_heartbeat_at": None,
                    "stale": [],
                }
            case ev.SessionHeartbeat():
                session = self.sessions[event.session]
                session["heartbeats"] += 1
                session["last_heartbeat_at"] = event.at
                _recover(session, event.at)
            case ev.SessionWentStale():
                self.sessions[event.session]["stale"].append([event.at, None])
            case ev.SessionClosed():
                session = self.sessions[event.session]
                session |= {"closed_at": event.at, "close_reason": event.reason}
                _recover(session, event.at)

    def policy_at(self, at: int) -> ev.PolicyAdopted | None:
        """Return the policy in force at a time: the last one adopted by then."""
        adopted = [policy for policy in self.policies if policy.at <= at]
        return adopted[-1] if adopted else None


def _recover(session: dict[str, Any], at: int) -> None:
    if session["stale"] and session["stale"][-1][1] is None:
        session["stale"][-1][1] = at

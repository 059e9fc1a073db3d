"""An independent account of what happened, and what must hold after every step.

The ledger follows the events one by one with an exchange of its own, rebuilt from nothing but encoded events; so each
check sees the state just before the event, and the live exchange is compared with a rebuilt one at every step. What it
knows of orders and endings is written down anew here, in the plainest way, not taken from the code under test.
"""

import msgspec

from tests.ids import SeededIds
from tests.simulation.promises import Violation, must
from tests.simulation.teamwork import Accounts
from tests.simulation.waiting import check_coordination, check_deadlock
from tests.simulation.wakes import WakeChecks
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import Event, decode_events, encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.messages.admission import levels
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import LENT_BY_RECIPIENT, LENT_BY_SENDER, State
from tocsin.core.protocol.priority import Priority
from tocsin.core.snapshot import take
from tocsin.core.state import ProjectState

__all__ = ["Ledger", "Violation", "fingerprint"]

_ENDINGS = {
    ev.MessageExpired: "expired",
    ev.MessageRecalled: "recalled",
    ev.DeadLetterPurged: "purged",
    ev.MessageDelivered: "delivered",
    ev.MessageAcknowledged: "acknowledged",
    ev.MessageProcessed: "processed",
    ev.MessageDied: "dead",
}
_FINAL = ("expired", "recalled", "purged", "processed")
_REMEMBERED_NO_MORE = (*_FINAL, "delivered", "acknowledged")
_SLACK = 1e-9

_ENCODER = msgspec.msgpack.Encoder()


def fingerprint(state: ProjectState) -> bytes:
    """Encode a whole state, for comparing."""
    return _ENCODER.encode(take(state))


class Ledger:
    """What became of every message, and a rebuilt exchange that follows."""

    def __init__(self) -> None:
        self.shadow = Exchange(SeededIds(0))
        #: Where each accepted message is, by its sequence number.
        self.fate: dict[int, str] = {}
        self.ack_required: dict[int, bool] = {}
        #: Messages that were ever offered.
        self.seen: set[int] = set()
        #: Messages of this decision whose path is a push, and whether they were pushed.
        self.pushed: dict[int, bool] = {}
        #: Level to which each message was escalated.
        self.escalated: dict[int, int] = {}
        #: Level to which each message rose by waiting; a policy adopted since may end aging lower.
        self.aged: dict[int, int] = {}
        self.counts: dict[str, int] = {}
        self.accounts = Accounts()
        self.wakes = WakeChecks()
        #: Requests for leases that nobody has answered yet, and who made them.
        self.in_line: dict[str, str] = {}

    def follow(self, events: list[Event]) -> None:
        """Check each event against the state before it, then apply it."""
        self.pushed.clear()
        for event in decode_events(encode_events(events)):
            self._check(event)
            self.accounts.follow(event, self.shadow.state)
            self.wakes.follow(event, self.shadow.state)
            self.shadow.apply(event)
            self._record(event)
        # A pump that meets too many expired messages at a time stops there.
        done = all(self.pushed.values()) or any(isinstance(event, ev.MessageExpired) for event in events)
        must(done, f"the path of {self.pushed} is a push, which did not happen")
        if any(isinstance(event, ev.MessageDied) for event in events):
            _check_dead_letters(self.shadow.state)
        self.accounts.teamwork_checks.decided(self.shadow.state)

    def _check(self, event: Event) -> None:
        state = self.shadow.state
        if isinstance(event, ev.MessageAccepted):
            known = state.copy_for(event.recipient, event.message_id)
            must(known is None, f"{event.message_id} was accepted twice for {event.recipient}")
            _check_room(event, state)
        elif isinstance(event, ev.MessageOffered):
            self._check_offer(event, state)
        elif isinstance(event, ev.MessageRecalled):
            must(event.message not in self.seen, f"message {event.message} was recalled after an offer")
        elif isinstance(event, ev.MessageBoosted):
            self._check_boost(event, state)
        elif isinstance(event, ev.DeadlockFound):
            check_deadlock(event, state)
        elif isinstance(event, ev.WaitRaised):
            wait = state.waits.waits[f"{event.wait_kind}:{event.ref}:{event.waiter}"]
            must(wait.level < event.level <= Priority.CRITICAL, f"{wait.key} was raised from {wait.level} wrongly")
        elif isinstance(event, ev.DecayRateChanged):
            manager = state.policy.queue_manager
            must(manager.rate_min <= event.new_rate <= manager.rate_max, f"the decay rate became {event.new_rate}")
        elif isinstance(event, ev.MessageDelivered | ev.MessageAcknowledged):
            fate = self.fate[event.message]
            must(fate not in _FINAL, f"message {event.message} was {fate}, then {type(event).__name__}")

    def _check_boost(self, event: ev.MessageBoosted, state: ProjectState) -> None:
        boosted, top = state.messages[event.message], _top(state)
        if event.rule == "escalation":
            must(boosted.level <= event.new_level <= Priority.CRITICAL, f"message {event.message} was raised wrongly")
            return
        must(boosted.priority <= top, f"message {event.message} aged above the top of aging")
        earned = min(top, boosted.priority + event.boosts * state.policy.aging.boost_levels)
        must(event.new_level == max(boosted.level, earned), f"message {event.message} was boosted wrongly")
        self.aged[event.message] = max(self.aged.get(event.message, 0), earned)

    def _deserved(self, message: Message, state: ProjectState) -> int:
        """Return the level that a message has without aging: as sent, escalated or lent."""
        lent = 0
        for bit, agent in ((LENT_BY_SENDER, message.sender), (LENT_BY_RECIPIENT, message.recipient)):
            if message.lent & bit:
                lent = max(lent, min(state.inherited.get(agent, 0), Priority.CRITICAL))
        return max(message.priority, self.escalated.get(message.seq, 0), lent)

    def _check_overtaking(self, offered: Message, waiting: list[Message], state: ProjectState) -> None:
        """Check both halves of the rule of aging: no Critical behind an aged message, and the bound under a flood."""
        top, reached = _top(state), max(self._deserved(offered, state), self.aged.get(offered.seq, 0))
        if reached < Priority.CRITICAL:
            urgent = [other.seq for other in waiting if self._deserved(other, state) >= Priority.CRITICAL]
            must(not urgent, f"message {offered.seq} merely waited and was offered before Critical {urgent}")
        for other in waiting if reached <= top else ():
            older = offered.overdue and offered.seq <= other.seq
            in_front = other.overdue and other.level == top
            must(older or not in_front, f"message {offered.seq} was offered before {other.seq}, which is overdue")

    def _check_offer(self, event: ev.MessageOffered, state: ProjectState) -> None:
        message = state.messages[event.message]
        fate = self.fate[event.message]
        must(fate == "queued", f"message {event.message} was offered while {fate}")
        must(event.at <= message.expires_at, f"message {event.message} was offered after it expired")
        must(not message.backing_off, f"message {event.message} was offered during its backoff")
        session = state.sessions[event.session]
        must(session.agent == message.recipient, f"message {event.message} was offered to somebody else")
        must(len(session.in_flight) < session.window, f"session {event.session} was offered more than its window")
        waiting = [
            other
            for other in state.messages.values()
            if other.recipient == message.recipient and other.state is State.QUEUED and not other.backing_off
        ]
        first = min(waiting, key=lambda other: _order(other, event.at, state))
        must(first.seq == message.seq, f"message {message.seq} was offered before {first.seq}: out of order")
        self._check_overtaking(message, waiting, state)

    def _record(self, event: Event) -> None:
        name = type(event).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        if isinstance(event, ev.MessageAccepted):
            self.fate[self.shadow.state.seq] = "held" if event.held else "queued"
            self.ack_required[self.shadow.state.seq] = event.ack_required
            if event.publish_path == "pushed_to_ws":
                self.pushed[self.shadow.state.seq] = False
        elif isinstance(event, ev.MessageOffered):
            self.fate[event.message] = "offered"
            if event.pushed:
                must(event.message in self.pushed, f"message {event.message} was pushed, and its path says otherwise")
                self.pushed[event.message] = True
            self.seen.add(event.message)
        elif isinstance(event, ev.MessageRequeued | ev.DeadLetterRedriven | ev.MessageReleased):
            self.fate[event.message] = "queued"
            if isinstance(event, ev.DeadLetterRedriven):
                self.escalated.pop(event.message, None)
                self.aged.pop(event.message, None)
        elif isinstance(event, ev.MessageBoosted):
            if event.rule == "escalation":
                self.escalated[event.message] = self.shadow.state.messages[event.message].own_level
        elif isinstance(event, ev.LeaseQueued):
            self.in_line[event.lease] = event.agent
        elif isinstance(event, ev.LeaseGranted | ev.LeaseWaitEnded):
            self.in_line.pop(event.lease, None)
        elif type(event) in _ENDINGS:
            self.fate[event.message] = _ENDINGS[type(event)]  # type: ignore[union-attr]

    def check_state(self, live: ProjectState, now: int) -> None:
        """Check what must hold between steps."""
        must(fingerprint(self.shadow.state) == fingerprint(live), "a rebuilt exchange differs from the live one")
        for seq, fate in self.fate.items():
            if seq not in live.messages:
                gone = fate in _REMEMBERED_NO_MORE and not (fate == "delivered" and self.ack_required[seq])
                must(gone, f"message {seq} disappeared while {fate}")
            else:
                must(live.messages[seq].state == fate, f"message {seq} is {live.messages[seq].state}, not {fate}")
        for message in live.messages.values():
            stamps = (message.delivered_at, message.expired_at, message.recalled_at)
            must(sum(map(bool, stamps)) <= 1, f"message {message.seq} has more than one terminal stamp")
        self.accounts.check(live)
        self.wakes.check(live)
        self._check_mailboxes(live, now)
        self._check_allowances(live, now)
        _check_volume(live)
        check_coordination(live)
        must(self.in_line.keys() == live.leases.queue.keys(), "a request left the line and nobody was told")

    def _check_mailboxes(self, live: ProjectState, now: int) -> None:
        waiting: dict[str, list[Message]] = {name: [] for name in live.agents}
        for message in live.messages.values():
            if message.state is State.QUEUED and not message.backing_off:
                waiting[message.recipient].append(message)
        for name, agent in live.agents.items():
            queued = waiting[name]
            must(agent.mailbox.depth == len(queued), f"the mailbox of {name} counts wrong")
            by_level = tuple(sum(message.level == level for message in queued) for level in Priority)
            must(agent.mailbox.depths() == by_level, f"the levels of {name} count wrong")
            head = agent.mailbox.head(now, live.policy.decay)
            if queued:
                first = min(queued, key=lambda message: _order(message, now, live))
                must(head is not None and head.seq == first.seq, f"the mailbox of {name} is out of order")
            else:
                must(head is None, f"the mailbox of {name} offers what is not queued")

    def _check_allowances(self, live: ProjectState, now: int) -> None:
        policy = live.policy
        for name, agent in live.agents.items():
            multiplier = policy.roles[agent.role].quota_multiplier
            if multiplier is None:
                continue
            caps = (policy.bucket.capacity, policy.quotas.critical.cap, policy.quotas.blocking.cap)
            for level, cap in zip(levels(agent, policy, now), caps, strict=True):
                must(0 <= level <= cap * multiplier + _SLACK, f"an allowance of {name} is {level}, its cap {cap}")
            must(min(agent.tokens, agent.critical_quota, agent.blocking_quota) >= 0, f"{name} owes tokens")

    def check_bound(self, live: ProjectState, now: int) -> None:
        """Check, after a tick that left nothing due, that no message waits longer than aging allows."""
        self.wakes.check_times(live, now)
        self.wakes.check_needed(live, now)
        self.wakes.check_channels(live, now)
        aging = live.policy.aging
        if not aging.enabled:
            return
        late = live.policy.timers.granularity_us
        for message in live.messages.values():
            bound_us = aging.bound_us(message.priority)
            if message.state is State.QUEUED and bound_us is not None:
                age = now - message.enqueued_at - late
                over = age > bound_us
                in_front = message.overdue and message.level >= _top(live)
                must(in_front or not over, f"message {message.seq} waits longer than the aging bound")
                must(message.overdue or message.boosts >= age // aging.threshold_us, f"{message.seq} is owed a boost")

    def check_ended(self, live: ProjectState) -> None:
        """Check, after everybody has caught up, that every message has ended."""
        self.accounts.teamwork_checks.check_ended(live)
        self.wakes.check_ended()
        for seq, fate in self.fate.items():
            open_still = fate in ("held", "queued", "offered") or (fate == "delivered" and self.ack_required[seq])
            must(not open_still or live.messages[seq].recipient not in live.agents, f"message {seq} never ended")
        must(not self.in_line, f"somebody waits in line for ever: {self.in_line}")


def _check_room(event: ev.MessageAccepted, state: ProjectState) -> None:
    content = event if event.broadcast is None else state.broadcasts[event.broadcast]
    size, limits, by_bus = (
        len(content.payload) + len(content.metadata),
        state.policy.limits,
        event.sender == SYSTEM.agent,
    )
    open_now = (State.HELD, State.QUEUED, State.OFFERED, State.DELIVERED)
    unsettled = [
        m for m in state.messages.values() if m.state in open_now and (m.ack_required or m.state != "delivered")
    ]
    for name, most, messages in (
        (event.recipient, limits.mailbox_bytes_max, [m for m in unsettled if m.recipient == event.recipient]),
        (event.sender, limits.sender_bytes_max, [m for m in unsettled if m.sender == event.sender]),
        ("the project", limits.project_bytes_max, unsettled),
    ):
        if by_bus or event.priority >= Priority.CRITICAL:
            most += int(most * limits.critical_bytes_share)
        found = size + sum(len(message.payload) + len(message.metadata) for message in messages)
        must(found <= most or name == SYSTEM.agent, f"{name} has {found} bytes, at most {most} are allowed")


def _check_volume(live: ProjectState) -> None:
    volume, sizes = live.volume, dict.fromkeys(("unsettled", "kept", "dead"), 0)
    by_agent: dict[tuple[str, str], int] = {}
    for message in live.messages.values():
        size = len(message.payload) + len(message.metadata)
        if message.state is State.DEAD:
            sizes["dead"] += size
        elif message.state is State.DELIVERED and not message.ack_required:
            sizes["kept"] += size
        elif message.state in (State.HELD, State.QUEUED, State.OFFERED, State.DELIVERED):
            sizes["unsettled"] += size
            for end in (("to", message.recipient), ("of", message.sender)):
                by_agent[end] = by_agent.get(end, 0) + size
        else:
            must(size == 0, f"message {message.seq} is {message.state} and has kept its content")
    counted = {"unsettled": volume.unsettled, "kept": volume.kept_bytes, "dead": volume.dead}
    must(counted == sizes, f"the bytes of messages are {sizes} and were counted as {counted}")
    counts = {("to", name): size for name, size in volume.by_recipient.items()}
    counts |= {("of", name): size for name, size in volume.by_sender.items()}
    must(counts == by_agent, f"the bytes of agents are {by_agent} and were counted as {counts}")


def _check_dead_letters(state: ProjectState) -> None:
    """Check the limit of dead letters when another one has joined them; a lower limit counts from then on."""
    dead = state.volume.dead
    must(dead <= state.policy.limits.dead_letters_bytes_max or not state.dead, "dead letters have too many bytes")


def _top(state: ProjectState) -> int:
    """Return the level at which aging ends."""
    return ["Info", "Coordinate", "Blocking", "Critical"].index(state.policy.aging.top)


def _order(message: Message, now: int, state: ProjectState) -> tuple[float, ...]:
    """Restate DESIGN's delivery order: level, overdue up to the top of aging, current importance, attempts, age."""
    if message.overdue and message.level <= _top(state):
        return (-message.level, 0, 0, 0, message.seq)
    intervals = (now - message.enqueued_at) / state.policy.decay.interval_us
    importance = message.importance * (1 - message.decay_rate * intervals)
    return (-message.level, 1, -importance, message.attempts, message.seq)

"""The closed loop: consumers react to the offers of the replay, at the time of the offer.

Theory of operation. Steps without an anchor happen at their recorded time. A step with an anchor waits until the anchor
happens in the replay (the offer, the acceptance, the grant, the previous step) and follows after its recorded delay; a
serial step waits until its agent is free and keeps it busy. So a policy that delivers a request earlier also gets the
answer earlier, and one that never delivers it gets no answer. An offer that was not recorded (of a message that was
refused or expired, or an additional offer) is handled as the same consumer handled another message of the type, chosen
by the seed and the message's id. Timers fire when the recorded clock ticked, or with its usual delay. Nothing else is
random, and steps of the same time run in recorded order: the same trace, policy and seed give exactly the same result.
"""

from bisect import bisect_left
from heapq import heappop, heappush
from typing import Any, Final
from zlib import crc32

import msgspec

from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Caller, Command, Reply
from tocsin.core.errors import Problem, error_for
from tocsin.core.events import Event
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.tick import quiet_until
from tocsin.lab.replays.replay import PART_BITS, Ids, PreparedTrace, Replay, begin
from tocsin.lab.traces.anchors import offer_anchor, wake_anchor
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.recorded_envelope import recorded_envelope
from tocsin.lab.traces.trace import RECORDED, ConsumerAction, Poller

__all__ = ["ClosedLoop", "closed_loop"]

_PART: Final = (1 << PART_BITS) - 1
_SERIAL: Final = 1 << PART_BITS
_INDEX_BITS: Final = PART_BITS + 1
#: Bits that the numbers of commands get more of than the recorded steps need, for commands that were not recorded.
_SPARE_BITS: Final = 4
_PUSH: Final = heappush
_POP: Final = heappop
_PROBLEM: Final = Problem
#: Recorded events that can be applied under any policy.
_HARMLESS = (ev.SendRefused, ev.FramesShed, ev.LeaseRefused)
_SENDS: Final = (cmd.Send, cmd.SendRequest, cmd.Publish)
_ADOPT: Final = cmd.AdoptPolicy
_CONFIRM: Final = cmd.Confirm
_DRAIN: Final = cmd.Drain
_REPORT: Final = cmd.ReportWaker
_TICKED: Final = cmd.Ticked
_OFFERED: Final = ev.MessageOffered
_ACCEPTED: Final = ev.MessageAccepted
_DELIVERED: Final = ev.MessageDelivered
_ACKNOWLEDGED: Final = ev.MessageAcknowledged
_HEARTBEAT: Final = ev.SessionHeartbeat
_GRANTED: Final = ev.LeaseGranted
_WAIT_ENDED: Final = ev.LeaseWaitEnded
_WAKE_REQUESTED: Final = ev.AgentWakeRequested
#: Places in a recorded message.
_RECIPIENT: Final = RECORDED.index("recipient")
_OFFERS: Final = RECORDED.index("offers")


def closed_loop(prepared: PreparedTrace, policy: dict[str, Any] | None, seed: int, clock_us: int) -> Replay:
    """Replay a trace under a policy; without one, under the policies in force."""
    return ClosedLoop(prepared, policy, seed, clock_us).run()


class ClosedLoop:
    """The state of one replay."""

    def __init__(self, prepared: PreparedTrace, policy: dict[str, Any] | None, seed: int, clock_us: int) -> None:
        trace = prepared.trace
        self._prepared, self._trace = prepared, trace
        self._policy = policy
        self._seed = seed
        self._clock_us = clock_us
        self._ids = Ids()
        self.exchange, self._tracker = begin(trace, policy, self._ids)
        self._steps = prepared.steps
        #: Examples of how consumers handle messages, by recipient and type; decoded when the first is needed.
        self._examples: dict[tuple[str, str], list[tuple[ConsumerAction, ...]]] | None = None
        #: Time at which each agent is free.
        self._free: dict[str, int] = {}
        #: Cursor of the last drain of each poller's session.
        self._cursors: dict[str, str] = {}
        #: Number of wakes requested, by agent.
        self._wakes: dict[str, int] = {}
        #: Reactions to come, as a heap of numbers: time since the start, number of the command, and in the low bits the
        #: place of the receipt in its step. Numbers because they are compared much faster than tuples, and small ones
        #: because those are faster still: see `_widen`.
        self._heap: list[int] = []
        self._begins_at = trace.begins_at
        #: Width of the lowest part of these, and of the lower two.
        self._part_bits = prepared.anchors_max.bit_length()
        self._bits = len(trace.steps).bit_length() + _SPARE_BITS + self._part_bits
        #: Commands that were not recorded, by number; the numbers before are those of the steps.
        self._unrecorded: dict[int, tuple[Command, Caller]] = {}
        self._recorded = self._scheduled = len(trace.steps)
        self._now = trace.begins_at
        self._checked_at = -1
        self._due: int | None = None
        #: Earliest time at which anything but a timer of a wheel can be due.
        self._quiet_until = 0
        #: Time before which nothing was due when the time after it was computed: no tick can be before that.
        self._floor = self._no_tick_before = 0
        #: Time before which no wheel is due, and whether it has to be computed anew.
        self._wheels_at, self._changed = 0, True
        #: Place of the first recorded tick that is not over.
        self._tick_place = 0
        self._decisions = self._missed = 0
        self._callers: dict[str, Caller] = {}
        self._offers, self._waiting = dict(prepared.offers), dict(prepared.waiting)
        #: Next of the drains of each session that wait for the previous one.
        self._drained: dict[str, int] = {}
        self._pollers = {poller.session: poller for poller in trace.pollers}
        self._callers.update({poller.agent: Caller(poller.agent, poller.role) for poller in trace.pollers})
        for poller in trace.pollers:
            self._poll(poller, poller.first_at)

    def run(self) -> Replay:
        """Run the window."""
        ends_at, heap, clock_us, begins_at = self._trace.ends_at, self._heap, self._clock_us, self._begins_at
        roots, times = self._roots()
        count, place = len(roots), 0
        root, root_at = (roots[0], times[0]) if roots else (-1, ends_at)
        while True:
            at, from_heap = root_at, False
            if heap:
                head, bits = heap[0], self._bits
                head_at = begins_at + (head >> bits)
                if head_at < root_at or (head_at == root_at and self._number(head) < root):
                    at, from_heap = head_at, True
            until = at if at < ends_at else ends_at
            if until >= ends_at:
                if self._check(until):
                    continue
            elif until - self._checked_at >= clock_us:
                if self.may_tick_before(until + clock_us):
                    if self._check(until):
                        continue
                else:
                    self._checked_at, self._due = until, None
            elif self._due is not None and self._tick(until):
                continue
            if at >= ends_at:
                break
            if from_heap:
                self._react()
                continue
            self._step(root, root_at)
            place += 1
            root, root_at = -1, ends_at
            if place < count:
                root, root_at = roots[place], times[place]
        return Replay(
            histories=list(self._tracker.histories.values()),
            refused=self._tracker.refused,
            escalations=self._tracker.escalations,
            deadlocks=self._tracker.deadlocks,
            rate_changes=self._tracker.rate_changes,
            events=self._tracker.events,
            decisions=self._decisions,
            missed=self._missed,
            roles={name: agent.role for name, agent in self.exchange.state.agents.items()},
        )

    def _roots(self) -> tuple[list[int], list[int]]:
        """Return the steps that keep their recorded time, and the times; another policy stays in force throughout."""
        prepared, steps = self._prepared, self._steps
        if self._policy is None or not self._trace.snapshot:
            return prepared.roots, prepared.root_times
        roots = [index for index in prepared.roots if steps[index].ask != "AdoptPolicy"]
        return roots, [steps[index].at for index in roots]

    def _number(self, due: int) -> int:
        """Return the number of the command of a reaction."""
        return (due & ((1 << self._bits) - 1)) >> self._part_bits

    def may_tick_before(self, before: int) -> bool:
        """Tell whether there may be a tick before a time, without asking the exchange for the next due time.

        The later a timer is due, the later is its tick, so the tick of the earliest time that anything can be due is a
        lower bound. It stays one until something can be due earlier, or the bound is reached.
        """
        if not self._quiet_until:
            return True
        if self._changed:
            self._wheels_at, self._changed = self.exchange.state.timers.not_before(), False
        floor = min(self._quiet_until, self._wheels_at)
        if floor >= before:
            return False
        if floor < self._floor or before > self._no_tick_before:
            self._floor = floor
            self._no_tick_before = self._recorded_tick(floor, self._place_of_tick(floor))
            if self._no_tick_before < 0:
                self._no_tick_before = floor + min(self._trace.lag_us, self._trace.lag_max_us)
        return before > self._no_tick_before

    def _check(self, until: int) -> bool:
        """Look up the next due time; run one tick if it is reached, and return whether there was one."""
        self._due, self._checked_at = self.next_due(), until
        return self._tick(until)

    def next_due(self) -> int | None:
        """Return the next due time; without asking the exchange if it is that of a timer of a wheel."""
        exchange, self._changed = self.exchange, True
        due = exchange.state.timers.next_due() if self._quiet_until else None
        if due is None or due >= self._quiet_until:
            due = exchange.next_due()
            self._quiet_until = quiet_until(exchange.state, self._now)
        return due

    def _tick(self, until: int) -> bool:
        """Run one tick if a timer is due; return whether there was one."""
        if self._due is None or self._due > until:
            return False
        at, ids = self._clock(self._due)
        if at > until:
            return False
        self._now = max(self._now, at)
        first = self.exchange.state.seq + 1
        self._ids.load(ids)
        outcome = self.exchange.handle(_TICK, SYSTEM, self._now)
        self._decisions += 1
        self._changed = True
        reply = outcome.reply
        self._due = reply.next_due if type(reply) is _TICKED else None
        if self._due is not None and self._due <= self._now and not outcome.events:
            self._due = self._now + self._clock_us
        self._follow(first, outcome.events)
        return True

    def _clock(self, due: int) -> tuple[int, tuple[str, ...]]:
        """Return the time of the tick for a due timer, and the ids issued in it.

        If no tick was recorded for it, the usual delay of the clock is added.
        """
        prepared = self._prepared
        place = self._place_of_tick(due)
        at = self._recorded_tick(due, place)
        if at < 0:
            return due + self._trace.lag_us, ()
        return at, self._steps[prepared.ticks[place]].ids

    def _place_of_tick(self, due: int) -> int:
        """Return the place of the first recorded tick from now on that is not before a time."""
        times, now, place = self._prepared.tick_times, self._now, self._tick_place
        while place < len(times) and times[place] < now:
            place += 1
        self._tick_place = place
        if place < len(times) and times[place] < due:
            return bisect_left(times, due, place)
        return place

    def _recorded_tick(self, due: int, place: int) -> int:
        """Return the time of a recorded tick if it may have been for a due timer, otherwise -1."""
        times = self._prepared.tick_times
        if place < len(times) and times[place] - due <= self._trace.lag_max_us:
            return times[place]
        return -1

    def _react(self) -> None:
        """Run the next reaction; receipts of one agent at the same time are combined."""
        due: int = _POP(self._heap)
        index, at = self._number(due), self._begins_at + (due >> self._bits)
        if index < self._recorded:
            command = self._prepared.commands[index]
            if type(command) is _CONFIRM:
                command = self._receipts(due, command, self._prepared.callers[index])
            self._step(index, at, command)
            return
        asked, caller = self._unrecorded.pop(index)
        if type(asked) is _CONFIRM:
            self._ask(at, self._receipts(due, asked, caller), caller, ())
        elif isinstance(asked, cmd.Drain | cmd.Heartbeat) and asked.session in self._pollers:
            self._call(self._pollers[asked.session], at, asked, caller)
        else:
            self._ask(at, asked, caller, ())

    def _receipts(self, due: int, command: cmd.Confirm, caller: Caller) -> cmd.Confirm:
        """Return a receipt that was taken from the heap, with those of the same agent that follow at the same time."""
        heap, bits, names = self._heap, self._bits, command.message_ids
        if len(names) > 1:
            names = (names[due & ((1 << self._part_bits) - 1)],)
        elif not heap or heap[0] >> bits != due >> bits:
            return command
        while heap and heap[0] >> bits == due >> bits:
            follower = heap[0]
            index = self._number(follower)
            if index < self._recorded:
                other, its_caller = self._prepared.commands[index], self._prepared.callers[index]
            else:
                other, its_caller = self._unrecorded[index]
            if type(other) is not _CONFIRM or (its_caller is not caller and its_caller != caller):
                break
            more = other.message_ids
            names += (more[follower & ((1 << self._part_bits) - 1)],) if len(more) > 1 else more
            if index >= self._recorded:
                del self._unrecorded[index]
            _POP(heap)
        return cmd.Confirm(names)

    def _step(self, index: int, at: int, command: Command | None = None) -> None:
        """Run a recorded step."""
        prepared = self._prepared
        caller, ids = prepared.callers[index], prepared.ids[index]
        if command is None:
            command = prepared.commands[index]
        if prepared.plain[index]:
            self._ask(at, command, caller, ids)  # type: ignore[arg-type]
            return
        if command is None:
            events = prepared.applied[index]
            if isinstance(events[0], _HARMLESS):
                self._now = max(self._now, at)
                first = self.exchange.state.seq + 1
                self.exchange.replay(events)
                self._changed = True
                self._tracker.follow(first, events)
            return
        if type(command) is _ADOPT and self._policy is not None:
            if self.exchange.state.has_policy:
                return
            command = cmd.AdoptPolicy(self._policy, "lab")
        elif type(command) is _REPORT and (record := self.exchange.state.wakes.get(command.agent)):
            command = msgspec.structs.replace(command, wake=record.wake)  # a wake of the replay has another id
        elif self._steps[index].polls and isinstance(command, cmd.Drain | cmd.Heartbeat):
            command = self._polled(command, caller.agent, at)
        self._ask(at, command, caller, ids)
        if index in prepared.awaited_steps:
            self._trigger(f"s {index}", at)
        if type(recorded := prepared.commands[index]) is _DRAIN:
            self._next_drain(recorded.session, at)

    def _polled(self, recorded: cmd.Drain | cmd.Heartbeat, agent: str, at: int) -> Command:
        """Return a drain for a recorded call that found nothing waiting, or a heartbeat if the agent is busy."""
        if isinstance(recorded, cmd.Heartbeat) and self._free.get(agent, 0) > at:
            return recorded
        limit = self.exchange.state.policy.limits.drain_max
        return cmd.Drain(recorded.session, limit)

    def _call(self, poller: Poller, at: int, command: Command, caller: Caller) -> None:
        """Run a call of a poller: it quotes the cursor of its last drain."""
        cursor = self._cursors.pop(poller.session, "")
        if cursor:
            self._ask(at, cmd.Confirm(receipt=cursor), caller, ())
        reply = self._ask(at, command, caller, ())
        if isinstance(reply, cmd.Drained):
            self._cursors[poller.session] = reply.cursor
        self._poll_again(poller, at)

    def _ask(self, at: int, command: Command, caller: Caller, ids: tuple[str, ...]) -> Reply:
        if at > self._now:
            self._now = at
        exchange = self.exchange
        first = exchange.state.seq + 1
        self._ids.load(ids)
        outcome = exchange.handle(command, caller, self._now)
        self._decisions += 1
        reply, events = outcome.reply, outcome.events
        kind = type(command)
        if kind is _ADOPT:
            self._quiet_until = 0
        if type(reply) is _PROBLEM and kind not in _SENDS:
            if kind is _ADOPT and not exchange.state.has_policy:
                raise error_for(reply)  # Nothing can be decided without a policy.
            self._missed += 1
        if events:
            self._changed = True
            self._follow(first, events)
        return reply

    def _follow(self, first: int, events: list[Event]) -> None:
        """Follow the events of a decision, which all have its time."""
        tracker, awaited, at = self._tracker, self._prepared.awaited_messages, self._now
        tracker.events += len(events)
        seq = first - 1
        for event in events:
            seq += 1
            kind = type(event)
            # The frequent ones first.
            if kind is _DELIVERED:
                tracker.delivered(event.message, at)  # type: ignore[union-attr]
            elif kind is _OFFERED:
                self._offered(event.message, event.offer, at)  # type: ignore[union-attr]
            elif kind is _ACCEPTED:
                message_id = tracker.accepted(seq, event)  # type: ignore[arg-type]
                if message_id in awaited:
                    self._trigger(f"a {message_id}", at)
            elif kind is _ACKNOWLEDGED:
                tracker.acknowledged(event.message, at)  # type: ignore[union-attr]
            elif kind is not _HEARTBEAT:
                tracker.follow_other(event)
                if kind is _GRANTED:
                    self._trigger(f"g {event.lease}", at)  # type: ignore[union-attr]
                elif kind is _WAIT_ENDED:
                    self._trigger(f"x {event.lease}", at)  # type: ignore[union-attr]
                elif kind is _WAKE_REQUESTED:
                    agent = event.agent  # type: ignore[union-attr]
                    number = self._wakes[agent] = self._wakes.get(agent, 0) + 1
                    self._trigger(wake_anchor(agent, number), at)

    def _offered(self, message: int, offer: int, at: int) -> None:
        history = self._tracker.offered(message, offer, at)
        if history is None:
            return
        signal = history.signal
        known = self._prepared.known.get(signal)
        if known is None or offer > known[_OFFERS] or known[_RECIPIENT] != history.recipient:
            self._react_by_example(history, offer, at)
        elif offer == 1:
            waiting = self._offers.get(signal)
            if waiting is not None:
                del self._offers[signal]
                self._schedule_steps(waiting, at)
        else:
            self._trigger(offer_anchor(offer, signal), at)

    def _trigger(self, anchor: str, at: int) -> None:
        """Schedule the steps that wait for an anchor."""
        waiting = self._waiting.pop(anchor, None)
        if waiting is not None:
            self._schedule_steps(waiting, at)

    def _schedule_steps(self, waiting: list[int], at: int) -> None:
        """Schedule steps whose anchor has happened."""
        prepared, free = self._prepared, self._free
        for number in range(0, len(waiting), 2):
            place = waiting[number]
            index, due = place >> _INDEX_BITS, at + waiting[number + 1]
            if place & _SERIAL:
                agent = prepared.callers[index].agent
                begin = free.get(agent)
                if begin is not None and begin > at:
                    due += begin - at
                free[agent] = due
            if prepared.commands[index] is not None:
                self._push(due, index, place & _PART)

    def _push(self, at: int, number: int, part: int) -> None:
        """Add a reaction: the command with a number, or one receipt of it."""
        _PUSH(self._heap, (at - self._begins_at) << self._bits | number << self._part_bits | part)

    def _next_drain(self, session: str, at: int) -> None:
        """Schedule the next drain of a session, after this one or after the work that it brought."""
        waiting, place = self._prepared.drains.get(session, _NONE), self._drained.get(session, 0)
        if place >= len(waiting):
            return
        index = waiting[place]
        self._drained[session] = place + 1
        after, caller = self._steps[index], self._prepared.callers[index]
        begin = max(at, self._free.get(caller.agent, 0)) if after.serial else at
        if self._prepared.commands[index] is not None:
            self._push(begin + after.delay_us[0], index, 0)

    def _poll(self, poller: Poller, at: int) -> None:
        calls = cmd.Drain(poller.session, poller.limit) if poller.limit else cmd.Heartbeat(poller.session)
        self._schedule(at, calls, poller.agent)

    def _poll_again(self, poller: Poller, at: int) -> None:
        """Schedule the next call of a session: a drain when its agent is free, a heartbeat in any case."""
        free = max(at, self._free.get(poller.agent, 0)) if poller.limit else at
        self._poll(poller, free + poller.gap_us)

    def _schedule(self, at: int, command: Command, agent: str) -> None:
        """Schedule a command that was not recorded."""
        caller = self._callers.get(agent)
        if caller is None:
            known = self.exchange.state.agents.get(agent)
            caller = Caller(agent, "primary" if known is None else known.role)
            if known is not None:
                self._callers[agent] = caller
        self._scheduled += 1
        self._unrecorded[self._scheduled] = (command, caller)
        if self._scheduled >> (self._bits - self._part_bits):
            self._widen()
        self._push(at, self._scheduled, 0)

    def _widen(self) -> None:
        """Make room for more numbers of commands in the heap, whose order stays the same."""
        before = self._bits
        self._bits += _SPARE_BITS
        mask = (1 << before) - 1
        self._heap[:] = [due >> before << self._bits | due & mask for due in self._heap]

    def _react_by_example(self, history: MessageHistory, offer: int, offered_at: int) -> None:
        """Schedule the reactions to an offer that was not recorded, from an example of its consumer."""
        recipients = (history.recipient, f"{history.recipient.rpartition('-')[0]}-*", "*")
        kinds = [(recipient, kind) for kind in (history.message_type, "*") for recipient in recipients]
        models = self._examples
        if models is None:
            models = {(model.recipient, model.message_type): model.examples for model in self._trace.consumers}
            self._examples = models
        examples = next((models[kind] for kind in kinds if kind in models), None)
        if not examples:
            return
        chosen = examples[crc32(f"{self._seed} {history.signal} {offer}".encode()) % len(examples)]
        worked = offered_at
        for number, action in enumerate(chosen):
            at = worked if action.ask == "Send" else offered_at
            if action.serial:
                at = max(at, self._free.get(history.recipient, 0))
                self._free[history.recipient] = at + action.delay_us
            at += action.delay_us
            if action.ask != "Confirm":
                worked = max(worked, at)
            self._schedule(at, _command_of_action(action, history, at, number), history.recipient)


def _command_of_action(action: ConsumerAction, history: MessageHistory, at: int, number: int) -> Command:
    """Return the command of one action on a message."""
    match action.ask:
        case "Confirm":
            return cmd.Confirm((history.signal,))
        case "Acknowledge":
            return cmd.Acknowledge(history.signal, **action.body)
        case "Reject":
            return cmd.Reject(history.signal, **action.body)
        case "MarkProcessed":
            return cmd.MarkProcessed(history.signal)
    message_id = f"{history.signal.replace(':', '_')}_{number}"
    thread = history.signal.partition(":")[0]
    envelope = recorded_envelope(
        message_id,
        history.recipient,
        "AdHoc",
        history.sender,
        "*",
        action.message_type,
        VERSIONS[-1],
        at,
        correlation_id=thread,
        **action.body,
    )
    return cmd.Send(envelope)


_TICK: Final = cmd.Tick()
_NONE: Final[list[int]] = []

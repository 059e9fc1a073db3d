"""Causes and delays of steps, for the closed loop.

Theory of operation. The delay of an agent's action on a message (receipt, ACK, NACK, answer) counts from the offer of
the message. Where the ACK timeout passed after an offer, the agent had the message already and went on working: its
work counts from that offer, not from the repeated one, so that a longer timeout can be tried. Work is *serial* if the
agent did one thing after another: its service time then counts from the offer or from the end of the previous work,
whichever is later, so that a queue at the agent itself is modelled and not copied. A message that was overtaken (a
later one was finished before it) was handled in parallel: its delay counts from its offer. An answer is a send in the
thread of a message that its sender had been offered; it counts from the last work on that message, or from the offer. A
drain counts from the previous drain of its session, or from the end of the work that the previous drain brought, if all
of that was finished by then. The session that a woken agent opens, and the end of its waker, count from the request of
the wake. All other steps have no cause in the bus and keep their time.
"""

from bisect import bisect_right
from itertools import pairwise

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.state import ProjectState
from tocsin.lab.traces.anchors import offer_anchor, wake_anchor
from tocsin.lab.traces.trace import ConsumerAction, ConsumerModel, Step

__all__ = ["CauseFinder"]

_WORK = frozenset({"Acknowledge", "Reject", "MarkProcessed", "BeginWork"})
_SENDS = frozenset({"Send", "SendRequest"})


class _Offer:
    """The last offer of a message in this window, and the actions on it."""

    __slots__ = (
        "actions", "at", "begun", "done_step", "message_type", "number", "order", "recipient", "signal", "timed_out",
    )  # fmt: skip

    def __init__(self, message: Message, number: int, at: int, order: int) -> None:
        self.signal = signal_id(message)
        self.number = number
        self.at = at
        self.order = order
        self.recipient = message.recipient
        self.message_type = message.type
        self.actions: list[ConsumerAction] = []
        #: Number and time of the last step that worked on it; -1 for none.
        self.done_step: tuple[int, int] = (-1, 0)
        #: The offer with which the work on the message began.
        self.begun = self
        #: Whether the ACK timeout has passed since.
        self.timed_out = False


class _Worker:
    """The serial work of one agent."""

    __slots__ = ("done_at", "last_order", "orders", "times")

    def __init__(self) -> None:
        self.done_at = 0
        #: The latest offer that the agent worked on.
        self.last_order = -1
        #: Serial work in order: the offers, and the times at which the work was finished.
        self.orders: list[int] = []
        self.times: list[int] = []


class CauseFinder:
    """Finds the anchors of the steps of one window."""

    def __init__(self, think_max_us: int, examples_max: int) -> None:
        self._think_max_us = think_max_us
        self._examples_max = examples_max
        self._offers: dict[int, _Offer] = {}
        self._order = 0
        self._workers: dict[str, _Worker] = {}
        #: The message that was last offered to an agent in a thread.
        self._threads: dict[tuple[str, str], int] = {}
        self._accepted: dict[str, int] = {}
        self._granted: dict[str, int] = {}
        #: Drains by session: the step, and the number of offers made by then.
        self._drains: dict[str, list[tuple[Step, int]]] = {}
        self._closed: list[_Offer] = []
        #: Requests of wakes by agent: their number, and the time of the last; and whether it has been answered.
        self._wakes: dict[str, tuple[int, int]] = {}
        self._waking: set[str] = set()

    def event(self, state: ProjectState, event: Event) -> None:
        """Record possible causes; the state is the one after the event."""
        if type(event) is ev.MessageOffered:
            message = state.message(event.message)
            self._order += 1
            before = self._offers.get(message.seq)
            self._offers[message.seq] = offer = _Offer(message, event.offer, event.at, self._order)
            if before is not None:
                self._closed.append(before)
                if before.timed_out and before.done_step[0] < 0:
                    offer.begun = before.begun
            if message.correlation_id is not None:
                self._threads[message.recipient, message.correlation_id] = message.seq
        elif type(event) is ev.MessageRequeued:
            if event.cause == "ack_timeout" and event.message in self._offers:
                self._offers[event.message].timed_out = True
        elif type(event) is ev.MessageAccepted:
            self._accepted[event.message_id] = event.at
        elif type(event) is ev.LeaseGranted:
            self._granted[event.lease] = event.at
        elif type(event) is ev.AgentWakeRequested:
            self._wakes[event.agent] = (self._wakes.get(event.agent, (0, 0))[0] + 1, event.at)
            self._waking.add(event.agent)
        elif type(event) is ev.AgentWoken or type(event) is ev.AgentWakeFailed:
            self._waking.discard(event.agent)

    def step(self, index: int, step: Step, state: ProjectState) -> None:
        """Set the anchor of a step; the state is the one before it."""
        ask = step.ask
        if ask == "Confirm":
            self._confirm(step, state)
        elif ask in _WORK:
            self._work(index, step, state.copy_for(step.agent, step.body["message_id"]))
        elif ask == "FinishWork":
            attention = state.attention.get(step.agent)
            work = None if attention is None else attention.work
            self._work(index, step, None if work is None else state.messages.get(work.message))
        elif ask in _SENDS and step.envelope is not None and step.envelope.correlation_id is not None:
            self._answer(step, self._threads.get((step.agent, step.envelope.correlation_id)))
        elif ask in ("Recall", "CancelRequest"):
            name = str(step.body.get("message_id") or step.body.get("request")).partition(":")[0]
            self._since(step, f"a {name}", self._accepted.get(name))
        elif ask in ("ReleaseLease", "RenewLease") and step.body.get("lease"):
            self._since(step, f"g {step.body['lease']}", self._granted.get(step.body["lease"]))
        elif ask == "OpenSession" and step.agent in self._waking:
            self._waking.discard(step.agent)
            self._after_wake(step, step.agent)
        elif ask == "ReportWaker":
            self._after_wake(step, step.body["agent"])
        elif ask == "Drain":
            self._drains.setdefault(step.body["session"], []).append((step, self._order))

    def _after_wake(self, step: Step, agent: str) -> None:
        if agent in self._wakes:
            number, at = self._wakes[agent]
            self._since(step, wake_anchor(agent, number), at)

    def _since(self, step: Step, anchor: str, at: int | None) -> None:
        if at is not None:
            step.after, step.delay_us = (anchor,), (step.at - at,)

    def _confirm(self, step: Step, state: ProjectState) -> None:
        after: list[str] = []
        delays: list[int] = []
        for name in step.body["message_ids"]:
            message = state.copy_for(step.agent, name)
            offer = None if message is None else self._offers.get(message.seq)
            if offer is None:
                return
            after.append(offer_anchor(offer.number, name))
            delays.append(step.at - offer.at)
            offer.actions.append(ConsumerAction("Confirm", {}, step.at - offer.at))
        step.after, step.delay_us = tuple(after), tuple(delays)

    def _work(self, index: int, step: Step, message: Message | None) -> None:
        offer = None if message is None else self._offers.get(message.seq)
        if offer is None or message is None:
            return
        worker, begun = self._workers.setdefault(step.agent, _Worker()), offer.begun
        anchor, since = offer_anchor(begun.number, signal_id(message)), begun.at
        if offer.done_step[0] >= 0:
            anchor, since = f"s {offer.done_step[0]}", offer.done_step[1]
        step.serial = begun.order >= worker.last_order and offer.done_step[0] < 0
        worker.last_order = max(worker.last_order, begun.order)
        begin = max(since, worker.done_at) if step.serial else since
        step.after, step.delay_us = (anchor,), (step.at - begin,)
        if step.serial:
            worker.done_at = step.at
            worker.orders.append(begun.order)
            worker.times.append(step.at)
        body = {name: value for name, value in step.body.items() if name != "message_id"}
        if step.ask in ("Acknowledge", "Reject", "MarkProcessed"):
            begun.actions.append(ConsumerAction(step.ask, body, step.at - begin, step.serial))
        offer.done_step = (index, step.at)

    def _answer(self, step: Step, seq: int | None) -> None:
        offer = None if seq is None else self._offers.get(seq)
        if offer is None or step.at - offer.at > self._think_max_us:
            return
        worked, at = offer.done_step
        anchor = f"s {worked}" if worked >= 0 else offer_anchor(offer.number, offer.signal)
        step.after, step.delay_us = (anchor,), (step.at - (at if worked >= 0 else offer.at),)

    def finish(self) -> list[ConsumerModel]:
        """Set the anchors of drains, and return the consumer models."""
        for session, drains in self._drains.items():
            for (before, order), (step, _) in pairwise(drains):
                self._after_drain(session, before, order, step)
        return self._consumer_models()

    def _after_drain(self, session: str, before: Step, order: int, step: Step) -> None:
        """Set the anchor of a drain: the work that the previous drain brought if it is finished, else that drain."""
        step.after, step.delay_us = (f"d {session}",), (step.at - before.at,)
        worker = self._workers.get(step.agent)
        taken = order + before.body["limit"]
        last = -1 if worker is None else bisect_right(worker.orders, taken) - 1
        if worker is not None and last >= 0 and before.at < worker.times[last] <= step.at:
            step.serial, step.delay_us = True, (step.at - worker.times[last],)

    def _consumer_models(self) -> list[ConsumerModel]:
        pools: dict[tuple[str, str], list[tuple[ConsumerAction, ...]]] = {}
        for offer in (*self._closed, *self._offers.values()):
            for key in (
                (offer.recipient, offer.message_type),
                ("*", offer.message_type),
                (offer.recipient, "*"),
                ("*", "*"),
            ):
                pool = pools.setdefault(key, [])
                if len(pool) < self._examples_max:
                    pool.append(tuple(offer.actions))
        return [ConsumerModel(recipient, kind, examples) for (recipient, kind), examples in sorted(pools.items())]

"""The frame bus: its subscriptions, their order, and the publish loop.

A port decides what happens when its channel fills, `shedding` chooses which subscribers lose a frame, and the observer
handles health and reports. Frames are never copied or inspected: every subscriber gets the same object.

Theory of operation. Publishing and changing the set of subscribers happen under one lock, held for a pass that never
waits, so all subscribers see the frames in the same order. The ports are one tuple, sorted when a subscriber joins or
leaves. Waiting for a full channel comes after the pass and without the lock, and all waits of a publish start at the
same time: a publish waits no longer than the longest timeout among its subscribers.
"""

import logging
import threading
import time
from collections.abc import Callable
from operator import attrgetter
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from tocsin.frames.channel import Channel
from tocsin.frames.errors import (
    BusClosedError,
    DuplicateSubscriberError,
    TooManySubscribersError,
    UnknownSubscriberError,
)
from tocsin.frames.events import BusStats, FrameBusEvent
from tocsin.frames.foreign import QueueLike
from tocsin.frames.health import Health
from tocsin.frames.observer import Observer
from tocsin.frames.policy import FramesPolicy, OnFull, Priority
from tocsin.frames.port import F, Port
from tocsin.frames.shedding import Shortage, serve_under_pressure
from tocsin.frames.subscribing import Request, calm_mark, open_subscription
from tocsin.frames.subscription import SubscriberStats, Subscription
from tocsin.frames.waiting import LoopWaiter, ThreadWaiter, Waiter, running_loop

logger = logging.getLogger("tocsin.frames")

C = TypeVar("C", bound="Channel[Any] | QueueLike[Any]")


class FrameBus(Generic[F]):
    """Delivers every frame to every subscriber that can take it; all methods may be called from any thread."""

    def __init__(self, policy: FramesPolicy | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy or FramesPolicy()
        self._clock = clock
        self._lock = threading.RLock()
        self._subscriptions: dict[str, Subscription[F]] = {}
        self._ports: tuple[Port[F], ...] = ()
        self._lowest = Priority.CRITICAL
        self._published = 0
        self._observer = Observer(self._policy, clock())
        self._closed = False

    def __enter__(self) -> "FrameBus[F]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @overload
    def subscribe(
        self,
        id: str,
        channel: None = None,
        priority: Priority = Priority.NORMAL,
        *,
        on_full: OnFull = OnFull.DROP_NEWEST,
        timeout_s: float | None = None,
        capacity: int | None = None,
    ) -> Channel[F]: ...

    @overload
    def subscribe(
        self,
        id: str,
        channel: C,
        priority: Priority = Priority.NORMAL,
        *,
        on_full: OnFull = OnFull.DROP_NEWEST,
        timeout_s: float | None = None,
        capacity: int | None = None,
    ) -> C: ...

    def subscribe(
        self,
        id: str,  # noqa: A002 - the name in the interface
        channel: object = None,
        priority: Priority = Priority.NORMAL,
        *,
        on_full: OnFull = OnFull.DROP_NEWEST,
        timeout_s: float | None = None,
        capacity: int | None = None,
    ) -> object:
        """Add a subscriber and return its channel, which the bus creates if the caller passes none.

        `timeout_s` is how long a publisher waits for it, if it is critical or uses `OnFull.BLOCK`. `capacity` is the
        size of a channel that the bus creates, or of a passed one that has no `maxsize`.
        """
        request = Request(
            id=id, channel=channel, priority=priority, on_full=on_full, timeout_s=timeout_s, capacity=capacity
        )
        with self._lock:
            self._require_open()
            if id in self._subscriptions:
                raise DuplicateSubscriberError(id)
            if len(self._subscriptions) >= self._policy.channel.subscribers_max:
                raise TooManySubscribersError(id, self._policy.channel.subscribers_max)
            subscription = open_subscription(request, self._policy, self._published)
            subscription.port.attach(subscription, calm_mark(subscription, self._lowest, self._policy))
            self._subscriptions[id] = subscription
            self._sort()
        return subscription.port if channel is None else channel

    def unsubscribe(self, id: str) -> SubscriberStats:  # noqa: A002
        """Remove a subscriber and return its final statistics; no frame enters its channel afterwards."""
        with self._lock:
            self._require_open()
            return self._leave(self._find(id))

    def publish(self, frame: F, *, timeout_s: float | None = None) -> None:
        """Publish a frame to all; wait only for full critical or blocking subscribers, at most `timeout_s` in all."""
        shortage = self._serve(frame, ThreadWaiter)
        if shortage is None:
            return
        began = time.monotonic()
        here = running_loop()
        for subscription, ticket in shortage.late:
            wait_s = subscription.wait_s if timeout_s is None else min(subscription.wait_s, timeout_s)
            if here is not None and subscription.port.loop is here:
                wait_s = 0.0  # its reader cannot run while this thread waits: see publish_async
            in_time = ticket.wait(max(0.0, began + wait_s - time.monotonic()))
            shortage.note(subscription, in_time)
        self._settle(frame, shortage)

    async def publish_async(self, frame: F, *, timeout_s: float | None = None) -> None:
        """Publish a frame to all, as `publish` does, without blocking the running loop."""
        shortage = self._serve(frame, LoopWaiter)
        if shortage is None:
            return
        began = time.monotonic()
        late = iter(shortage.late)
        try:
            for subscription, ticket in late:
                wait_s = subscription.wait_s if timeout_s is None else min(subscription.wait_s, timeout_s)
                in_time = False
                try:
                    in_time = await ticket.wait_async(max(0.0, began + wait_s - time.monotonic()))
                finally:
                    shortage.note(subscription, in_time)
        finally:
            for subscription, ticket in late:  # cancelled: give up the remaining waits
                shortage.note(subscription, ticket.wait(0.0))
            self._settle(frame, shortage)

    def stats(self) -> BusStats:
        """Return the statistics of all subscribers."""
        with self._lock:
            ordered = [port.subscription for port in self._ports if port.subscription is not None]
            return BusStats(
                published=self._published,
                subscribers={each.id: each.stats(self._published) for each in ordered},
                priorities=self._observer.tallies(self._published, ordered),
            )

    def health(self, id: str) -> Health:  # noqa: A002
        """Return the health of a subscriber."""
        with self._lock:
            subscription = self._find(id)
            self._look()
            self._observer.judge(self._clock(), self._published, subscription)
            return subscription.health

    def unhealthy_subscribers(self) -> list[str]:
        """Return the ids of subscribers that are degraded or saturated, most important first."""
        with self._lock:
            ordered = [port.subscription.id for port in self._ports if port.subscription is not None]
            return [subscriber for subscriber in ordered if self.health(subscriber) is not Health.HEALTHY]

    def watch(self, capacity: int | None = None) -> Channel[FrameBusEvent]:
        """Return a channel of the bus's events: alarms, changes of health, reports."""
        with self._lock:
            self._require_open()
            return self._observer.watch(capacity)

    def tick(self) -> None:
        """Run what is due. Publishing does this too: a timer is needed only if publishing may pause."""
        with self._lock:
            self._look()

    def close(self) -> None:
        """Publish a last report and remove all subscribers; closing twice is harmless."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            now = self._clock()
            self._observer.look(now, self._published, self._subscriptions.values())
            self._observer.report(now, self._published, self._subscriptions.values())
            for subscription in list(self._subscriptions.values()):
                self._leave(subscription)
            self._observer.close()

    def _serve(self, frame: F, new_waiter: Callable[[], Waiter]) -> Shortage[F] | None:
        """Offer a frame to the ports once, without waiting; return what is left to settle, if anything."""
        with self._lock:
            if self._closed:
                raise BusClosedError
            now = self._clock()
            if now >= self._observer.due:
                self._observer.look(now, self._published, self._subscriptions.values())
            self._published += 1
            rest = iter(self._ports)
            for port in rest:
                frames = port.frames
                if len(frames) < port.calm:
                    frames.append(frame)
                    if port.readers:
                        port.wake()
                else:
                    return serve_under_pressure(frame, port, rest, now, new_waiter)
        return None

    def _settle(self, frame: F, shortage: Shortage[F]) -> None:
        """Count the frames that were late or lost, and remove subscribers whose channel is closed."""
        if not (shortage.in_time or shortage.missed or shortage.alarming or shortage.closed):
            return
        alarmed: list[Subscription[F]] = []
        with self._lock:
            now = self._clock()
            for subscription in shortage.in_time:
                subscription.accept()
            for subscription in shortage.missed:
                if self._subscriptions.get(subscription.id) is subscription:
                    shortage.drop(subscription, frame, now)
            for subscription in shortage.alarming:
                if self._observer.alarm_first(now, subscription):
                    alarmed.append(subscription)
            gone = [each for each in shortage.closed if self._subscriptions.get(each.id) is each]
            for subscription in gone:
                self._leave(subscription)
                self._observer.report_lost(now, subscription)
        for subscription in alarmed:  # without the lock, because a log handler may publish here itself
            logger.error(
                "critical subscriber %r loses frames: %d so far", subscription.id, subscription.critical_dropped
            )
        for subscription in gone:
            logger.warning("subscriber %r is gone: %s", subscription.id, subscription.port.failure)

    def _leave(self, subscription: Subscription[F]) -> SubscriberStats:
        for _ in range(subscription.port.detach()):
            subscription.lose()
        if not subscription.keeps_channel:
            subscription.port.close()
        self._observer.remember(subscription, self._published)
        del self._subscriptions[subscription.id]
        self._sort()
        return subscription.stats(self._published)

    def _sort(self) -> None:
        in_order = sorted(self._subscriptions.values(), key=attrgetter("priority"))
        self._ports = tuple(subscription.port for subscription in in_order)
        lowest = in_order[-1].priority if in_order else Priority.CRITICAL
        if lowest is not self._lowest:  # the fill up to which a channel is calm depends on it
            self._lowest = lowest
            for subscription in in_order:
                subscription.port.attach(subscription, calm_mark(subscription, lowest, self._policy))

    def _look(self) -> None:
        now = self._clock()
        if now >= self._observer.due:
            self._observer.look(now, self._published, self._subscriptions.values())

    def _find(self, id: str) -> Subscription[F]:  # noqa: A002
        try:
            return self._subscriptions[id]
        except KeyError:
            raise UnknownSubscriberError(id) from None

    def _require_open(self) -> None:
        if self._closed:
            raise BusClosedError

"""Load shedding: the choice of the subscribers that lose a frame under load.

Theory of operation. Ports come in order of priority. As long as channels are calm (filled less than the lowest
threshold) the publish loop serves them without further checks; from the first one that is not, this pass takes over,
for that port and all after it. It carries one number along, the *pressure*: the fill of the fullest channel of any more
important level. A subscriber whose threshold the pressure reaches is shed. So one pass, without sorting and without
looking back, sheds the less important first; equals never shed each other; and a channel that is merely full affects
only itself and those below it.

Two kinds exert no pressure: subscribers with `OnFull.DROP_OLDEST`, unless critical (a full channel is normal for them),
and those that have stalled (see `Subscription.stalled`).
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic

from tocsin.frames.port import F, Port, Ticket
from tocsin.frames.subscription import Subscription
from tocsin.frames.waiting import Waiter


class Shortage(Generic[F]):
    """Subscribers that a pass could not serve at once."""

    __slots__ = ("alarming", "closed", "in_time", "late", "missed")

    def __init__(self) -> None:
        #: Subscribers whose channel is full, with the frame waiting for room.
        self.late: list[tuple[Subscription[F], Ticket]] = []
        #: Late subscribers that got the frame in time.
        self.in_time: list[Subscription[F]] = []
        #: Late subscribers that did not get it.
        self.missed: list[Subscription[F]] = []
        #: Critical subscribers that lost a frame.
        self.alarming: list[Subscription[F]] = []
        #: Subscribers whose channel was found closed.
        self.closed: list[Subscription[F]] = []

    def note(self, subscription: Subscription[F], in_time: bool) -> None:
        """Record the result of the wait for a late subscriber."""
        (self.in_time if in_time else self.missed).append(subscription)

    def drop(self, subscription: Subscription[F], frame: F, now: float) -> None:
        """Drop the newest or the oldest frame of a full channel, as the subscription requires."""
        if subscription.evicts and subscription.port.evict():
            subscription.lose()
        if subscription.evicts and subscription.port.offer(frame):
            subscription.accept()
        else:
            subscription.refuse(now)
        if subscription.critical_dropped > subscription.alarmed:
            self.alarming.append(subscription)
        if subscription.port.closed:  # it broke or was closed meanwhile
            self.closed.append(subscription)


def serve_under_pressure(
    frame: F, first: Port[F], rest: Iterator[Port[F]], now: float, new_waiter: Callable[[], Waiter]
) -> Shortage[F]:
    """Offer a frame to a port that is not calm, and to all after it."""
    shortage: Shortage[F] = Shortage()
    level = -1
    pressure = peers = 0.0
    for port in chain((first,), rest):
        subscription = port.subscription
        if subscription is None:  # it left during this publish
            continue
        if port.closed:
            shortage.closed.append(subscription)
            continue
        if subscription.priority != level:
            level = subscription.priority
            pressure = max(pressure, peers)
        stalled = subscription.refused_since is not None and subscription.stalled(now)
        if subscription.exerts_pressure and not stalled:
            fill = port.depth() / port.capacity
            if fill > peers:
                peers = fill
        if pressure >= subscription.shed_from:
            subscription.count_shed()
        elif port.offer(frame):
            subscription.accept()
        elif subscription.wait_s > 0 and not stalled:
            shortage.late.append((subscription, port.park(frame, new_waiter())))
        else:
            shortage.drop(subscription, frame, now)
    return shortage

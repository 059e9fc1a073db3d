import asyncio
import multiprocessing
import queue

import pytest

from tests.frames.tools import drain
from tocsin.frames import Channel, ChannelPolicy, FrameBus, FramesPolicy, OnFull, Priority
from tocsin.frames.errors import (
    BusClosedError,
    ChannelClosedError,
    DuplicateSubscriberError,
    InvalidSubscriberError,
    TooManySubscribersError,
    UnfitChannelError,
    UnknownSubscriberError,
)


def test_the_bus_makes_a_channel_where_none_is_brought(bus: FrameBus[int]) -> None:
    assert bus.subscribe("by default").capacity == FramesPolicy().channel.capacity
    assert bus.subscribe("by wish", capacity=3).capacity == 3


def test_a_brought_channel_is_used_as_it_is(bus: FrameBus[int]) -> None:
    channel: Channel[int] = Channel(2)
    assert bus.subscribe("worker", channel) is channel
    bus.publish(7)
    assert drain(channel) == [7]


def test_a_duplicate_id_is_refused_and_changes_nothing(bus: FrameBus[int]) -> None:
    first = bus.subscribe("worker")
    with pytest.raises(DuplicateSubscriberError, match="'worker'"):
        bus.subscribe("worker")
    bus.publish(1)
    assert drain(first) == [1]


@pytest.mark.parametrize("empty", ["", " ", "\t"])
def test_an_empty_id_is_refused(bus: FrameBus[int], empty: str) -> None:
    with pytest.raises(InvalidSubscriberError, match="not blank"):
        bus.subscribe(empty)


def test_what_is_no_priority_is_refused(bus: FrameBus[int]) -> None:
    with pytest.raises(InvalidSubscriberError, match="priority"):
        bus.subscribe("worker", priority=4)  # type: ignore[call-overload]


def test_a_closed_channel_is_refused(bus: FrameBus[int]) -> None:
    channel: Channel[int] = Channel(1)
    channel.close()
    with pytest.raises(UnfitChannelError, match="closed"):
        bus.subscribe("worker", channel)
    processes: multiprocessing.Queue[int] = multiprocessing.Queue(1)
    processes.close()
    with pytest.raises(UnfitChannelError, match="closed"):
        bus.subscribe("worker", processes)


def test_a_channel_serves_one_subscriber_at_a_time(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("first", Channel[int](1))
    with pytest.raises(UnfitChannelError, match="'first'"):
        bus.subscribe("second", channel)
    bus.unsubscribe("first")
    bus.subscribe("second", channel)


def test_a_channel_can_move_to_another_bus(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker", Channel[int](4))
    bus.unsubscribe("worker")
    with FrameBus[int]() as other:
        other.subscribe("worker", channel)
        bus.publish(1)
        other.publish(2)
    assert drain(channel) == [2]


def test_an_unbounded_or_unmeasured_or_strange_channel_is_refused(bus: FrameBus[int]) -> None:
    class Line:
        def put_nowait(self, frame: int) -> None: ...

        def qsize(self) -> int:
            return 0

    with pytest.raises(UnfitChannelError, match="any number"):
        bus.subscribe("worker", queue.Queue())
    with pytest.raises(UnfitChannelError, match="65536"):
        bus.subscribe("worker", Channel[int](65_537))
    with pytest.raises(UnfitChannelError, match="pass capacity"):
        bus.subscribe("worker", Line())
    with pytest.raises(UnfitChannelError, match="put_nowait"):
        bus.subscribe("worker", [])  # type: ignore[call-overload]
    with pytest.raises(UnfitChannelError, match="get_nowait"):
        bus.subscribe("worker", Line(), capacity=1, on_full=OnFull.DROP_OLDEST)
    with pytest.raises(UnfitChannelError, match="put\\(\\)"):
        bus.subscribe("worker", Line(), Priority.CRITICAL, capacity=1)
    with pytest.raises(UnfitChannelError, match="on the loop"):
        bus.subscribe("worker", asyncio.Queue[int](1))
    assert bus.stats().subscribers == {}


def test_a_timeout_is_for_those_who_are_waited_for(bus: FrameBus[int]) -> None:
    with pytest.raises(InvalidSubscriberError, match="critical"):
        bus.subscribe("worker", timeout_s=1)
    for timeout_s in (-1, 61):
        with pytest.raises(InvalidSubscriberError, match="from 0 to 60"):
            bus.subscribe("worker", priority=Priority.CRITICAL, timeout_s=timeout_s)


def test_the_number_of_subscribers_is_limited() -> None:
    with FrameBus[int](FramesPolicy(channel=ChannelPolicy(subscribers_max=1))) as bus:
        bus.subscribe("first")
        with pytest.raises(TooManySubscribersError, match="1 subscribers"):
            bus.subscribe("second")
        bus.unsubscribe("first")
        bus.subscribe("second")


def test_someone_who_left_gets_nothing_more_and_their_account(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker", Channel[int](1))
    bus.publish(1)
    bus.publish(2)
    account = bus.unsubscribe("worker")
    assert (account.sent, account.dropped) == (1, 1)
    bus.publish(3)
    assert drain(channel) == [1]
    with pytest.raises(UnknownSubscriberError, match="'worker'"):
        bus.unsubscribe("worker")
    with pytest.raises(UnknownSubscriberError):
        bus.health("worker")


def test_a_channel_that_the_bus_made_ends_with_the_subscription_a_brought_one_does_not(bus: FrameBus[int]) -> None:
    made = bus.subscribe("made")
    brought = bus.subscribe("brought", Channel[int](4))
    bus.publish(1)
    bus.unsubscribe("made")
    bus.unsubscribe("brought")
    assert list(made) == [1]
    assert not brought.closed


async def test_a_closed_bus_says_so(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker")
    bus.close()
    bus.close()
    for call in (lambda: bus.publish(1), lambda: bus.subscribe("x"), lambda: bus.unsubscribe("worker"), bus.watch):
        with pytest.raises(BusClosedError):
            call()
    with pytest.raises(BusClosedError):
        await bus.publish_async(1)
    with pytest.raises(ChannelClosedError):
        channel.get_nowait()


def test_a_subscriber_who_joins_late_is_not_charged_for_what_came_before(bus: FrameBus[int]) -> None:
    bus.publish(1)
    bus.subscribe("worker")
    bus.publish(2)
    account = bus.stats().subscribers["worker"]
    assert (account.sent, account.dropped) == (1, 0)

import asyncio
import multiprocessing
import queue
from typing import Any

import pytest

from tests.frames.tools import PATIENCE_S, Clock, running
from tocsin.frames import FrameBus, FramesPolicy, OnFull, Priority, SubscriberLost


def taken(brought: Any) -> list[int]:
    return [brought.get_nowait() for _ in range(brought.qsize())]


def publish_all(bus: FrameBus[int], frames: range) -> None:
    for frame in frames:
        bus.publish(frame)


def test_a_thread_queue_is_a_channel(bus: FrameBus[int]) -> None:
    brought = bus.subscribe("worker", queue.Queue[int](2))
    for frame in range(3):
        bus.publish(frame)
    account = bus.stats().subscribers["worker"]
    assert (account.sent, account.dropped, account.depth, account.capacity) == (2, 1, 2, 2)
    assert taken(brought) == [0, 1]


def test_a_thread_queue_can_keep_the_latest(bus: FrameBus[int]) -> None:
    brought = bus.subscribe("worker", queue.Queue[int](2), on_full=OnFull.DROP_OLDEST)
    for frame in range(5):
        bus.publish(frame)
    assert taken(brought) == [3, 4]
    assert bus.stats().subscribers["worker"].dropped == 3


def test_a_filling_queue_sheds_the_less_important(bus: FrameBus[int]) -> None:
    bus.subscribe("critical", queue.Queue[int](4), Priority.CRITICAL)
    below = bus.subscribe("below", queue.Queue[int](64), Priority.BEST_EFFORT)
    for frame in range(4):
        bus.publish(frame)
    assert taken(below) == [0]


def test_a_critical_queue_is_waited_for(bus: FrameBus[int]) -> None:
    class Told(queue.Queue[int]):
        def put(self, item: int, block: bool = True, timeout: float | None = None) -> None:
            if block:
                waits.put(True)
            super().put(item, block, timeout)

    waits: queue.Queue[bool] = queue.Queue()
    brought = bus.subscribe("critical", Told(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    bus.publish(1)
    with running(lambda: bus.publish(2)):
        waits.get(timeout=PATIENCE_S)
        assert brought.get() == 1
    assert taken(brought) == [2]
    bus.publish(3)
    bus.publish(4, timeout_s=0)
    assert bus.stats().subscribers["critical"].critical_dropped == 1


async def test_a_critical_queue_is_waited_for_without_holding_the_loop_up(bus: FrameBus[int]) -> None:
    brought = bus.subscribe("critical", queue.Queue[int](1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    bus.publish(1)
    publishing = asyncio.create_task(bus.publish_async(2))
    while bus.stats().published < 2:
        await asyncio.sleep(0)
    assert brought.get_nowait() == 1
    await publishing
    assert taken(brought) == [2]


async def test_an_asyncio_queue_is_a_channel_on_its_loop(bus: FrameBus[int]) -> None:
    brought = bus.subscribe("worker", asyncio.Queue[int](2))
    latest = bus.subscribe("latest", asyncio.Queue[int](1), on_full=OnFull.DROP_OLDEST)
    for frame in range(3):
        bus.publish(frame)
    assert taken(brought) == [0, 1]
    assert taken(latest) == [2]


async def test_an_asyncio_queue_is_fed_from_other_threads_within_its_bound(bus: FrameBus[int]) -> None:
    brought = bus.subscribe("worker", asyncio.Queue[int](2))
    with running(lambda: publish_all(bus, range(3))):
        pass  # the loop stands still meanwhile
    assert bus.stats().subscribers["worker"].dropped == 1
    assert [await brought.get(), await brought.get()] == [0, 1]
    bus.publish(3)
    assert await brought.get() == 3


async def test_a_critical_asyncio_queue_is_waited_for_from_its_loop_and_from_others(bus: FrameBus[int]) -> None:
    brought = bus.subscribe("critical", asyncio.Queue[int](1), Priority.CRITICAL, timeout_s=PATIENCE_S)

    async def read() -> list[int]:
        return [await brought.get() for _ in range(9)]

    async def publish(frames: range) -> None:
        for frame in frames:
            await bus.publish_async(frame)

    reading = asyncio.create_task(read())
    await publish(range(3))
    await asyncio.to_thread(publish_all, bus, range(3, 6))
    await asyncio.to_thread(lambda: asyncio.run(publish(range(6, 9))))
    assert await reading == list(range(9))
    bus.publish(9)
    bus.publish(10)  # on the loop that reads: there is no waiting for it
    await bus.publish_async(11, timeout_s=0)
    assert bus.stats().subscribers["critical"].critical_dropped == 2


def test_an_asyncio_queue_whose_loop_is_gone_ends_its_subscription(bus: FrameBus[int]) -> None:
    async def subscribe() -> None:
        bus.subscribe("worker", asyncio.Queue[int](2))

    asyncio.run(subscribe())
    bus.publish(1)
    bus.publish(2)
    assert bus.stats().subscribers == {}


def test_a_process_queue_is_a_channel(bus: FrameBus[int]) -> None:
    brought: multiprocessing.Queue[int] = multiprocessing.Queue(2)
    bus.subscribe("worker", brought)
    for frame in range(3):
        bus.publish(frame)
    assert [brought.get(timeout=PATIENCE_S) for _ in range(2)] == [0, 1]
    assert bus.stats().subscribers["worker"].dropped == 1
    brought.close()
    brought.join_thread()
    bus.publish(4)
    assert bus.stats().subscribers == {}


class Line:
    """The least that the protocol asks for, on a platform that cannot count."""

    def __init__(self) -> None:
        self.frames: list[int] = []
        self.error: Exception | None = None

    def qsize(self) -> int:
        raise NotImplementedError

    def put_nowait(self, frame: int) -> None:
        if self.error:
            raise self.error
        if len(self.frames) == 2:
            raise queue.Full
        self.frames.append(frame)


def test_anything_with_the_queue_protocol_is_a_channel(bus: FrameBus[int]) -> None:
    line = bus.subscribe("worker", Line(), capacity=2)
    for frame in range(3):
        bus.publish(frame)
    assert line.frames == [0, 1]
    assert bus.stats().subscribers["worker"].dropped == 1


def test_a_channel_that_breaks_harms_nobody_else(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    with FrameBus[int](FramesPolicy(), clock=clock) as bus:
        events = bus.watch()
        line = bus.subscribe("broken", Line(), Priority.HIGH, capacity=2)
        healthy = bus.subscribe("healthy")
        line.error = OSError("pipe broke")
        bus.publish(1)
        assert healthy.get_nowait() == 1
        assert list(bus.stats().subscribers) == ["healthy"]
        lost = events.get_nowait()
        assert isinstance(lost, SubscriberLost)
        assert "pipe broke" in lost.reason
        assert "pipe broke" in caplog.text


def test_a_channel_may_unsubscribe_others_in_the_middle_of_a_publish(bus: FrameBus[int]) -> None:
    class Leaver(Line):
        def put_nowait(self, frame: int) -> None:
            super().put_nowait(frame)
            if frame == 1:
                bus.unsubscribe("later")
                bus.unsubscribe("later too")
                bus.subscribe("new")

    bus.subscribe("leaver", Leaver(), Priority.HIGH, capacity=4)
    later = bus.subscribe("later")
    later_too = bus.subscribe("later too", queue.Queue[int](4))
    last = bus.subscribe("last", priority=Priority.BEST_EFFORT)
    bus.publish(1)
    assert list(later) == []
    assert taken(later_too) == []
    assert last.get_nowait() == 1
    assert bus.stats().subscribers["new"].sent == 0

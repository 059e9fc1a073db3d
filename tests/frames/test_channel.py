import asyncio
from itertools import chain

import pytest

from tests.frames.tools import PATIENCE_S, SignallingChannel, drain, running, signalled
from tocsin.frames import Channel, FrameBus
from tocsin.frames.errors import ChannelClosedError, ChannelEmptyError


def test_a_channel_holds_at_least_one_frame() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Channel(0)


def test_nothing_to_take_is_said_at_once_or_in_time(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker")
    with pytest.raises(ChannelEmptyError):
        channel.get_nowait()
    with pytest.raises(ChannelEmptyError):
        channel.get(timeout_s=0.001)
    bus.publish(1)
    assert channel.get(timeout_s=0) == 1


def test_a_sleeping_thread_is_woken_by_a_frame_and_by_the_end(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker", SignallingChannel(4))
    taken: list[int] = []
    with running(lambda: taken.extend(channel)):
        for frame in range(5):
            signalled(channel.reader_waits)
            bus.publish(frame)
        signalled(channel.reader_waits)
        channel.close()
    assert taken == [0, 1, 2, 3, 4]


def test_what_is_left_when_the_channel_closes_is_still_read(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker")
    bus.publish(1)
    channel.close()
    assert channel.get() == 1
    with pytest.raises(ChannelClosedError):
        channel.get()


def test_each_frame_goes_to_one_of_many_readers(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("pool", SignallingChannel(1000))
    taken: list[list[int]] = [[], [], []]
    with running(*(lambda mine=mine: mine.extend(channel) for mine in taken)):
        for _ in taken:
            signalled(channel.reader_waits)
        for frame in range(1000):
            bus.publish(frame)
        channel.close()
    assert sorted(chain(*taken)) == list(range(1000))


async def test_a_cancelled_reader_passes_its_wake_up_on(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("pool")
    first = asyncio.create_task(channel.get_async())
    second = asyncio.create_task(channel.get_async())
    await asyncio.sleep(0)
    bus.publish(7)  # wakes the first
    first.cancel()  # which never gets to take the frame
    async with asyncio.timeout(PATIENCE_S):
        assert await second == 7
    assert first.cancelled()


async def test_a_cancelled_reader_that_nobody_woke_takes_no_wake_up_away(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("pool")
    first = asyncio.create_task(channel.get_async())
    second = asyncio.create_task(channel.get_async())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    bus.publish(7)
    async with asyncio.timeout(PATIENCE_S):
        assert await second == 7


def test_a_reader_whose_loop_is_gone_does_not_swallow_a_wake_up(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("pool", SignallingChannel(4))
    loop = asyncio.new_event_loop()
    forgotten = loop.create_task(channel.get_async())
    loop.run_until_complete(asyncio.sleep(0))
    loop.set_exception_handler(lambda *_: None)  # which a task that never ends is told to
    loop.close()
    taken: list[int] = []
    signalled(channel.reader_waits)
    with running(lambda: taken.append(channel.get())):
        signalled(channel.reader_waits)
        bus.publish(7)
    assert taken == [7]
    assert not forgotten.done()


def test_the_bound_holds_while_frames_wait(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker", capacity=3)
    for frame in range(10):
        bus.publish(frame)
    assert len(channel) == 3
    assert channel
    assert drain(channel) == [0, 1, 2]
    assert channel

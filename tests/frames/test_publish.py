"""The documents' tests, in spirit, and what else a publisher relies on."""

import asyncio
import logging
import threading

import pytest

from tests.frames.tools import PATIENCE_S, RefusingChannel, SignallingChannel, drain, running, signalled
from tocsin.frames import Channel, CriticalFramesDropped, FrameBus, OnFull, Priority, SubscriberLost


def test_critical_is_served_first_and_best_effort_goes_without(bus: FrameBus[int]) -> None:
    best_effort = bus.subscribe("best-effort", Channel[int](2), Priority.BEST_EFFORT)
    critical = bus.subscribe("critical", Channel[int](1), Priority.CRITICAL, timeout_s=0)
    bus.publish(1)
    bus.publish(2)
    assert list(bus.stats().subscribers) == ["critical", "best-effort"]
    assert drain(critical) == [1]
    assert drain(best_effort) == [1], "it had room for the second frame, but a critical channel was full"
    assert bus.stats().subscribers["best-effort"].shed == 1


def test_a_critical_subscriber_is_waited_for_until_it_makes_room(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("critical", SignallingChannel(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    bus.publish(1)
    with running(lambda: bus.publish(2)):
        signalled(channel.publisher_waits)
        assert channel.get_nowait() == 1
    assert drain(channel) == [2]
    account = bus.stats().subscribers["critical"]
    assert (account.sent, account.dropped, account.critical_dropped) == (2, 0, 0)


def test_a_critical_subscriber_that_makes_no_room_in_time_is_counted_and_alarmed(
    bus: FrameBus[int], caplog: pytest.LogCaptureFixture
) -> None:
    events = bus.watch()
    channel = bus.subscribe("critical", Channel[int](1), Priority.CRITICAL)
    with caplog.at_level(logging.ERROR, "tocsin.frames"):
        for frame in range(3):
            bus.publish(frame)
    account = bus.stats().subscribers["critical"]
    assert (account.sent, account.dropped, account.critical_dropped) == (1, 2, 2)
    assert bus.stats().critical_dropped == 2
    assert drain(channel) == [0]
    alarm = events.get_nowait()
    assert isinstance(alarm, CriticalFramesDropped)
    assert (alarm.subscriber, alarm.dropped) == ("critical", 1)
    assert [record.levelname for record in caplog.records] == ["ERROR"], "once, not per frame"


def test_without_a_priority_it_is_as_it_always_was(bus: FrameBus[int]) -> None:
    channel: Channel[int] = Channel(10)
    bus.subscribe("worker", channel)
    bus.publish(1)
    assert channel.get() == 1
    assert bus.stats().subscribers["worker"].priority is Priority.NORMAL


def test_workers_without_priorities_drop_only_when_their_own_channel_is_full(bus: FrameBus[int]) -> None:
    """The full pattern of old code: several equal workers, one of them stuck."""
    stuck = bus.subscribe("stuck", Channel[int](5))
    steady = bus.subscribe("steady", Channel[int](5))
    taken = []
    for frame in range(50):
        bus.publish(frame)
        taken.extend(drain(steady))
    assert taken == list(range(50))
    assert drain(stuck) == [0, 1, 2, 3, 4]
    assert bus.stats().subscribers["stuck"].dropped == 45


def test_all_four_levels_take_all_frames_in_quiet_times(bus: FrameBus[int]) -> None:
    channels = {priority: bus.subscribe(priority.name, priority=priority) for priority in reversed(Priority)}
    for frame in range(10):
        bus.publish(frame)
    assert all(drain(channels[priority]) == list(range(10)) for priority in Priority)
    assert list(bus.stats().subscribers) == [priority.name for priority in Priority]


def test_every_subscriber_gets_the_same_object() -> None:
    with FrameBus[bytearray]() as bus:
        first, second = bus.subscribe("first"), bus.subscribe("second")
        frame = bytearray(1 << 20)
        bus.publish(frame)
        assert first.get() is frame
        assert second.get() is frame


async def test_a_deadline_bounds_the_wait_of_the_whole_publish(bus: FrameBus[int]) -> None:
    channels = [
        bus.subscribe(str(timeout_s), RefusingChannel(1), Priority.CRITICAL, timeout_s=timeout_s)
        for timeout_s in (10.0, 60.0)
    ]
    bus.publish(1)
    bus.publish(2, timeout_s=20.0)
    await bus.publish_async(3, timeout_s=20.0)
    bus.publish(4, timeout_s=0.0)
    bus.publish(5)
    patient, very_patient = (channel.timeouts_s for channel in channels)
    assert all(0 < timeout_s <= 10 for timeout_s in (*patient[:2], patient[3]))
    assert all(10 < timeout_s <= 20 for timeout_s in very_patient[:2])
    assert patient[2] == very_patient[2] == 0
    assert 20 < very_patient[3] <= 60
    assert [account.critical_dropped for account in bus.stats().subscribers.values()] == [4, 4]


def test_blocking_subscribers_are_waited_for_at_any_priority(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("recorder", SignallingChannel(1), on_full=OnFull.BLOCK, timeout_s=PATIENCE_S)
    bus.publish(1)
    with running(lambda: bus.publish(2)):
        signalled(channel.publisher_waits)
        assert channel.get() == 1
    assert drain(channel) == [2]


def test_a_later_frame_does_not_overtake_one_that_waits(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("critical", SignallingChannel(2), Priority.CRITICAL, timeout_s=PATIENCE_S)
    other = bus.subscribe("other", Channel[int](64), Priority.CRITICAL)
    bus.publish(1)
    bus.publish(2)
    with running(lambda: bus.publish(3)):
        signalled(channel.publisher_waits)
        with running(lambda: bus.publish(4)):
            signalled(channel.publisher_waits)
            assert [channel.get() for _ in range(4)] == [1, 2, 3, 4]
    assert drain(other) == [1, 2, 3, 4]


def test_a_publisher_that_waits_holds_up_neither_subscribing_nor_accounts(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("critical", SignallingChannel(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    bus.publish(1)
    with running(lambda: bus.publish(2)):
        signalled(channel.publisher_waits)
        bus.subscribe("other")
        assert bus.stats().published == 2
        channel.get()


def test_leaving_sends_the_publisher_that_waits_on(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("critical", SignallingChannel(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    bus.publish(1)
    with running(lambda: bus.publish(2)):
        signalled(channel.publisher_waits)
        account = bus.unsubscribe("critical")
    assert (account.sent, account.critical_dropped) == (1, 1)
    assert drain(channel) == [1]


def test_a_channel_closed_by_its_reader_ends_the_subscription(bus: FrameBus[int]) -> None:
    events = bus.watch()
    channel = bus.subscribe("gone")
    staying = bus.subscribe("staying")
    channel.close()
    bus.publish(1)
    assert list(bus.stats().subscribers) == ["staying"]
    assert drain(staying) == [1]
    lost = events.get_nowait()
    assert isinstance(lost, SubscriberLost)
    assert (lost.subscriber, lost.reason) == ("gone", "its channel is closed")


def test_closing_the_channel_sends_the_publisher_that_waits_on(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("critical", SignallingChannel(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    bus.publish(1)
    with running(lambda: bus.publish(2)):
        signalled(channel.publisher_waits)
        channel.close()
    assert bus.stats().subscribers == {}
    assert list(channel) == [1]


async def test_publishing_on_a_loop_does_not_wait_for_a_reader_of_that_loop(bus: FrameBus[int]) -> None:
    """Only the loop could make room, and it is busy publishing: waiting out the timeout would help nobody."""

    channel = bus.subscribe("critical", RefusingChannel(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    bus.publish(1)
    assert await channel.get_async() == 1
    bus.publish(2)
    bus.publish(3)
    assert channel.timeouts_s == [0.0]
    assert bus.stats().subscribers["critical"].critical_dropped == 1


async def test_publish_async_lets_the_reader_make_room(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("critical", Channel[int](1), Priority.CRITICAL, timeout_s=PATIENCE_S)

    async def read() -> list[int]:
        return [frame async for frame in channel]

    reading = asyncio.create_task(read())
    for frame in range(100):
        await bus.publish_async(frame)
    bus.close()
    channel.close()
    assert await reading == list(range(100))


async def test_publish_async_gives_up_in_time_or_when_cancelled(bus: FrameBus[int]) -> None:
    first = bus.subscribe("first", SignallingChannel(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    second = bus.subscribe("second", SignallingChannel(1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    await bus.publish_async(1)
    await bus.publish_async(2, timeout_s=0)
    publishing = asyncio.create_task(bus.publish_async(3))
    while not first.publisher_waits.acquire(blocking=False) or not second.publisher_waits.acquire(blocking=False):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    publishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await publishing
    assert drain(first) == drain(second) == [1]
    await bus.publish_async(4)
    assert drain(first) == drain(second) == [4]
    assert [account.critical_dropped for account in bus.stats().subscribers.values()] == [2, 2]


async def test_a_frame_published_from_a_thread_wakes_a_reader_on_a_loop(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("worker", SignallingChannel(4))

    def publish() -> None:
        for frame in range(10):
            signalled(channel.reader_waits)
            bus.publish(frame)
        signalled(channel.reader_waits)
        channel.close()

    with running(publish):
        assert [frame async for frame in channel] == list(range(10))


def test_a_log_handler_may_publish_the_alarm_itself(bus: FrameBus[int]) -> None:
    class Feed(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            publishing = threading.Thread(target=lambda: bus.publish(99), daemon=True)
            publishing.start()
            publishing.join(PATIENCE_S)
            assert not publishing.is_alive()

    feed = bus.subscribe("feed", Channel[int](4), on_full=OnFull.DROP_OLDEST)
    bus.subscribe("critical", Channel[int](1), Priority.CRITICAL, timeout_s=0)
    handler = Feed()
    logging.getLogger("tocsin.frames").addHandler(handler)
    try:
        bus.publish(1)
        bus.publish(2)
    finally:
        logging.getLogger("tocsin.frames").removeHandler(handler)
    assert drain(feed) == [1]
    assert bus.stats().published == 3

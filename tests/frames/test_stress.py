"""Many threads at once, and a publisher faster than everyone. With TOCSIN_SOAK=1 the last runs for a minute."""

import gc
import logging
import random
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from tests.frames.tools import PATIENCE_S, drain, running
from tests.soak import SHARE
from tocsin.frames import Channel, FrameBus, OnFull, Priority
from tocsin.frames.errors import BusClosedError, ChannelClosedError

SOAK_S = max(1.0, 60.0 * SHARE)


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    """Have the interpreter switch between threads at almost every chance, so that a missing lock shows."""
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


def test_accounts_balance_however_many_publish_and_read() -> None:
    publishers, frames = 4, 1500
    bus: FrameBus[tuple[int, int]] = FrameBus()
    crowd = [
        (
            priority,
            on_full,
            bus.subscribe(f"{priority.name}-{on_full.name}", Channel[tuple[int, int]](8), priority, on_full=on_full),
        )
        for priority in Priority
        for on_full in OnFull
    ]
    taken: list[list[tuple[int, int]]] = [[] for _ in crowd]

    def publish(me: int) -> None:
        for number in range(frames):
            bus.publish((me, number))

    with running(
        *(
            lambda mine=mine, channel=channel: mine.extend(channel)
            for mine, (_, _, channel) in zip(taken, crowd, strict=True)
        )
    ):
        with running(*(lambda me=me: publish(me) for me in range(publishers))):
            pass
        stats = bus.stats()
        for _, _, channel in crowd:
            channel.close()
    for mine, (priority, on_full, channel) in zip(taken, crowd, strict=True):
        account = stats.subscribers[f"{priority.name}-{on_full.name}"]
        assert account.sent + account.dropped == stats.published == publishers * frames
        assert len(mine) == account.sent
        assert len(set(mine)) == len(mine)
        for me in range(publishers):
            numbers = [number for publisher, number in mine if publisher == me]
            assert numbers == sorted(numbers), "each publisher's frames come in its order"
        assert len(channel) == 0


def test_all_who_miss_nothing_see_the_same_order() -> None:
    bus: FrameBus[tuple[int, int]] = FrameBus()
    channels = [
        bus.subscribe(str(index), Channel[tuple[int, int]](4), Priority.CRITICAL, timeout_s=PATIENCE_S)
        for index in range(3)
    ]
    taken: list[list[tuple[int, int]]] = [[] for _ in channels]

    def publish(me: int) -> None:
        for number in range(3000):
            bus.publish((me, number))

    with running(
        *(
            lambda mine=mine, channel=channel: mine.extend(channel)
            for mine, channel in zip(taken, channels, strict=True)
        )
    ):
        with running(*(lambda me=me: publish(me) for me in range(3))):
            pass
        for channel in channels:
            channel.close()
    assert len(taken[0]) == 9000
    assert taken[0] == taken[1] == taken[2]


def test_subscribers_come_and_go_in_the_middle_of_publishing() -> None:
    bus: FrameBus[int] = FrameBus()
    staying = bus.subscribe("staying", Channel[int](4), Priority.CRITICAL, timeout_s=PATIENCE_S)
    ended = threading.Event()
    seen: list[int] = []
    late: list[int] = []

    def come_and_go(me: int) -> None:
        dice = random.Random(me)
        while not ended.is_set():
            priority = dice.choice(list(Priority))
            channel = bus.subscribe(
                str(me), Channel[int](dice.randint(1, 4)), priority, on_full=dice.choice(list(OnFull))
            )
            for _ in range(dice.randint(0, 20)):
                bus.stats()
                if dice.random() < 0.2:
                    bus.unhealthy_subscribers()
                drain(channel)
            account = bus.unsubscribe(str(me))
            left = len(channel)
            assert account.depth == left
            late.append(len(channel) - left)

    def publish() -> None:
        for frame in range(3000):
            bus.publish(frame)
        ended.set()
        staying.close()

    with running(publish, lambda: seen.extend(staying), *(lambda me=me: come_and_go(me) for me in range(3))):
        pass
    assert seen == list(range(3000))
    assert late
    assert not any(late), "no frame comes after leaving"
    tallies = bus.stats().priorities
    assert all(0 <= tally.shed <= tally.dropped <= tally.offered for tally in tallies.values())


def for_ever(call: Callable[[], object]) -> None:
    while True:
        call()


def test_closing_ends_everyone_whatever_they_wait_for() -> None:
    bus: FrameBus[int] = FrameBus()
    full = bus.subscribe("full", Channel[int](1), Priority.CRITICAL, timeout_s=PATIENCE_S)
    idle = bus.subscribe("idle", priority=Priority.HIGH, capacity=1000)
    events = bus.watch()
    closed = threading.Event()

    def publish() -> None:
        with pytest.raises(BusClosedError):
            for_ever(lambda: bus.publish(1))
        assert closed.is_set()

    def close() -> None:
        assert idle.get(PATIENCE_S) == 1
        closed.set()
        bus.close()

    def read() -> None:
        with pytest.raises(ChannelClosedError):
            for_ever(events.get)

    with running(publish, publish, read, close):
        pass
    assert not full.closed
    assert idle.closed


def test_a_publisher_faster_than_everyone_does_not_grow_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("tocsin.frames"), "disabled", True)  # the test run would keep every record
    bus: FrameBus[bytes] = FrameBus()
    ended = threading.Event()
    channels = [
        bus.subscribe(
            f"{priority.name}-{on_full.name}", Channel[bytes](16), priority, on_full=on_full, timeout_s=timeout_s
        )
        for priority in Priority
        for on_full, timeout_s in (
            (OnFull.DROP_NEWEST, None if priority else 0.0),
            (OnFull.DROP_OLDEST, None if priority else 0.0),
        )
    ]
    bus.watch(capacity=8)

    def read_slowly() -> None:
        while not ended.wait(0.001):
            for channel in channels:
                if len(channel):
                    channel.get()

    def publish(frames: int) -> None:
        for number in range(frames):
            bus.publish(b"%064d" % number)

    with running(read_slowly):
        publish(5000)
        tracemalloc.start()
        try:
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            until = time.monotonic() + SOAK_S
            while time.monotonic() < until:
                publish(1000)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            ended.set()
    waiting = sum(channel.capacity for channel in channels)
    assert all(len(channel) <= channel.capacity for channel in channels)
    assert after - before < waiting * 200 + 100_000, "what the channels hold, and some air"
    assert bus.stats().priorities[Priority.BEST_EFFORT].dropped > 0

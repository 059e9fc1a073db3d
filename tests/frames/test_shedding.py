import itertools
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.frames.tools import Clock, drain
from tocsin.frames import Channel, FrameBus, FramesPolicy, OnFull, Priority, SheddingPolicy

LEVELS = [Priority.HIGH, Priority.NORMAL, Priority.BEST_EFFORT]


@pytest.mark.parametrize(
    ("waiting", "served"),
    [
        (1, [Priority.HIGH, Priority.NORMAL, Priority.BEST_EFFORT]),
        (2, [Priority.HIGH, Priority.NORMAL]),
        (4, [Priority.HIGH, Priority.NORMAL]),
        (5, [Priority.HIGH]),
        (7, [Priority.HIGH]),
        (8, []),
    ],
)
def test_levels_are_shed_in_order_as_a_more_important_channel_fills(
    bus: FrameBus[int], waiting: int, served: list[Priority]
) -> None:
    bus.subscribe("critical", Channel[int](10), Priority.CRITICAL)
    for frame in range(waiting):
        bus.publish(frame)
    channels = {priority: bus.subscribe(priority.name, Channel[int](10), priority) for priority in LEVELS}
    bus.publish(-1)
    assert [priority for priority in LEVELS if drain(channels[priority])] == served


def test_equals_do_not_shed_each_other_and_the_less_important_shed_nobody(bus: FrameBus[int]) -> None:
    bus.subscribe("full", Channel[int](1), Priority.NORMAL)
    equal = bus.subscribe("equal", Channel[int](64), Priority.NORMAL)
    above = bus.subscribe("above", Channel[int](64), Priority.HIGH)
    below = bus.subscribe("below", Channel[int](64), Priority.BEST_EFFORT)
    for frame in range(5):
        bus.publish(frame)
    assert drain(equal) == drain(above) == [0, 1, 2, 3, 4]
    assert drain(below) == [0]
    account = bus.stats().subscribers["below"]
    assert (account.dropped, account.shed) == (4, 4)


def test_shedding_ends_with_the_pressure(bus: FrameBus[int]) -> None:
    critical = bus.subscribe("critical", Channel[int](2), Priority.CRITICAL)
    below = bus.subscribe("below", Channel[int](64), Priority.BEST_EFFORT)
    for frame in range(2):
        bus.publish(frame)
    drain(critical)
    bus.publish(2)
    assert drain(below) == [0, 2]


def test_drop_oldest_keeps_the_latest(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("screen", Channel[int](2), on_full=OnFull.DROP_OLDEST)
    for frame in range(10):
        bus.publish(frame)
    account = bus.stats().subscribers["screen"]
    assert (account.sent, account.dropped) == (2, 8)
    assert drain(channel) == [8, 9]


def test_where_the_latest_frame_wins_a_full_channel_is_no_pressure(bus: FrameBus[int]) -> None:
    bus.subscribe("screen", Channel[int](1), Priority.HIGH, on_full=OnFull.DROP_OLDEST)
    below = bus.subscribe("below", Channel[int](64), Priority.BEST_EFFORT)
    for frame in range(5):
        bus.publish(frame)
    assert drain(below) == [0, 1, 2, 3, 4]


def test_a_critical_subscriber_may_keep_the_latest_too_and_losing_the_oldest_is_an_alarm(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("critical", Channel[int](1), Priority.CRITICAL, on_full=OnFull.DROP_OLDEST, timeout_s=0)
    bus.publish(1)
    bus.publish(2)
    assert bus.stats().subscribers["critical"].critical_dropped == 1
    assert drain(channel) == [2]


def test_blocking_drops_the_newest_when_the_time_has_passed(bus: FrameBus[int]) -> None:
    channel = bus.subscribe("recorder", Channel[int](1), on_full=OnFull.BLOCK, timeout_s=0.001)
    bus.publish(1)
    bus.publish(2)
    assert drain(channel) == [1]
    assert bus.stats().subscribers["recorder"].dropped == 1


def test_nobody_starves_for_a_reader_that_is_dead(bus: FrameBus[int], clock: Clock) -> None:
    dead = bus.subscribe("dead", Channel[int](1), Priority.CRITICAL, timeout_s=0)
    below = bus.subscribe("below", Channel[int](64), Priority.HIGH)
    for frame in range(3):
        bus.publish(frame)
    assert drain(below) == [0]
    clock.advance(FramesPolicy().shedding.stalled_after_s)
    bus.publish(3)
    assert drain(below) == [3], "a critical channel is full, but nobody reads it"
    dead.get_nowait()
    bus.publish(4)
    bus.publish(5)
    assert drain(below) == [4], "it lives, and is protected again"
    assert bus.stats().subscribers["dead"].critical_dropped == 4


@st.composite
def crowds(draw: st.DrawFn) -> list[tuple[Priority, int, OnFull]]:
    one = st.tuples(
        st.sampled_from(Priority), st.integers(1, 6), st.sampled_from([OnFull.DROP_NEWEST, OnFull.DROP_OLDEST])
    )
    return draw(st.lists(one, min_size=1, max_size=6))


@given(crowd=crowds(), steps=st.lists(st.integers(0, 7), max_size=60))
def test_the_pass_does_what_the_rule_says(crowd: list[tuple[Priority, int, OnFull]], steps: list[int]) -> None:
    """Against the rule written down plainly: look at every more important channel, for every subscriber, every time.

    A step below the number of subscribers takes a frame from that one; any other publishes.
    """
    bus: FrameBus[int] = FrameBus(clock=Clock())
    shedding = SheddingPolicy()
    channels = [
        bus.subscribe(
            str(index), Channel[int](capacity), priority, on_full=on_full, timeout_s=None if priority else 0.0
        )
        for index, (priority, capacity, on_full) in enumerate(crowd)
    ]
    model = [deque[int]() for _ in crowd]
    lost = [0] * len(crowd)
    frames = itertools.count()
    published = 0
    for step in steps:
        if step < len(crowd):
            if model[step]:
                assert channels[step].get_nowait() == model[step].popleft()
            continue
        frame = next(frames)
        published += 1
        bus.publish(frame)
        fills = [
            len(waiting) / capacity if priority is Priority.CRITICAL or on_full is not OnFull.DROP_OLDEST else 0.0
            for waiting, (priority, capacity, on_full) in zip(model, crowd, strict=True)
        ]
        for index, (priority, capacity, on_full) in enumerate(crowd):
            above = [fill for fill, (other, _, _) in zip(fills, crowd, strict=True) if other < priority]
            if max(above, default=0.0) >= shedding.threshold(priority):
                lost[index] += 1
            elif len(model[index]) < capacity:
                model[index].append(frame)
            else:
                lost[index] += 1
                if on_full is OnFull.DROP_OLDEST:
                    model[index].popleft()
                    model[index].append(frame)
    stats = bus.stats()
    assert [drain(channel) for channel in channels] == [list(waiting) for waiting in model]
    for index, (priority, _, _) in enumerate(crowd):
        account = stats.subscribers[str(index)]
        assert (account.dropped, account.sent) == (lost[index], published - lost[index])
        assert account.critical_dropped == (lost[index] if priority is Priority.CRITICAL else 0)
    assert sum(tally.dropped for tally in stats.priorities.values()) == sum(lost)

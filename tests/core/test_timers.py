"""Timers: never early, late by less than a slot, cancelled without a trace, and each key once."""

from hypothesis import given
from hypothesis import strategies as st

from tests.core.driver import SECOND
from tocsin.core.timers import Timers, Wheel
from tocsin.policies import default_policy


def fired(wheel: Wheel[int], now: int) -> list[int]:
    keys: list[int] = []
    while (key := wheel.pop(now)) is not None:
        keys.append(key)
    return keys


def test_a_slot_fires_when_it_is_over() -> None:
    wheel: Wheel[int] = Wheel(10)
    wheel.schedule(1, 25)
    assert wheel.next_due() == 30
    assert fired(wheel, 29) == []
    assert fired(wheel, 30) == [1]
    assert wheel.next_due() is None


def test_what_is_due_exactly_at_a_border_waits_for_its_slot() -> None:
    wheel: Wheel[int] = Wheel(10)
    wheel.schedule(1, 30)
    assert wheel.next_due() == 40


def test_a_cancelled_key_leaves_nothing_behind() -> None:
    wheel: Wheel[int] = Wheel(10)
    wheel.schedule(1, 25)
    wheel.cancel(1, 25)
    assert wheel.next_due() is None
    assert list(wheel) == []


def test_cancelling_what_is_not_there_does_nothing() -> None:
    wheel: Wheel[int] = Wheel(10)
    wheel.schedule(1, 25)
    wheel.cancel(2, 25)
    wheel.cancel(1, 55)
    assert fired(wheel, 100) == [1]


def test_a_key_scheduled_twice_in_a_slot_fires_once() -> None:
    wheel: Wheel[int] = Wheel(10)
    wheel.schedule(1, 25)
    wheel.schedule(1, 26)
    assert fired(wheel, 100) == [1]


def test_a_slot_fires_its_smallest_key_first() -> None:
    wheel: Wheel[int] = Wheel(10)
    for key in (7, 3, 5):
        wheel.schedule(key, 25)
    assert fired(wheel, 30) == [3, 5, 7]


def test_what_is_ripe_is_due_at_once() -> None:
    wheel: Wheel[int] = Wheel(10)
    for key in (1, 2):
        wheel.schedule(key, 25)
    assert wheel.pop(30) == 1
    assert wheel.next_due() == 0
    assert list(wheel) == [2]
    assert wheel.pop(30) == 2


def test_a_project_is_due_when_its_first_wheel_is() -> None:
    timers = Timers(default_policy())
    assert timers.next_due() is None
    timers.expiry.schedule(1, 61 * SECOND)
    assert timers.next_due() == 120 * SECOND, "the sweeper comes every minute"
    timers.decay.schedule(1, 61 * SECOND)
    assert timers.next_due() == 65 * SECOND, "the decay task comes every five seconds"
    timers.sessions.schedule("ses_1", 61 * SECOND)
    assert timers.next_due() == 61 * SECOND + 10_000
    timers.acks.schedule(1, SECOND)
    assert timers.next_due() == SECOND + 10_000


def test_nothing_is_due_before_the_first_slot_even_if_it_is_empty() -> None:
    timers = Timers(default_policy())
    assert timers.not_before() > 10**9 * SECOND
    timers.acks.schedule(1, 2 * SECOND)
    timers.sessions.schedule("ses_1", 3 * SECOND)
    assert timers.not_before() == timers.next_due() == 2 * SECOND + 10_000
    timers.acks.cancel(1, 2 * SECOND)
    assert timers.not_before() == 2 * SECOND + 10_000, "it does not look into slots"
    assert timers.next_due() == 3 * SECOND + 10_000
    assert timers.not_before() == 3 * SECOND + 10_000, "the empty slot was removed"
    timers.sessions.schedule("ses_2", 3 * SECOND)
    assert timers.sessions.pop(4 * SECOND) == "ses_1"
    assert timers.not_before() == timers.next_due() == 0, "a slot that has fired is not empty yet"


SCHEDULES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 500)), max_size=40)


@given(SCHEDULES, st.sets(st.integers(0, 20)), st.integers(1, 50), st.lists(st.integers(0, 100), max_size=20))
def test_every_key_fires_in_time(
    schedule: list[tuple[int, int]], cancelled: set[int], granularity: int, steps: list[int]
) -> None:
    wheel: Wheel[int] = Wheel(granularity)
    due_of = dict(schedule)
    for key, due in due_of.items():
        wheel.schedule(key, due)
    for key in cancelled & due_of.keys():
        wheel.cancel(key, due_of.pop(key))
    assert sorted(wheel) == sorted(due_of)
    now, seen = 0, []
    for step in [*steps, 1000]:
        now += step
        for key in fired(wheel, now):
            assert due_of[key] < now, "never early"
            seen.append(key)
        still_due = [key for key in due_of if key not in seen]
        assert all(due_of[key] + granularity >= now for key in still_due), "late by less than a slot"
        upcoming = wheel.next_due()
        assert (upcoming is None) is (not still_due)
        assert upcoming is None or upcoming > now
    assert sorted(seen) == sorted(due_of)

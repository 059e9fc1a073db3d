import pytest

from tests.frames.tools import Clock, drain
from tocsin.frames import (
    Channel,
    CriticalFramesDropped,
    FrameBus,
    FramesPolicy,
    Health,
    HealthChanged,
    HealthPolicy,
    Priority,
    ReportPolicy,
    SheddingReported,
    Tally,
)
from tocsin.frames.health import HealthGauge

WINDOW_S = HealthPolicy().window_s


def gauge_at(*shares: float) -> list[Health]:
    """Return the states of a gauge that sees these shares lost, one window after the other."""
    gauge = HealthGauge(HealthPolicy())
    offered = lost = 0
    states = []
    for share in shares:
        gauge.slide(offered, lost, HealthPolicy().window_steps)
        offered, lost = offered + 100, lost + round(100 * share)
        gauge.judge(offered, lost)
        states.append(gauge.health)
    return states


@pytest.mark.parametrize(
    ("shares", "states"),
    [
        ([0.0, 0.04, 0.05], [Health.HEALTHY, Health.HEALTHY, Health.DEGRADED]),
        ([0.05, 0.04, 0.02, 0.01], [Health.DEGRADED, Health.DEGRADED, Health.DEGRADED, Health.HEALTHY]),
        ([0.49, 0.5, 0.4, 0.35], [Health.DEGRADED, Health.SATURATED, Health.SATURATED, Health.SATURATED]),
        ([0.5, 0.34, 0.4], [Health.SATURATED, Health.DEGRADED, Health.DEGRADED]),
        ([1.0, 0.0], [Health.SATURATED, Health.HEALTHY]),
    ],
)
def test_a_state_is_left_lower_than_it_is_entered(shares: list[float], states: list[Health]) -> None:
    assert gauge_at(*shares) == states


def test_nobody_is_judged_by_a_few_frames() -> None:
    gauge = HealthGauge(HealthPolicy())
    assert (gauge.judge(9, 9), gauge.health) == (None, Health.HEALTHY)
    assert (gauge.judge(10, 10), gauge.health) == (1.0, Health.SATURATED)


def test_who_does_not_read_becomes_saturated_and_after_reading_healthy(bus: FrameBus[int], clock: Clock) -> None:
    channel = bus.subscribe("worker", Channel[int](5))
    bus.subscribe("important", priority=Priority.CRITICAL, capacity=5000)
    for frame in range(100):
        bus.publish(frame)
    assert bus.health("worker") is Health.SATURATED
    assert bus.unhealthy_subscribers() == ["worker"]
    for frame in range(100):
        clock.advance(WINDOW_S / 50)
        bus.publish(frame)
        drain(channel)
    assert bus.health("worker") is Health.HEALTHY
    assert bus.unhealthy_subscribers() == []


def test_the_window_slides_even_if_nobody_looked(bus: FrameBus[int], clock: Clock) -> None:
    channel = bus.subscribe("worker", Channel[int](5))
    for _ in range(100):
        bus.publish(1)
        drain(channel)
    clock.advance(WINDOW_S * 1.1)
    drain(channel)
    for _ in range(20):
        bus.publish(1)
    assert bus.health("worker") is Health.SATURATED, "15 of the 20 frames in the window, whatever was before it"
    clock.advance(WINDOW_S * 1.1)
    assert bus.health("worker") is Health.HEALTHY, "nothing was lost in the window"


def test_the_unhealthy_are_named_most_important_first(bus: FrameBus[int]) -> None:
    for priority in reversed(Priority):
        bus.subscribe(priority.name, Channel[int](1), priority, timeout_s=None if priority else 0.0)
    for frame in range(20):
        bus.publish(frame)
    assert bus.unhealthy_subscribers() == ["CRITICAL"], "the others were shed, which is not their fault"
    bus.unsubscribe("CRITICAL")
    for frame in range(20):
        bus.publish(frame)
    assert bus.unhealthy_subscribers() == ["HIGH"]


def test_a_change_of_health_is_told_once(bus: FrameBus[int], clock: Clock) -> None:
    events = bus.watch()
    bus.subscribe("worker", Channel[int](1))
    for _ in range(60):
        clock.advance(0.05)
        bus.publish(1)
    changes = [event for event in drain(events) if isinstance(event, HealthChanged)]
    assert [(change.subscriber, change.before, change.after) for change in changes] == [
        ("worker", Health.HEALTHY, Health.SATURATED)
    ]


def test_critical_drops_raise_the_alarm_at_once_and_then_in_sums(bus: FrameBus[int], clock: Clock) -> None:
    events = bus.watch()
    bus.subscribe("critical", Channel[int](1), Priority.CRITICAL, timeout_s=0)
    for _ in range(5):
        bus.publish(1)
    clock.advance(HealthPolicy().step_s)
    bus.tick()
    alarms = [event for event in drain(events) if isinstance(event, CriticalFramesDropped)]
    assert [(alarm.dropped, alarm.dropped_total) for alarm in alarms] == [(1, 1), (3, 4)]


def test_drops_per_priority_are_reported_at_a_fixed_interval(clock: Clock) -> None:
    interval_s = 1.0
    bus: FrameBus[int] = FrameBus(FramesPolicy(report=ReportPolicy(interval_s=interval_s)), clock=clock)
    events = bus.watch()
    bus.subscribe("critical", Channel[int](4), Priority.CRITICAL, timeout_s=0)
    bus.subscribe("best-effort", Channel[int](64), Priority.BEST_EFFORT)
    for _ in range(5):
        bus.publish(1)
    clock.advance(interval_s)
    bus.publish(1)
    clock.advance(interval_s)
    bus.tick()
    bus.tick()
    first, second = (event for event in drain(events) if isinstance(event, SheddingReported))
    assert (first.at - first.since, first.published) == (interval_s, 5)
    assert first.priorities == {
        Priority.CRITICAL: Tally(offered=5, dropped=1, shed=0),
        Priority.HIGH: Tally(),
        Priority.NORMAL: Tally(),
        Priority.BEST_EFFORT: Tally(offered=5, dropped=4, shed=4),
    }
    assert (second.since, second.published) == (first.at, 1)
    assert second.priorities[Priority.BEST_EFFORT].dropped_share == 1.0
    assert second.priorities[Priority.HIGH].dropped_share == 0.0


def test_reports_and_sums_keep_the_counts_of_those_who_left(bus: FrameBus[int]) -> None:
    events = bus.watch()
    bus.subscribe("worker", Channel[int](1))
    bus.publish(1)
    bus.publish(2)
    bus.unsubscribe("worker")
    bus.publish(3)
    tally = bus.stats().priorities[Priority.NORMAL]
    assert (tally.offered, tally.sent, tally.dropped) == (2, 1, 1)
    bus.close()
    (last,) = (event for event in events if isinstance(event, SheddingReported))
    assert last.priorities[Priority.NORMAL] == tally


def test_a_watcher_that_does_not_read_loses_the_oldest_events_and_harms_nobody(
    bus: FrameBus[int], clock: Clock
) -> None:
    events = bus.watch(capacity=2)
    gone = bus.watch()
    gone.close()
    for _ in range(5):
        clock.advance(FramesPolicy().report.interval_s)
        bus.publish(1)
    assert [event.at for event in drain(events)] == [clock.now - FramesPolicy().report.interval_s, clock.now]

import math

import msgspec
import pytest

from tocsin.frames import ChannelPolicy, FramesPolicy, HealthPolicy, Priority, ReportPolicy, SheddingPolicy, WaitPolicy


def test_the_defaults_are_the_documents() -> None:
    policy = FramesPolicy()
    assert policy.wait.critical_timeout_s == 0.001
    assert [policy.shedding.threshold(priority) for priority in Priority] == [math.inf, 0.8, 0.5, 0.2]


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: ChannelPolicy(capacity=0), "capacity"),
        (lambda: ChannelPolicy(capacity=10, capacity_max=9), "capacity"),
        (lambda: ChannelPolicy(subscribers_max=0), "subscribers_max"),
        (lambda: ChannelPolicy(watch_capacity=0), "watch_capacity"),
        (lambda: WaitPolicy(critical_timeout_s=-1), "critical_timeout_s"),
        (lambda: WaitPolicy(critical_timeout_s=61), "critical_timeout_s"),
        (lambda: WaitPolicy(block_timeout_s=0), "block_timeout_s"),
        (lambda: WaitPolicy(timeout_max_s=math.inf), "timeout_max_s"),
        (lambda: SheddingPolicy(high=0.4), "thresholds"),
        (lambda: SheddingPolicy(best_effort=0), "thresholds"),
        (lambda: SheddingPolicy(high=1.1), "thresholds"),
        (lambda: SheddingPolicy(stalled_after_s=0), "stalled_after_s"),
        (lambda: HealthPolicy(window_s=0), "window_s"),
        (lambda: HealthPolicy(window_steps=0), "window_steps"),
        (lambda: HealthPolicy(judged_from=0), "judged_from"),
        (lambda: HealthPolicy(healthy_below=0.1), "healthy_below"),
        (lambda: HealthPolicy(unsaturated_below=0.6), "saturated_from"),
        (lambda: ReportPolicy(interval_s=0), "interval_s"),
    ],
)
def test_numbers_that_disagree_are_refused(make: type[FramesPolicy], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        make()


def test_unknown_names_are_refused_when_read_from_data() -> None:
    assert msgspec.convert({"wait": {"critical_timeout_s": 0.5}}, FramesPolicy).wait.critical_timeout_s == 0.5
    with pytest.raises(msgspec.ValidationError, match="critical_timeout"):
        msgspec.convert({"wait": {"critical_timeout": 0.5}}, FramesPolicy)
    with pytest.raises(msgspec.ValidationError, match="best_effort"):
        msgspec.convert({"shedding": {"normal": 0.1}}, FramesPolicy)

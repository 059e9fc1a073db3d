"""Fidelity: an unfaithful replay is detected, and then nothing is compared."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.lab.histories import SETTINGS, busy, settings, traces_of
from tocsin.core.errors import TocsinError
from tocsin.lab.experiment import Candidate, Experiment
from tocsin.lab.figures.fidelity import Fidelity, distance, fidelity_of, require_fidelity, summarise
from tocsin.lab.replays.closed_loop import closed_loop
from tocsin.lab.replays.open_loop import open_loop
from tocsin.lab.replays.replay import PreparedTrace
from tocsin.lab.report.document import compare
from tocsin.lab.runners import LocalRunner
from tocsin.lab.traces.trace import Trace
from tocsin.policies import default_policy, parse_policy


@pytest.fixture(scope="module")
def trace() -> Trace:
    (found,) = traces_of(busy(4000))
    return found


def verdict(trace: Trace) -> list[str]:
    made = PreparedTrace(trace)
    opened = fidelity_of(made, open_loop(made), stamps=True)
    closed = fidelity_of(made, closed_loop(made, None, 1, SETTINGS.clock_us), stamps=False)
    return summarise([trace.window], [opened], [closed], SETTINGS).unfaithful


def test_the_right_model_is_faithful(trace: Trace) -> None:
    assert verdict(trace) == []


def test_consumers_that_are_too_slow_are_noticed(trace: Trace) -> None:
    """Receipts that take an hour: the recorded commands are unchanged, but the consumer models are not."""
    steps = [
        msgspec.structs.replace(step, delay_us=tuple(3_600_000_000 for _ in step.delay_us))
        if step.ask == "Confirm"
        else step
        for step in trace.steps
    ]
    found = verdict(msgspec.structs.replace(trace, steps=steps))
    assert len(found) >= 1
    assert "in the closed loop" in found[0]


def test_a_history_with_a_hole_is_noticed(trace: Trace) -> None:
    steps = [step for index, step in enumerate(trace.steps) if step.ask != "Send" or index % 10]
    found = verdict(msgspec.structs.replace(trace, steps=steps))
    assert "the same outcome in the open loop" in found[0]
    assert "first difference: step" in found[0]


def test_another_policy_than_the_recorded_is_noticed(trace: Trace) -> None:
    document = msgspec.to_builtins(parse_policy("aging: {threshold_s: 1}\nlimits: {mailbox_depth_max: 3}"))
    steps = [
        msgspec.structs.replace(step, body=step.body | {"policy": document}) if step.ask == "AdoptPolicy" else step
        for step in trace.steps
    ]
    assert verdict(msgspec.structs.replace(trace, steps=steps))


def test_an_unfaithful_replay_compares_nothing(tmp_path: Path, trace: Trace) -> None:
    steps = [step for index, step in enumerate(trace.steps) if step.ask != "Send" or index % 10]
    experiment = Experiment(tmp_path, LocalRunner(), settings())
    experiment.add(msgspec.structs.replace(trace, steps=steps))
    report = compare(experiment, [Candidate.of("other", default_policy())])
    assert report.fidelity is not None
    assert not report.fidelity.faithful
    assert [policy.name for policy in report.policies] == ["in force"]
    with pytest.raises(TocsinError) as refused:
        require_fidelity(report.fidelity)
    assert refused.value.code == "E_LAB_001"


def test_each_bound_counts_by_itself() -> None:
    right = Fidelity(messages=1000, same=1000, steps=10, exact=10, distance=0.0)
    for opened, closed, said in (
        (right, right, None),
        (msgspec.structs.replace(right, same=998), right, "in the open loop"),
        (right, msgspec.structs.replace(right, same=949), "in the closed loop"),
        (right, msgspec.structs.replace(right, distance=0.051), "distance of the waiting times is 0.051"),
    ):
        fidelity = summarise(["p today"], [opened], [closed], SETTINGS)
        assert fidelity.faithful == (said is None)
        assert said is None or said in fidelity.unfaithful[0]


def test_the_distance_of_distributions() -> None:
    one, other = np.array([1, 2, 3, 4]), np.array([3, 4, 5, 6])
    assert distance(one, one) == 0.0
    assert distance(one, other) == 0.5
    assert distance(one, np.array([10, 11])) == 1.0
    assert distance(one, np.array([], dtype=np.int64)) == 1.0

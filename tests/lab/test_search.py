"""The search: Latin hypercube, Pareto front, and continuing a stopped search."""

from pathlib import Path

import numpy as np
import pytest

from tests.lab.histories import settings
from tocsin.core.errors import TocsinError
from tocsin.core.policy import document_of
from tocsin.lab.experiment import Experiment
from tocsin.lab.parameters import changes_of, parse_dimension, policy_at
from tocsin.lab.runners import LocalRunner
from tocsin.lab.scenario import parse_scenario
from tocsin.lab.scenario_traces import build_traces
from tocsin.lab.search import Search, front_of, hypercube, parse_objective, search
from tocsin.policies import default_policy, parse_policy

BASE = document_of(default_policy())
CROWD = """
name: crowd
duration_s: 300
runs: 2
teams:
  senders: {agents: 4}
  server: {session: push, window: 1, handles: {"*": {receipt_s: 0.5}}}
loads:
  - {from: senders, to: server, type: CUSTOM_NOTE, priority: Coordinate, per_s: 1.8}
  - {from: senders, to: server, type: StatusUpdate, per_s: 0.5}
"""


def test_a_hypercube_visits_each_slice_once() -> None:
    points = hypercube(8, 3, np.random.default_rng(1))
    assert (np.sort(np.floor(points * 8), axis=0) == np.arange(8)[:, None]).all()


def test_the_front_is_what_nothing_dominates() -> None:
    assert front_of([(1, 5), (2, 2), (3, 3), (5, 1), (2, 2)]) == [0, 1, 3]
    assert front_of([(3,), (1,), (2,)]) == [1]


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ("aging.threshold_s=10..20", 0.5, 15.0),
        ("aging.threshold_s=10..1000", 0.5, 100.0),  # a wide range goes by factors
        ("ttl.StatusUpdate=60..120", 0.0, 60.0),
        ("limits.drain_max=10..20", 0.44, 14),
        ("aging.enabled=true|false", 0.9, False),
        ("contracts.Question.priority=ASK|TASK", 0.1, "ASK"),
    ],
)
def test_a_dimension_has_a_value_at_each_place(text: str, place: float, value: object) -> None:
    dimension = parse_dimension(text, BASE)
    assert dimension.value(place) == value
    policy = policy_at(BASE, [dimension], [value])
    assert policy is not None
    assert parse_policy(__import__("yaml").safe_dump(changes_of(policy))) == policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("aging.treshold_s=1..2", "did you mean aging.threshold_s"),
        ("aging=1..2", "is a section, not a setting"),
        ("aging.threshold_s=5..2", "the low end comes first"),
        ("aging.threshold_s", "NAME=LOW..HIGH"),
        ("aging.enabled=0..1", "has no range"),
        ("aging.threshold_s=a..2", "is not a number"),
    ],
)
def test_what_cannot_be_varied_is_told(text: str, said: str) -> None:
    with pytest.raises(TocsinError, match=said) as refused:
        parse_dimension(text, BASE)
    assert refused.value.code == "E_LAB_003"


@pytest.mark.parametrize("text", ["p98_s", "Urgent.p99_s", "Critical.escalations"])
def test_an_objective_that_is_none_is_told(text: str) -> None:
    with pytest.raises(TocsinError):
        parse_objective(text)


def test_values_that_contradict_each_other_are_no_policy() -> None:
    dimension = parse_dimension("sessions.lapse_after_s=1..100", BASE)
    assert policy_at(BASE, [dimension], [1.0]) is None


def searched(folder: Path, evaluations: int) -> Search:
    experiment = Experiment(folder, LocalRunner(), settings(evaluations=evaluations, batch=2, patience=4))
    for trace in build_traces(parse_scenario(CROWD), experiment.settings):
        experiment.add(trace)
    dimensions = [parse_dimension("aging.threshold_s=5..300", BASE), parse_dimension("ttl.StatusUpdate=5..3600", BASE)]
    objectives = [parse_objective("Coordinate.p99_s"), parse_objective("Info.expired")]
    return search(experiment, default_policy(), BASE, dimensions, objectives)[0]


def test_a_search_draws_the_front_and_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = searched(tmp_path / "whole", 8)
    assert 5 <= len(whole.evaluations) <= 8
    front = [one for one in whole.evaluations if one.on_front]
    assert front
    scores = [tuple(one.objectives.values()) for one in whole.evaluations]
    assert [one.number for one in front] == front_of(scores)
    assert {one.phase for one in whole.evaluations} == {"base", "filling", "refining"}
    results = tmp_path / "whole" / "results"
    for path in sorted(results.iterdir())[::2]:
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in results.iterdir()}
    assert searched(tmp_path / "whole", 8) == whole
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())

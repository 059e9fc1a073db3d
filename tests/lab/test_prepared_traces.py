"""Prepared traces: a process keeps one of them, and the replays of a window follow each other."""

import gc
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.lab.histories import busy, settings, traces_of
from tocsin.lab.experiment import Candidate, Experiment
from tocsin.lab.replays import replay
from tocsin.lab.replays.replay import prepared_trace
from tocsin.lab.runners import LocalRunner, Progress
from tocsin.lab.tasks import ReplayTask, Task
from tocsin.lab.traces.trace import Trace, load_trace, save_trace
from tocsin.policies import parse_policy


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


class NotingRunner(LocalRunner):
    """Runs tasks in this process, and keeps them."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def run(self, tasks: Sequence[Task], progress: Progress | None = None) -> list[float]:
        self.tasks += tasks
        return super().run(tasks, progress)


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[list[Path]]:
    """Two stored traces; the garbage collector runs only when it is called. What is frozen then stays so."""
    gc.disable()
    yield [save_trace(tmp_path, trace) for trace in traces_of(busy(600, per_day=30_000), window_s=900)][:2]
    gc.enable()


def test_the_replays_of_a_window_follow_each_other(tmp_path: Path) -> None:
    runner = NotingRunner()
    experiment = Experiment(tmp_path, runner, settings())
    for trace in traces_of(busy(600, per_day=30_000), window_s=900)[:2]:
        experiment.add(trace)
    slow, quick = (Candidate.of(f"{after}", parse_policy(f"aging: {{threshold_s: {after}}}")) for after in (3000, 1))
    together = experiment.replays([slow, quick])
    first, second = (window.path for window in experiment.windows)
    assert [task.trace for task in runner.tasks if isinstance(task, ReplayTask)] == [first, first, second, second]
    assert together == [experiment.replays([candidate])[0] for candidate in (slow, quick)]
    assert together[0] != together[1]
    assert [result.events for result in together[0]] != [result.events for result in reversed(together[0])]


def test_a_trace_is_prepared_once_for_all_policies(paths: list[Path]) -> None:
    assert prepared_trace(paths[0]) is prepared_trace(paths[0])


def test_a_trace_is_freed_before_the_next_is_read(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first = weakref.ref(prepared_trace(paths[0]))
    kept: list[bool] = []

    def load(path: Path) -> Trace:
        kept.append(first() is not None)
        return load_trace(path)

    monkeypatch.setattr(replay, "load_trace", load)
    prepared_trace(paths[1])
    assert kept == [False]


def test_collections_skip_the_prepared_trace(paths: list[Path]) -> None:
    for path in paths:
        steps = prepared_trace(path).steps
        assert gc.is_tracked(steps)
        assert not any(each is steps for each in gc.get_objects())


def test_garbage_of_earlier_tasks_is_freed_before_the_next_trace_is_read(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = weakref.ref(cycle := Cycle())
    prepared_trace(paths[0])
    later = weakref.ref(Cycle())
    del cycle
    kept: list[object] = []

    def load(path: Path) -> Trace:
        kept.extend(each() for each in (frozen, later))
        return load_trace(path)

    monkeypatch.setattr(replay, "load_trace", load)
    prepared_trace(paths[0])
    assert later() is not None
    prepared_trace(paths[1])
    assert kept == [None, None]

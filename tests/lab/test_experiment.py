"""An experiment: in which order it runs replays, and how it returns their results."""

from collections.abc import Sequence
from pathlib import Path

from tests.lab.histories import busy, settings
from tests.pipeline.traffic import write_segments
from tocsin.lab.experiment import IN_FORCE, Candidate, Experiment
from tocsin.lab.runners import LocalRunner, Progress
from tocsin.lab.tasks import ReplayTask, Task
from tocsin.policies import parse_policy


class Watched(LocalRunner):
    """A runner that keeps the replays that it has run."""

    def __init__(self) -> None:
        self.replays: list[ReplayTask] = []

    def run(self, tasks: Sequence[Task], progress: Progress | None = None) -> list[float]:
        self.replays += [task for task in tasks if isinstance(task, ReplayTask)]
        return super().run(tasks, progress)


def test_all_candidates_of_a_window_are_replayed_one_after_the_other(tmp_path: Path) -> None:
    write_segments(tmp_path / "segments", "p", busy(1500, per_day=30_000), 1000)
    runner = Watched()
    experiment = Experiment(tmp_path / "lab", runner, settings(window_s=3600))
    experiment.record(tmp_path / "segments")
    candidates = [Candidate(IN_FORCE, None), Candidate.of("quick", parse_policy("aging: {threshold_s: 5}"))]
    found = experiment.replays(candidates)
    windows = [window.path for window in experiment.windows]
    assert len(windows) > 1
    assert [task.trace for task in runner.replays] == [path for path in windows for _ in candidates]
    assert [len(results) for results in found] == [len(windows)] * len(candidates)
    # A replay is compared with the recording only under the policies in force.
    assert [result.fidelity is not None for results in found for result in results] == [
        candidate.document is None for candidate in candidates for _ in windows
    ]

"""Runners: Spark and this process give identical results."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lab.histories import busy, settings
from tests.pipeline.traffic import write_segments
from tocsin.core.errors import TocsinError
from tocsin.lab.experiment import Candidate, Experiment
from tocsin.lab.report.document import Report, compare
from tocsin.lab.runners import LocalRunner, Runner, SparkRunner
from tocsin.policies import parse_policy


def reported(folder: Path, events: Path, runner: Runner) -> Report:
    experiment = Experiment(folder, runner, settings(window_s=3600))
    done: list[tuple[int, int]] = []
    experiment.record(events, progress=lambda *count: done.append(count))
    assert done[-1][0] == done[-1][1]
    return compare(experiment, [Candidate.of("quick", parse_policy("aging: {threshold_s: 5}"))])


def test_spark_and_here_are_the_same(tmp_path: Path, spark: SparkSession) -> None:
    for number, project in enumerate(("p", "q")):
        write_segments(tmp_path / "segments", project, busy(1500, seed=number, per_day=30_000), 1000)
    here = reported(tmp_path / "here", tmp_path / "segments", LocalRunner())
    there = reported(tmp_path / "there", tmp_path / "segments", SparkRunner(spark))
    assert here == there
    assert here.projects == ["p", "q"]
    assert here.fidelity is not None
    assert here.fidelity.faithful
    assert len(here.windows) > 1
    for path in (tmp_path / "here" / "results").iterdir():
        assert (tmp_path / "there" / "results" / path.name).read_bytes() == path.read_bytes()


def test_what_a_worker_refuses_is_told_here(tmp_path: Path, spark: SparkSession) -> None:
    _, second, *_ = write_segments(tmp_path / "segments", "p", busy(1500, per_day=30_000), 500)
    second.unlink()
    with pytest.raises(TocsinError, match="are missing") as refused:
        Experiment(tmp_path / "lab", SparkRunner(spark), settings()).record(tmp_path / "segments")
    assert refused.value.code == "E_LAB_002"

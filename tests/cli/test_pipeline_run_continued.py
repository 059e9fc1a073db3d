"""A run of `tocsin pipeline run` that is interrupted, and the next one, which all tests of this file look at."""

import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.test_pipeline_run import LAST_LINE, command, prepared, started_in, wait_until
from tocsin.extract import FOLDER, read_index
from tocsin.pipeline.jobs.steps import Step, parse_line

_LIMIT_S = 240.0
STEPS = ["spark", "events", "tables", "advice", "extract", "report"]


class Ended(NamedTuple):
    """A command that has ended: its exit code and its output."""

    code: int
    out: str
    err: str


class Runs(NamedTuple):
    """Two runs over the same data."""

    data: Path
    #: What the first one said after it was interrupted.
    interrupted: Ended
    #: What it left where Spark keeps its files while it runs.
    left: list[Path]
    continued: Ended

    @property
    def steps(self) -> list[Step]:
        """Return the steps of the second run."""
        return [step for step in map(parse_line, self.continued.out.splitlines()) if step is not None]

    @property
    def rows(self) -> dict[str, int | None]:
        """Return the rows of each step of the second run."""
        return {step.name: step.rows for step in self.steps if step.state == "OK"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Interrupt a run while it makes the tables, and run again."""
    data = prepared(tmp_path_factory.mktemp("runs"))
    scratch = data.parent / "scratch"
    with subprocess.Popen(  # noqa: S603
        command(data), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stderr is not None
        for line in first.stdout:
            if line == "3 of 6 START tables\n":
                break
        assert started_in(scratch)
        first.send_signal(signal.SIGINT)
        out, err = first.stdout.read(), first.stderr.read()
    wait_until(lambda: not started_in(scratch))
    left = list(scratch.iterdir())
    done = subprocess.run(  # noqa: S603
        command(data), capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    return Runs(data, Ended(first.returncode, out, err), left, Ended(done.returncode, done.stdout, done.stderr))


def test_an_interrupted_run_says_one_line_and_leaves_no_files(runs: Runs) -> None:
    assert runs.interrupted == (130, "", LAST_LINE + "\n")
    assert runs.left == []


def test_each_step_of_a_run_is_a_line_when_it_starts_and_when_it_ends(runs: Runs) -> None:
    assert [(step.number, step.count, step.name, step.state) for step in runs.steps] == [
        (number, 6, name, state) for number, name in enumerate(STEPS, 1) for state in ("START", "OK")
    ]


def test_a_run_without_a_terminal_ends_well_and_prints_no_control_characters(runs: Runs) -> None:
    assert (runs.continued.code, runs.continued.err) == (0, "")
    assert "\x1b" not in runs.continued.out


def test_the_next_run_makes_the_tables_that_an_interrupted_one_did_not(runs: Runs) -> None:
    assert runs.rows["tables"]


def test_a_step_counts_the_rows_that_it_made(runs: Runs) -> None:
    index = read_index(runs.data / "warehouse" / FOLDER)
    assert index is not None
    extracted = sum(part.kept for table in index.tables.values() for part in table.parts)
    assert (runs.rows["extract"], runs.rows["spark"]) == (extracted, None)


def test_a_run_writes_the_report(runs: Runs) -> None:
    assert "<title>Tocsin report: p</title>" in (runs.data / "reports" / "report.html").read_text()

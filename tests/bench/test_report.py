"""Reports of benches name their conditions, and nothing is published that was measured under bad ones."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.machine import Load, LoadWatch
from bench.report import Aim, Run

from bench import machine, report
from tocsin.form import package_form

BUSY = "import time; end = time.monotonic() + 30\nwhile time.monotonic() < end: pass"
AIMS = (Aim("speed", ">=", 2, "how fast it is"), Aim("cost", "<=", 2, "what it costs"), Aim("other", "<", 1, "more"))


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page with a place for the figures of one bench."""
    page = tmp_path / "performance.md"
    page.write_text(
        "# Performance\n\n<!-- written by make bench-some WRITE_DOCS=1: do not edit -->\nold\n"
        "<!-- end of bench-some -->\n"
    )
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "commit", lambda: "abc1234")
    return page


def run_of(
    monkeypatch: pytest.MonkeyPatch, *, before: float = 0.0, during: float = 0.0, rounds: int = 5, quick: bool = False
) -> Run:
    monkeypatch.setattr(report, "measure_load", lambda seconds: before)
    monkeypatch.setattr(LoadWatch, "load", Load(during, during * 2))
    chosen = argparse.Namespace(quick=quick, rounds=rounds, write_docs=True)
    with Run("bench-some", chosen, rounds=5) as run:
        return run


def test_a_report_ends_with_its_figures_and_their_conditions(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(monkeypatch, before=0.05, during=0.1).finish("speed 3", {"speed": 3.0, "cost": 2.5}, AIMS)
    *told, last = capsys.readouterr().out.splitlines()
    assert json.loads(last) == {
        "form": package_form(),
        "commit": "abc1234",
        "rounds": 5,
        "load_before": 0.05,
        "load_during": 0.1,
        "load_during_most": 0.2,
        "speed": 3.0,
        "cost": 2.5,
    }
    text = "\n".join(told)
    assert "commit abc1234" in text
    assert "0.05 before, 0.10 during" in text
    verdicts = {line.split()[0]: line.split()[-1] for line in told if line.startswith(("speed  ", "cost  ", "other"))}
    assert verdicts == {"speed": "met", "cost": "missed", "other": "measured"}


def test_figures_in_the_docs_carry_the_conditions(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(monkeypatch).finish("speed 3", {"speed": 3.0, "cost": 2.5}, AIMS)
    written = page.read_text()
    assert "commit abc1234" in written
    assert "cores used by other programs: 0.00 before, 0.00 during" in written
    assert "```\nspeed 3\n```" in written
    assert "| `cost`: what it costs | ≤ 2 | 2.5 | **missed** |" in written
    assert "old" not in written
    assert written.endswith("<!-- end of bench-some -->\n")


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"before": 0.5}, "other programs used 0.50 cores before"),
        ({"during": 0.3}, "0.30 during the run"),
        ({"quick": True}, "quick run"),
        ({"rounds": 4}, "4 rounds are too few"),
    ],
)
def test_figures_of_a_bad_run_are_printed_but_not_published(
    conditions: dict[str, float],
    reason: str,
    page: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = page.read_text()
    with pytest.raises(SystemExit, match=reason):
        run_of(monkeypatch, **conditions).finish("speed 3", {"speed": 3.0}, AIMS)  # type: ignore[arg-type]
    assert page.read_text() == before
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["speed"] == 3.0


def test_figures_of_local_changes_are_not_published(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "commit", lambda: "abc1234+")
    with pytest.raises(SystemExit, match="local changes"):
        run_of(monkeypatch).finish("speed 3", {"speed": 3.0}, AIMS)


def test_a_page_without_a_place_for_a_bench_is_named(page: Path) -> None:
    with pytest.raises(SystemExit, match="has no part for bench-other"):
        report.write_part(page, "bench-other", "text")


def test_the_performance_page_has_a_place_for_every_bench_that_writes_it() -> None:
    makefile = (report.ROOT / "Makefile").read_text(encoding="utf-8")
    written = [line.split(":")[0] for line in makefile.splitlines() if line.startswith("bench-")]
    page = (report.ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert written
    assert [name for name in written if page.count(f"<!-- end of {name} -->") != 1] == []


def test_own_processes_are_no_load_and_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same busy process, seen by its parent, and by a process that has not started it."""
    mine = machine.OwnTime()
    first = machine.take_sample(mine)
    with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:  # noqa: S603
        while machine.running_processes()[busy.pid].ticks < 30:
            pass
        last = machine.take_sample(mine)
        stranger = busy.pid
        own = last.own - first.own
        monkeypatch.setattr("os.getpid", lambda: stranger)
        seen_by_it = machine.take_sample(machine.OwnTime())
        busy.kill()
    assert own >= 30  # Ticks of the child and of this process, which looked at it.
    assert 30 <= seen_by_it.own <= own
    assert last.busy - first.busy >= 30


def test_the_time_of_a_process_that_nobody_waited_for_stays_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grandchild that its parent does not wait for: its time is given to nobody when it ends."""
    me, own = 10, machine.OwnTime()
    monkeypatch.setattr("os.getpid", lambda: me)
    alive = {1: machine.Process(0, 500, 500), me: machine.Process(1, 5, 5), 11: machine.Process(me, 7, 7)}
    assert own.ticks(alive | {12: machine.Process(11, 100, 100)}) == 112
    assert own.ticks(alive) == 112
    orphan = {12: machine.Process(1, 130, 130)}
    assert own.ticks(alive | orphan) == 142, "a process that was seen stays own when its parent has ended"

"""Forked processes: like those that Python starts, as far as tests see."""

import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import forks
from tests.forks import Forked, run, stand_in

#: A module for a process to run.
PROGRAM = """
import os, random, sys
words = sys.argv[1:]
print(os.getpid(), os.getcwd(), os.environ.get("GIVEN"), words, random.random())
if words == ["wait"]:
    sys.stdout.flush()
    while True:
        import signal
        signal.pause()
sys.stderr.write(sys.stdin.read())
sys.exit(7)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "program_of_a_test.py").write_text(PROGRAM)
    return tmp_path


def test_folder_environment_words_output_and_exit_code(place: Path) -> None:
    answers = [run(["program_of_a_test", "a", "b"], cwd=place, env={"GIVEN": "x"}, timeout_s=60) for _ in range(2)]
    assert [(done.returncode, done.stderr) for done in answers] == [(7, "")] * 2
    first, second = (done.stdout.split(" ", 1) for done in answers)
    assert first[0] != second[0]
    assert int(first[0]) != os.getpid()
    told = f"{place} x ['a', 'b'] "
    assert first[1].startswith(told)
    assert second[1].startswith(told)
    assert first[1] != second[1], "random numbers are drawn anew"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (Forked.terminate, -signal.SIGTERM),
        (Forked.kill, -signal.SIGKILL),
        (lambda process: process.send_signal(signal.SIGINT), -signal.SIGINT),
    ],
)
def test_a_signal_ends_it(place: Path, end: Callable[[Forked], None], code: int) -> None:
    with (place / "errors").open("wb") as errors:
        process = Forked(["program_of_a_test", "wait"], cwd=place, stderr=errors)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(f"{process.pid} ")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    end(process)
    assert process.wait(60) == code
    assert process.communicate() == ("", None)


def test_a_command_for_a_library_hands_its_files_over(place: Path) -> None:
    command = stand_in(["program_of_a_test"])
    done = subprocess.run(command, cwd=place, input="read", capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stderr) == (7, "read")
    assert str(place) in done.stdout


def test_threads_share_one_template(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "templates", {})
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: forks.run(["program_of_a_test"], cwd=place, env={}, timeout_s=60), range(4)))
        paths = set(threads.map(lambda _: forks.stand_in([])[4], range(4)))
    assert len(paths) == len(forks.templates) == 1
    ((_, process),) = forks.templates.values()
    process.communicate(timeout=60)
    assert not Path(paths.pop()).parent.exists(), "it removes its socket when it ends"


def test_what_still_runs_ends_with_the_tests(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "templates", {})
    process = Forked(["program_of_a_test", "wait"], cwd=place)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(f"{process.pid} ")
    ((_, template),) = forks.templates.values()
    template.communicate(timeout=60)
    assert process.communicate(60) == ("", None)
    assert process.returncode == -signal.SIGKILL

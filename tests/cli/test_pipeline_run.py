"""`tocsin pipeline run` as a process: its bar on a terminal, and signals at any moment."""

import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.pipeline.clusters import QUICK_WORDS
from tests.pipeline.test_message_life import STORY
from tests.pipeline.traffic import write_segment
from tests.soak import SOAK
from tocsin.pipeline.jobs.steps import Step, Steps, parse_line

_LIMIT_S = 240.0
SETTINGS = "class_archive: false\ndriver_memory_mib: 512\n"
LAST_LINE = "interrupted; the next run continues from the last commit"


def prepared(place: Path) -> Path:
    """Make a data directory with a segment, and beside it a folder for what Spark needs while it runs."""
    folder = place / "data"
    write_segment(folder / "segments", "p", 1, STORY)
    (folder / "pipeline.yaml").write_text(SETTINGS)
    (place / "scratch").mkdir()
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return prepared(tmp_path)


def command(data: Path) -> list[str]:
    scratch = str(data.parent / "scratch")
    return [
        *(sys.executable, "-W", "error", "-m", "tocsin", "pipeline", "--data", str(data), "--scratch", scratch),
        *("--master", "local[1]", *QUICK_WORDS, "run"),
    ]


def started_in(folder: Path) -> list[str]:
    """Return the programs other than the command itself that were started with a path of a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            about = words + (process / "environ").read_bytes()
        except OSError:
            continue
        if f"{folder}/tocsin-spark".encode() in about:
            found.append(words.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


def wait_until(condition: Callable[[], object]) -> None:
    """Look until a condition holds; pytest's time limit ends a test in which it never does."""
    while not condition():
        select.select([], [], [], 0.02)


class Terminal:
    """A command on a terminal of its own, and what it has printed."""

    def __init__(self, words: list[str]) -> None:
        ours, theirs = pty.openpty()
        self._ours = ours
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
        self.process = subprocess.Popen(  # noqa: S603
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
            preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(theirs)
        self.printed = b""

    def read(self) -> bool:
        """Read what is there; return False at the end."""
        ready, _, _ = select.select([self._ours], [], [], 0.05)
        if not ready:
            return True
        try:
            more = os.read(self._ours, 65536)
        except OSError:
            return False
        self.printed += more
        return bool(more)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def close(self) -> None:
        os.close(self._ours)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(data: Path) -> Iterator[Terminal]:
    running = Terminal(command(data))
    yield running
    running.close()


def lines_of(printed: bytes) -> list[str]:
    """Return the lines of a terminal without its control sequences."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode())
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def test_a_bar_moves_while_spark_starts_and_ctrl_c_ends_with_one_line(data: Path, terminal: Terminal) -> None:
    scratch = data.parent / "scratch"
    while not (terminal.printed.count(b"1 of 6 spark") > 5 and started_in(scratch)):
        assert terminal.read(), terminal.printed
    assert b"OK spark" not in terminal.printed
    terminal.type(b"\x03")
    while terminal.read():
        pass
    assert terminal.process.wait(_LIMIT_S) == 130
    lines = lines_of(terminal.printed)
    assert lines[-1] == LAST_LINE
    assert len({line for line in lines if "1 of 6 spark" in line}) > 2, "the bar moved"
    assert all("1 of 6 spark" in line or line.replace("^C", "") == LAST_LINE for line in lines), lines
    wait_until(lambda: not started_in(scratch))
    assert list(scratch.iterdir()) == []


def test_sigterm_ends_it_too(data: Path) -> None:
    with subprocess.Popen(  # noqa: S603
        command(data), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        assert job.stderr is not None
        assert job.stdout.readline() == "1 of 6 START spark\n"
        job.terminate()
        assert job.stdout.read() == ""
        assert job.stderr.read() == LAST_LINE + "\n"
    assert job.returncode == 143
    wait_until(lambda: not started_in(data.parent / "scratch"))


def test_a_line_is_read_back() -> None:
    heard: list[Step] = []
    steps = Steps(["one", "two"], heard.append)
    with steps.step("one") as running:
        running.progress("half", 1, 2)
        running.rows = 12345
    with pytest.raises(ValueError, match="broken"), steps.step("two"):
        raise ValueError("broken")
    assert [step.state for step in heard] == ["START", "RUN", "OK", "START", "ERROR"]
    assert (heard[1].part, heard[1].done, heard[1].total) == ("half", 1, 2)
    for step in heard:
        read = parse_line(step.line + "\n")
        if step.state == "RUN":
            assert read is None
        else:
            assert read is not None
            assert (read.number, read.count, read.name, read.state, read.rows) == (
                step.number, 2, step.name, step.state, step.rows,
            )  # fmt: skip
    assert parse_line("20,002 events of 11 new segments in 31.0 s") is None


def test_a_stream_ends_without_another_word(tmp_path: Path) -> None:
    """One that watches is interrupted, one that does not ends by itself; `make test` draws one of them.

    Threads of Spark's callbacks that were still running let DuckDB report leaks when Python exits.
    """
    ways = [ends_when_it_has_read_all, ends_when_it_is_interrupted]
    seed = random.SystemRandom().randrange(2**31)
    for end in ways if SOAK else random.Random(seed).sample(ways, 1):
        print(f"seed {seed}: {end.__name__}")  # noqa: T201
        end(prepared(tmp_path / end.__name__))


def ends_when_it_has_read_all(data: Path) -> None:
    stream = subprocess.run(  # noqa: S603
        [*command(data)[:-1], "stream", "--once"], capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    assert (stream.returncode, stream.stderr) == (0, ""), stream.stdout
    assert f"{len(STORY)} events" in stream.stdout


def ends_when_it_is_interrupted(data: Path) -> None:
    with (
        subprocess.Popen(  # noqa: S603
            [*command(data)[:-1], "stream", "--every", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as stream
    ):
        assert stream.stdout is not None
        assert stream.stderr is not None
        for line in stream.stdout:
            if line.startswith("batch 0: version"):
                break
        stream.send_signal(signal.SIGINT)
        rest, told = stream.stdout.read(), stream.stderr.read()
    assert (stream.returncode, told) == (130, LAST_LINE + "\n")
    assert all(line.startswith("batch ") for line in rest.splitlines()), rest

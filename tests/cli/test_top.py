"""`tocsin top` in a terminal of its own: what it draws, that it draws again, and how it ends."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.processes import COMMAND, RunningHub


class Terminal:
    """A screen that is read, and a keyboard that is typed on."""

    def __init__(self, process: "subprocess.Popen[bytes]", end: int) -> None:
        self.process = process
        self._end = end
        self.drawn = ""

    def until(self, *texts: str, timeout_s: float = 30) -> str:
        """Read until all of it has been drawn since the last time, and return what has."""
        start, late = len(self.drawn), time.monotonic() + timeout_s
        while not all(text in self.drawn[start:] for text in texts):
            assert time.monotonic() < late, self.drawn
            self._read()
        return self.drawn[start:]

    def _read(self) -> None:
        if select.select([self._end], [], [], 0.1)[0]:
            with suppress(OSError):  # what is raised between the end of the other side and when one is told of it
                self.drawn += os.read(self._end, 65_536).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def ended(self, timeout_s: float = 30) -> int:
        """Wait for the end, reading what is still drawn, and return the exit code."""
        late = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < late, self.drawn
            self._read()
        return self.process.wait()


@contextmanager
def terminal(*command: str, cwd: Path) -> Iterator[Terminal]:
    """Run a command in a terminal that is its own, so that Ctrl-C is what a keyboard makes of it.

    Tests that a script runs in the background ignore Ctrl-C, and so would the command, if it were not told otherwise.
    """
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    environment |= {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(  # noqa: S603
        ["setsid", "--ctty", "--wait", "env", "--default-signal=INT", *command],  # noqa: S607
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env=environment,
    ) as process:
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            process.wait()
            os.close(theirs)
            os.close(ours)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with RunningHub(tmp_path_factory.mktemp("top") / "data", "--project", "[red]herrings") as hub:
        hub.ask("agents", "add", "ada", "--save")
        yield hub


@pytest.mark.parametrize("keys", ["q", "\x03"], ids=["q", "Ctrl-C"])
def test_top_draws_again_until_one_has_seen_enough(hub: RunningHub, keys: str) -> None:
    options = ("--url", hub.url, "--data", str(hub.data))
    with terminal(*COMMAND, *options, "top", "--interval-s", "0.05", cwd=hub.data.parent) as screen:
        screen.until("[red]herrings: serving", "ada", "not_available_offline", "Info ")
        hub.ask("send", "ada", "hello", "--type", "Question", "--delivery-class", "async", agent="ada")
        hub.ask("agents", "add", f"bob{ord(keys)}", "--save")
        assert "Blocking 1" in screen.until("Blocking 1", f"bob{ord(keys)}")
        screen.type("x")
        screen.until("serving")
        screen.type(keys)
        assert screen.ended() == 0
    assert "Traceback" not in screen.drawn
    assert "Aborted" not in screen.drawn
    hub.ask("inbox", "--take", agent="ada")
    hub.ask("inbox", agent="ada")


def test_top_says_so_when_the_hub_goes_away(hub: RunningHub) -> None:
    """The last in this file: the hub is gone afterwards."""
    options = ("--url", hub.url, "--data", str(hub.data))
    with terminal(*COMMAND, *options, "top", "--interval-s", "0.05", cwd=hub.data.parent) as screen:
        screen.until("[red]herrings: serving")
        hub.stop()
        assert screen.ended() in (6, 7)
    assert "Traceback" not in screen.drawn

"""`tocsin top` in a terminal of its own: what it draws, that it draws again, and how it ends."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import COMMAND, RunningHub
from tests.patience import PATIENCE_S
from tocsin.cli.tail import sentence
from tocsin.core.events import EVENT_TYPES


class Terminal:
    """A screen that is read, and a keyboard that is typed on."""

    def __init__(self, process: "subprocess.Popen[bytes]", end: int) -> None:
        self.process = process
        self._end = end
        self.drawn = ""

    def until(self, *texts: str, timeout_s: float = PATIENCE_S) -> str:
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

    def ended(self, timeout_s: float = PATIENCE_S) -> int:
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
            process.wait(PATIENCE_S)
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
        screen.until("[red]herrings: serving", "ada", "offline", "waiting: nothing")
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


def test_top_tells_what_happens(hub: RunningHub) -> None:
    options = ("--url", hub.url, "--data", str(hub.data))
    with terminal(*COMMAND, *options, "top", "--interval-s", "0.05", cwd=hub.data.parent) as screen:
        screen.until("no events since this view was opened")
        hub.ask("send", "ada", "hello", "--type", "Question", "--delivery-class", "async", agent="ada")
        screen.until("ada → ada, Question: accepted at Blocking, the default of its type")
        hub.ask("leases", "acquire", "src/[app].py", agent="ada")
        screen.until("lease granted: ada, src/[app].py")
        hub.ask("inbox", "--take", agent="ada")
        screen.until("ada → ada, Question: handed")
        screen.type("q")
        assert screen.ended() == 0


def test_top_without_the_right_to_see_events_says_so(hub: RunningHub) -> None:
    options = ("--url", hub.url, "--data", str(hub.data), "--as", "ada")
    with terminal(*COMMAND, *options, "top", "--interval-s", "0.05", cwd=hub.data.parent) as screen:
        screen.until("events are shown to directors, humans and the admin token only")
        screen.type("q")
        assert screen.ended() == 0


EXAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    "MessageDied": ({"message": 7, "reason": "rejected", "code": "E_TASK_003", "attempts": 1, "detail": ""}, "a → b: "),
    "AlertRaised": ({"metric": "routing_s", "value": 0.0051234, "limit": 0.001}, "alert raised: routing_s, 0.005123"),
    "SessionClosed": ({"session": "s", "agent": "a\x1b[31m", "reason": "lost"}, "session closed: a [31m, lost"),
    "LeaseReleased": ({"holder": "a", "resources": ["x", "y"], "reason": "done"}, "lease released: a, x y, done"),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_an_event_is_told_in_words(kind: str) -> None:
    facts, expected = EXAMPLES[kind]
    event = {"kind": kind, "project": "p", "seq": 9, "at": 1_000_000, **facts}
    assert sentence(event, {7: "a → b: "}).startswith(expected)


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_every_kind_of_event_has_a_sentence(kind: type) -> None:
    assert sentence({"kind": kind.__name__, "project": "p", "seq": 9, "at": 1_000_000}, {})


def test_top_says_so_when_the_hub_goes_away(hub: RunningHub) -> None:
    """The last in this file: the hub is gone afterwards."""
    options = ("--url", hub.url, "--data", str(hub.data))
    with terminal(*COMMAND, *options, "top", "--interval-s", "0.05", cwd=hub.data.parent) as screen:
        screen.until("[red]herrings: serving")
        hub.stop()
        assert screen.ended() in (6, 7)
    assert "Traceback" not in screen.drawn

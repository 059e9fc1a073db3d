"""`tocsin wake tmux` with a real tmux, and a program that takes prompts as coding agents do."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.cli import terminal_client
from tests.cli.processes import Told, asked
from tests.debian import need
from tests.patience import PATIENCE_S
from tocsin.cli.programs.tmux import PROMPT, Pacing, Pane, submit

TEXT = "You were woken: call fetch_inbox."
QUICK = ("--wait-s", "0", "--submit-s", "1", "--again-s", "0.2")


class Terminal:
    """A session of tmux with the program in it."""

    def __init__(self, folder: Path, *flags: str, name: str = "bob") -> None:
        self.folder = folder
        words = [sys.executable, terminal_client.__file__, str(folder), *flags]
        tmux("new-session", "-d", "-s", name, "-x", "60", "-y", "20", *words)
        self._name = name
        until(lambda: self.screen().strip(), "the program")

    def screen(self) -> str:
        return tmux("capture-pane", "-p", "-t", self._name)

    def type(self, text: str) -> None:
        tmux("send-keys", "-t", self._name, "-l", text)
        until(lambda: text in self.screen(), text)

    def press(self, *keys: str) -> None:
        tmux("send-keys", "-t", self._name, *keys)

    def submitted(self) -> list[str]:
        path = self.folder / "submitted"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tmux(*words: str) -> str:
    return subprocess.run(["tmux", *words], check=True, capture_output=True, encoding="utf-8").stdout  # noqa: S603, S607


def until(what: Callable[[], object], meant: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, f"there never was {meant}"
        time.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tmux server of its own, which ends with the test."""
    need("tmux", "tmux")
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    tmux("-f", os.devnull, "new-session", "-d", "-s", "other", "cat")
    yield tmp_path
    tmux("kill-server")


def wake(*options: str, pane: str = "bob", text: str = TEXT) -> Told:
    return asked("wake", "tmux", pane, "--text", text, *options)


def test_a_line_is_typed_and_submitted_where_one_burst_is_not(folder: Path) -> None:
    bob = Terminal(folder)
    tmux("send-keys", "-t", "bob", "-l", "at once", ";", "send-keys", "-t", "bob", "Enter")
    until(lambda: "at once" in bob.screen(), "the paste")
    assert bob.submitted() == [], "this program takes it as a paste"
    bob.press("C-u")
    until(lambda: "Ask anything" in bob.screen(), "an empty prompt")
    assert wake() == (0, "", "")
    assert bob.submitted() == [TEXT]


@pytest.mark.parametrize("flags", [(), ("wraps",)], ids=["wrapped by the terminal", "wrapped by the program"])
def test_any_line_is_recognised(folder: Path, flags: tuple[str, ...]) -> None:
    bob = Terminal(folder, *flags)
    text = "-x 'quoted' $HOME; \N{CJK UNIFIED IDEOGRAPH-6F22} " + "a word, " * 20 + "the end;"
    assert wake(text=text) == (0, "", "")
    assert bob.submitted() == [text]


@pytest.mark.parametrize("at_its_beginning", [False, True])
def test_a_draft_is_left_alone(folder: Path, at_its_beginning: bool) -> None:
    bob = Terminal(folder)
    bob.type("what I wanted to sa")
    if at_its_beginning:
        bob.press("C-a")
        until(lambda: tmux("display-message", "-p", "-t", "bob", "#{cursor_x}").strip() == "2", "the cursor there")
    before = bob.screen()
    assert wake(*QUICK) == (6, "", "tocsin wake: a draft is in the prompt\n")
    assert bob.screen() == before
    assert bob.submitted() == []


def test_it_waits_until_the_draft_is_gone(folder: Path) -> None:
    bob = Terminal(folder)
    bob.type("a draft")
    waiting = Thread(target=submit, args=(Pane("bob"), TEXT, re.compile(PROMPT), Pacing(PATIENCE_S, 0.3, 10, 2)))
    waiting.start()
    bob.press("C-u")
    waiting.join()
    assert bob.submitted() == [TEXT]


def test_a_line_that_was_not_submitted_is_reported_and_taken_up_by_the_next_attempt(folder: Path) -> None:
    bob = Terminal(folder)
    (folder / "jammed").touch()
    assert wake(*QUICK) == (1, "", "tocsin wake: the text is in the prompt, and Enter does not submit it\n")
    (folder / "jammed").unlink()
    assert wake(*QUICK).exit_code == 0
    assert bob.submitted() == [TEXT], "it was not typed a second time"


def test_enter_is_pressed_again(folder: Path) -> None:
    bob = Terminal(folder)
    (folder / "jammed").touch()
    pacing = Pacing(10, 0.3, PATIENCE_S, 0.2)
    waking = Thread(target=submit, args=(Pane("bob"), TEXT, re.compile(PROMPT), pacing))
    waking.start()
    until((folder / "ignored").exists, "an Enter that does nothing")
    (folder / "jammed").unlink()
    waking.join()
    assert bob.submitted() == [TEXT]


def test_what_somebody_adds_to_the_line_is_not_submitted(folder: Path) -> None:
    bob = Terminal(folder, "meddles")
    told = wake(*QUICK)
    assert told.exit_code == 1
    assert "is not seen alone in the prompt: not submitted" in told.stderr
    assert bob.submitted() == []


def test_a_question_is_not_answered(folder: Path) -> None:
    bob = Terminal(folder, "asks")
    before = bob.screen()
    told = wake(*QUICK)
    assert told.exit_code == 6
    assert "at no prompt" in told.stderr
    assert bob.screen() == before


def test_other_prompts_are_configured(folder: Path) -> None:
    tmux("new-session", "-d", "-s", "bob", "-x", "60", "-y", "20", "sh", "-c", "printf 'ask me: '; exec cat")
    until(lambda: "ask me:" in tmux("capture-pane", "-p", "-t", "bob"), "a prompt")
    assert wake(*QUICK).exit_code == 6
    assert wake(*QUICK, "--prompt", "ask me: ").exit_code == 0
    assert f"ask me: {TEXT}\n{TEXT}\n" in tmux("capture-pane", "-p", "-t", "bob")


def test_a_shell_and_a_pane_that_is_scrolled_are_left_alone(folder: Path) -> None:
    Terminal(folder)
    tmux("copy-mode", "-t", "bob")
    assert wake(*QUICK) == (6, "", "tocsin wake: somebody scrolls in the pane (tmux's copy mode)\n")
    tmux("new-session", "-d", "-s", "cleo", "-x", "60", "-y", "20", "env", "PS1=> ", "sh")
    until(lambda: ">" in tmux("capture-pane", "-p", "-t", "cleo"), "the shell's prompt")
    told = wake(*QUICK, pane="cleo")
    assert told.exit_code == 6
    assert "no client runs in the pane: a shell (sh)" in told.stderr


def test_a_pane_is_named_exactly(folder: Path) -> None:
    """By itself tmux takes the beginning of a name, and would type into the terminal of another agent."""
    bobby = Terminal(folder, name="bobby")
    told = wake(*QUICK)
    assert told.exit_code == 4
    assert told.stderr.startswith("tocsin wake: tmux: can't find")
    assert wake(pane="bobby:0.0").exit_code == 0
    assert bobby.submitted() == [TEXT]


def test_a_missing_tmux_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(folder))
    assert wake(*QUICK) == (4, "", "tocsin wake: tmux is not installed\n")
    monkeypatch.setenv("PATH", path)


@pytest.mark.parametrize(
    "options", [("--text", "two\nlines"), ("--text", "?!"), ("--text", "a" * 501), ("--prompt", "(")]
)
def test_what_cannot_be_typed_or_recognised_is_refused(options: tuple[str, str]) -> None:
    told = asked("wake", "tmux", "bob", *options)
    assert told.exit_code == 2
    assert options[0] in told.stderr

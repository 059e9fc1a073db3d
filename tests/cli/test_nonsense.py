"""Every command against something that is no hub: one sentence and an exit code that says so, whatever it speaks."""

import json
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from tests.cli.processes import COMMANDS, asked
from tests.soak import SOAK, tally
from tocsin.cli.operations.parameters import JSON_METAVAR
from tocsin.cli.remote import Exit

#: Words of commands that need more than their required arguments.
WORDS = {
    "call": ("get_status",),
    "policy apply": (os.devnull,),
    "policy diff": (os.devnull,),
    "requests send": ("bob", "hello"),
    "send": ("bob", "hello"),
    "top": ("--once",),
    "topics publish": ("news", "hello"),
}
#: Commands that call no hub, or handle the lack of one themselves.
OTHERS = {
    *(
        "quickstart",
        "completion install",
        "completion show",
        "init",
        "serve",
        "mcp",
        "work",
        "wake template",
        "wake log",
        "wake tmux",
        "segments upload",
        "import",
        "policy check",
        "backup",
        "restore",
        "doctor",
        "lab apply",
        "lab replay",
        "lab scenario",
        "lab search",
    ),
    *("hooks check", "hooks show", "hooks guard-commit", "hooks install git", "hooks uninstall git"),
    *("hooks install claude", "hooks install codex", "hooks uninstall claude", "hooks uninstall codex"),
    *("pipeline run", "pipeline stream", "pipeline extract", "pipeline status", "pipeline verify"),
    *("pipeline compact", "pipeline report", "pipeline advise", "pipeline query", "pipeline reread"),
}
JSON, HTML, TEXT = "application/json", "text/html", "text/plain"
NONSENSE = {
    "a page": (200, HTML, b"<html>hello</html>"),
    "a page that is not there": (404, HTML, b"<html>not found</html>"),
    "a page that is forbidden": (403, HTML, b"<html>go away</html>"),
    "another place": (302, HTML, b""),
    "plain text": (200, TEXT, b"OK"),
    "no text": (200, TEXT, b"\xff\xfe"),
    "half a document": (200, JSON, b'{"agent": '),
    "no characters": (200, JSON, b'"\xff\xfe"'),
    "a deep hole": (200, JSON, b"[" * 100_000),
    "nothing at all": (200, JSON, b""),
    "a refusal of another kind": (400, JSON, b'{"error": "bad request"}'),
    "a refusal that is no object": (500, JSON, b"[]"),
}
#: JSON, and yet nothing that a hub says: a command may make something of it, but not stumble.
STRANGE = {
    "an empty object": (200, JSON, b"{}"),
    "a number": (200, JSON, b"7"),
    "null": (200, JSON, b"null"),
    "a list of numbers": (200, JSON, b"[1, 2]"),
    "a list of objects": (200, JSON, b'[{"hello": "world"}]'),
    "an object of another kind": (200, JSON, b'{"items": 3, "receipt": [], "agent": {}, "held": "x", "registered": 1}'),
    "a refusal with nothing but a code": (400, JSON, b'{"code": 7}'),
}


class Liar(BaseHTTPRequestHandler):
    """Answers everything with the same."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, kind, body = self.server.said  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def liar() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Liar) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def leaves(group: Any, *before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from leaves(command, *before, name)
        else:
            yield " ".join([*before, name]), command


def words_of(command: Any) -> Iterator[str]:
    """Return what a command needs at least."""
    for parameter in command.params:
        if parameter.required:
            yield from (option for option in parameter.opts if option.startswith("--"))
            yield "{}" if parameter.metavar == JSON_METAVAR else "x"


COMMANDS_BY_NAME = dict(leaves(COMMANDS))
#: Commands that call a hub.
ASKING = {
    name: WORDS.get(name) or tuple(words_of(command))
    for name, command in COMMANDS_BY_NAME.items()
    if name not in OTHERS
}


def drawn(kinds: Sequence[str], kind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the commands to try with a kind of answer: all in `make soak`, else so that each command meets three."""
    every = 1 if SOAK else max(1, len(kinds) // 3)
    for number, found in enumerate(ASKING.items(), kinds.index(kind)):
        if number % every == 0:
            yield found


def test_the_commands_that_call_no_hub_exist() -> None:
    assert OTHERS | WORDS.keys() <= COMMANDS_BY_NAME.keys()
    assert len(ASKING) > 70


@pytest.mark.parametrize("kinds", [[*NONSENSE], [*STRANGE]])
def test_each_command_meets_some_answers_and_each_answer_some_commands(kinds: list[str]) -> None:
    found = {kind: [name for name, _ in drawn(kinds, kind)] for kind in kinds}
    assert min(Counter(name for names in found.values() for name in names).values()) >= 3
    assert {name for names in found.values() for name in names} == ASKING.keys()
    assert min(map(len, found.values())) >= len(ASKING) // 4


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_what_is_no_hub_is_said_so_in_a_sentence(liar: ThreadingHTTPServer, tmp_path: Path, nonsense: str) -> None:
    liar.said = NONSENSE[nonsense]  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{liar.server_port}"
    for command, words in drawn([*NONSENSE], nonsense):
        told = asked("--url", url, "--data", str(tmp_path), *command.split(), *words, "--json")
        tally("inputs_tried")
        assert told.exit_code == Exit.UNREACHABLE, (command, told.exit_code, told.stdout, told.stderr)
        assert (told.stderr.count("\n"), url in told.stderr) == (1, True), (command, told.stderr)
        problem = json.loads(told.stdout)
        assert (problem["error_code"], problem["detail"] + "\n") == ("hub_unreachable", told.stderr), command
    ask_the_others(url, tmp_path)


@pytest.mark.parametrize("strange", STRANGE)
def test_an_answer_of_another_shape_is_no_stumbling_block(
    liar: ThreadingHTTPServer, tmp_path: Path, strange: str
) -> None:
    liar.said = STRANGE[strange]  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{liar.server_port}"
    ends = {int(Exit.DONE): 0, int(Exit.REFUSED): 1, int(Exit.NOT_FOUND): 1, int(Exit.UNREACHABLE): 1}
    for command, words in drawn([*STRANGE], strange):
        told = asked("--url", url, "--data", str(tmp_path), *command.split(), *words)
        tally("inputs_tried")
        assert told.stderr.count("\n") == ends[told.exit_code], (command, told.exit_code, told.stderr)
        told = asked("--url", url, "--data", str(tmp_path), *command.split(), *words, "--json")
        json.loads(told.stdout)
    ask_the_others(url, tmp_path)


def ask_the_others(url: str, data: Path) -> None:
    told = asked("--url", url, "--data", str(data), "doctor", "--json")
    assert (told.exit_code, [check["good"] for check in json.loads(told.stdout)]) == (1, [False] * 3 + [True]), (
        told.stdout
    )
    assert asked("--url", url, "--data", str(data), "hooks", "check", "--event", "Stop").stdout == ""


@pytest.mark.parametrize("nonsense", [NONSENSE["a page"], STRANGE["a list of numbers"], STRANGE["a list of objects"]])
def test_a_commit_is_not_checked_by_what_is_no_hub(
    liar: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nonsense: tuple[int, str, bytes]
) -> None:
    liar.said = nonsense  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for command in (("git", "init", "--quiet"), ("git", "add", "file")):
        subprocess.run(command, check=True)  # noqa: S603
    options = ("--url", f"http://127.0.0.1:{liar.server_port}", "hooks", "guard-commit")
    told = asked(*options)
    assert (told.exit_code, "the commit was not checked" in told.stderr) == (0, True)
    told = asked(*options, "--strict")
    assert (told.exit_code, "the guard is strict" in told.stderr) == (1, True)

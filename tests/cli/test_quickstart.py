"""`tocsin quickstart` as a process: with and without a terminal, where a project is, and on a port in use."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.processes import COMMAND, run
from tests.cli.test_top import terminal
from tests.patience import PATIENCE_S
from tocsin.cli.remote import Exit

_LAST = "Ctrl-C stops the hub."


@contextmanager
def started(*options: str, cwd: Path) -> Iterator["tuple[subprocess.Popen[str], list[str]]"]:
    """Run it without a terminal until it has told everything; at the end it must not run any more."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    with subprocess.Popen(  # noqa: S603
        ["env", "--default-signal=INT", *COMMAND, "quickstart", "--port", "0", *options],  # noqa: S607
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment,
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                said.append(line.rstrip())
                if _LAST in line:
                    break
            yield process, said
            said += process.stdout.read().splitlines()
        finally:
            if process.poll() is None:
                process.kill()


def url_of(said: list[str]) -> str:
    assert said[0].startswith("serving project default at http://"), said
    return said[0].split()[-1]


def until_it_reads(process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process that has asked a question sleeps in the read of the answer.

    A Ctrl-C between the question and the read does not end the read: Python raises KeyboardInterrupt after it.
    """
    late = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < late, "it does not wait for an answer"
        time.sleep(0.01)


def test_the_message_waits_and_the_commands_that_are_named_work(tmp_path: Path) -> None:
    with started("--yes", cwd=tmp_path) as (process, said):
        url = url_of(said)
        inbox = next(line for line in said if "inbox --take" in line)
        assert f"--url {url} " in inbox
        taken = run("--url", url, "--as", "dev", "inbox", "--take", "--json", cwd=tmp_path)
        assert taken.returncode == 0, taken.stderr
        (delivery,) = json.loads(taken.stdout)["deliveries"]
        assert "Welcome to the team" in json.dumps(delivery)
        assert run("--url", url, "--as", "lead", "send", "dev", "again", cwd=tmp_path).returncode == 0
        entry = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["tocsin"]
        assert entry["args"][-1] == "mcp"
        assert json.loads((tmp_path / ".tocsin" / "agent.json").read_text())["agent"] == "dev"
        assert "hooks check" in (tmp_path / ".claude" / "settings.json").read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 0
    assert said[-1] == _LAST, "Ctrl-C ends it without another word"
    assert (tmp_path / ".tocsin" / "tokens" / "dev.token").stat().st_mode & 0o077 == 0


def test_without_a_terminal_nothing_is_asked_or_written_for_claude_code(tmp_path: Path) -> None:
    with started("team", cwd=tmp_path) as (process, said):
        assert any("Claude Code is not connected" in line and "--as dev hooks install claude" in line for line in said)
        assert "  cd team" in said
        assert [path.name for path in (tmp_path / "team").iterdir()] == [".tocsin"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_S) == 0


def test_a_terminal_asks_and_no_means_no(tmp_path: Path) -> None:
    with terminal(*COMMAND, "quickstart", "--port", "0", cwd=tmp_path) as screen:
        assert ".mcp.json and .claude/settings.json" in screen.until("[Y/n]")
        assert not (tmp_path / ".tocsin").exists()
        screen.type("n\n")
        said = screen.until("Claude Code is not connected", _LAST)
        assert "\x1b[32m✓\x1b[0m agent lead" in said
        assert not (tmp_path / ".mcp.json").exists()
        screen.type("\x03")
        assert screen.ended() == 0
    assert "Traceback" not in screen.drawn


def test_ctrl_c_at_the_question_leaves_nothing(tmp_path: Path) -> None:
    with terminal(*COMMAND, "quickstart", "new", "--port", "0", cwd=tmp_path) as screen:
        screen.until("[Y/n] ")
        until_it_reads(screen.process)
        screen.type("\x03")
        assert screen.ended() != 0
    assert "Stopped before anything was made." in screen.drawn
    assert "Traceback" not in screen.drawn
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_project_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".tocsin").mkdir()
    told = run("quickstart", "--yes", "--port", "0", cwd=tmp_path)
    assert told.returncode == Exit.REFUSED
    assert ".tocsin exists" in told.stderr
    assert "`tocsin serve` serves it" in told.stderr
    assert list((tmp_path / ".tocsin").iterdir()) == []
    assert not (tmp_path / ".mcp.json").exists()
    told = run("--data", "other", "quickstart", "--yes", cwd=tmp_path)
    assert (told.returncode, "leave --data out" in told.stderr) == (Exit.USAGE, True)


def test_a_port_in_use_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        told = run("quickstart", "team", "--yes", "--port", str(other.getsockname()[1]), cwd=tmp_path)
    assert told.returncode == Exit.PORT_TAKEN
    assert "Choose one with --port" in told.stderr
    assert list(tmp_path.iterdir()) == []

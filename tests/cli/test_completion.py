"""Shell completion: offered, and knowing the commands, the options and the agents at hand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import run
from tests.patience import PATIENCE_S


def completed(shell: str, line: str, cwd: Path) -> str:
    """Ask as the shell's own completion script does."""
    words = line.split(" ")
    environment = os.environ | {
        "_TOCSIN_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    program = str(Path(sys.executable).with_name("tocsin"))
    done = subprocess.run(  # noqa: S603
        [program], env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_are_completed(shell: str, tmp_path: Path) -> None:
    offered = completed(shell, "tocsin ", tmp_path)
    for command in ("serve", "send", "inbox", "mcp", "hooks", "agents"):
        assert command in offered
    assert "claude" in completed(shell, "tocsin hooks install ", tmp_path)
    assert "--dry-run" in completed(shell, "tocsin hooks install claude --dr", tmp_path)


def test_agents_whose_tokens_are_at_hand_are_completed(tmp_path: Path) -> None:
    tokens = tmp_path / ".tocsin" / "tokens"
    tokens.mkdir(parents=True)
    for agent in ("ada", "bob"):
        (tokens / f"{agent}.token").touch()
    assert completed("bash", "tocsin --as a", tmp_path).split() == ["ada"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_the_shell_is_offered(shell: str, tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("tocsin"))
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [program, "--show-completion", shell]
    done = subprocess.run(  # noqa: S603
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, "_TOCSIN_COMPLETE" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(("shell", "settings"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish")])
def test_completion_is_installed_by_a_command(shell: str, settings: str, tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("tocsin"))
    environment = os.environ | {"HOME": str(tmp_path)}
    command = [program, "completion", "install", shell, "--json"]
    done = subprocess.run(  # noqa: S603
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    told = json.loads(done.stdout)
    assert told["shell"] == shell
    assert "_TOCSIN_COMPLETE" in Path(told["file"]).read_text()
    assert Path(told["file"]).is_relative_to(tmp_path)
    assert (tmp_path / settings).exists()
    shown = run("completion", "show", shell, cwd=tmp_path)
    assert shown.stdout.strip() in Path(told["file"]).read_text()


def test_a_shell_that_is_not_known_is_told(tmp_path: Path) -> None:
    told = run("completion", "install", "tcsh", cwd=tmp_path)
    assert told.returncode == 2
    assert "bash" in told.stderr

"""Shell completion: offered, and knowing the commands, the options and the agents at hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


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
    done = subprocess.run([program], env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
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
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, "_TOCSIN_COMPLETE" in done.stdout) == (0, True), done.stderr

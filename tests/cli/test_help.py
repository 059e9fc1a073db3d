"""The help: everything is explained there, and every command is in the reference."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from tests.cli.processes import COMMANDS, asked

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def commands(group: Any = COMMANDS, *before: str) -> Iterator[tuple[str, Any]]:
    """Walk through the commands and their groups."""
    for name, command in group.commands.items():
        yield " ".join([*before, name]), command
        if isinstance(command, TyperGroup):
            yield from commands(command, *before, name)


@pytest.mark.parametrize(("name", "command"), [pytest.param(*pair, id=pair[0]) for pair in commands()])
def test_a_command_and_all_that_it_takes_are_explained(name: str, command: Any) -> None:
    assert command.help, name
    for parameter in command.params:
        assert parameter.help, f"{name}: {parameter.name}"
        assert not parameter.secondary_opts, f"{name}: --no-… says what is so anyway"


def test_the_reference_names_every_command() -> None:
    rows = [line for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    for name, command in commands():
        if not isinstance(command, TyperGroup):
            words = name.split()
            assert any(all(word in row for word in words) for row in rows), name


def test_choices_are_in_their_order_and_do_not_break_the_usage_line() -> None:
    find = asked("messages", "find", "--help").stdout
    assert "--level Info|Coordinate|Blocking|Critical|DirectorOverride" in find
    assert "Turn off" not in find
    request = asked("approvals", "request", "--help").stdout
    assert "approvals request [OPTIONS] {handoff} {subject}" in request
    assert "one of: plan_approval, lease_override," in " ".join(request.split())


def test_the_help_says_how_to_begin() -> None:
    told = " ".join(asked("--help").stdout.split())
    assert "The options below come before the command" in told.replace("│", "")
    assert "Begin with: tocsin quickstart" in told


#: Commands that run until they are stopped, the check that prints for a coding agent, and a waker.
WITHOUT_JSON = {"quickstart", "serve", "mcp", "work", "hooks check", "wake tmux"}


def test_every_command_that_prints_a_result_prints_it_as_json_too() -> None:
    without = {
        name
        for name, command in commands()
        if not isinstance(command, TyperGroup) and not any("--json" in one.opts for one in command.params)
    }
    assert without == WITHOUT_JSON


def test_completion_is_offered_once() -> None:
    told = asked("--help").stdout
    assert "completion" in told
    assert "--install-completion" not in told


def on_a_terminal(*words: str, **environment: str) -> str:
    """Return what a command prints on a terminal."""
    mine, its = pty.openpty()
    own = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    own.pop("NO_COLOR", None)
    process = subprocess.Popen(  # noqa: S603
        [str(Path(sys.executable).with_name("tocsin")), *words],
        stdin=its,
        stdout=its,
        stderr=its,
        env=own | environment,
    )
    os.close(its)
    text = b""
    try:
        while got := os.read(mine, 65536):
            text += got
    except OSError:  # The other end is closed.
        pass
    finally:
        os.close(mine)
    process.wait(30)
    return text.decode().replace("\r\n", "\n")


def test_help_has_colours_on_a_terminal() -> None:
    told = on_a_terminal("agents", "--help")
    assert "\x1b[1mUsage:\x1b[0m tocsin agents" in told
    assert "\n\x1b[1mCommands:\x1b[0m\n  \x1b[36madd\x1b[0m  " in told
    plain = asked("agents", "--help").stdout
    assert re.sub(r"\x1b\[\d+m", "", told).partition("\n")[2] == plain.partition("\n")[2]


def test_a_usage_error_has_colours_on_a_terminal() -> None:
    told = on_a_terminal("sned")
    assert told.startswith("\x1b[1mUsage:\x1b[0m tocsin ")
    assert told.endswith("\x1b[31mError: No such command 'sned'. Did you mean 'send'?\x1b[0m\n")
    assert "\x1b[31mError: Missing argument 'receiver'.\x1b[0m" in on_a_terminal("send")
    assert "\x1b" not in on_a_terminal("sned", NO_COLOR="1")
    assert "\x1b" not in asked("sned").stderr


def test_a_group_explains_its_commands_in_full() -> None:
    assert "messages that wait for it become\n            dead letters." in asked("agents", "--help").stdout


def test_help_names_no_python_types() -> None:
    for name, command in commands():
        with command.make_context(name, [], resilient_parsing=True) as context:
            told = command.get_help(context)
        assert not re.search(r"list\[|None|\[default: \(|\]\.\.\.\]", told), name

"""The help: everything is explained there, and every command is in the reference."""

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


def test_the_help_says_how_to_begin() -> None:
    told = " ".join(asked("--help").stdout.split())
    assert "The options below come before the command" in told.replace("│", "")
    assert "Begin with: tocsin serve" in told

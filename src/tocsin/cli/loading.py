"""A group whose commands are imported when they are run.

The help of the group lists the commands without importing them, because most of the time that `tocsin --help` takes is
spent on imports.
"""

from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

__all__ = ["Entry", "LazyGroup"]


class Entry(NamedTuple):
    """A command, or a group of commands, that is not imported yet."""

    name: str
    #: Heading in the help.
    panel: str
    help: str
    #: `module:attribute` of a function or a group; by default commands made from operations.
    source: str = ""

    def load(self) -> Any:
        """Import the command."""
        module, _, attribute = self.source.partition(":")
        if module:
            found = getattr(import_module(f"tocsin.cli.{module}"), attribute)
        else:
            from tocsin.cli.operations import found_at

            found = found_at(self.name)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(found)
            command = get_command(alone)
        command.name, command.help, command.rich_help_panel = self.name, self.help, self.panel
        return command


class _Commands(dict[str, Any]):
    """The commands of a group by name, imported when they are looked up with brackets."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        super().__init__({entry.name: _unloaded(entry) for entry in entries})
        self._left = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> Any:
        """Return a command, imported."""
        if name in self._left:
            self[name] = self._left.pop(name).load()
        return super().__getitem__(name)

    def items(self) -> Any:
        """Return all commands, imported."""
        return [(name, self[name]) for name in self]


def _unloaded(entry: Entry) -> TyperCommand:
    return TyperCommand(entry.name, help=entry.help, rich_help_panel=entry.panel)


class LazyGroup(TyperGroup):
    """A group of entries."""

    entries: tuple[Entry, ...] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.entries)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.commands[name], rest

"""A group whose commands are imported when they are run.

Most of the time that a command takes is spent on imports. So the help of the group lists the commands without importing
them, help and usage errors are laid out and coloured without rich, and values of simple types are converted without the
validators of pydantic that typer builds for every parameter.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, EnumType
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from tocsin.cli.style import painted_error, painted_help

__all__ = ["Entry", "LazyGroup", "lighten"]


#: Options that typer adds.
_COMPLETION = ("install_completion", "show_completion")


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
            from tocsin.cli.operations.commands import found_at

            found = found_at(self.name)
        if isinstance(found, typer.Typer):
            command: Any = get_group(found)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(found)
            command = get_command(alone)
        command.name, command.help, command.rich_help_panel = self.name, self.help, self.panel
        lighten(command)
        return command


def lighten(command: Any) -> None:
    """Let a command, and those of a group, do without rich and pydantic where they are not needed."""
    command.rich_markup_mode = None
    all_parameters = command.get_params

    def get_params(ctx: Any) -> list[Any]:
        """Return the parameters, among them those for help and completion that typer adds."""
        found: list[Any] = all_parameters(ctx)
        for parameter in found:
            # `tocsin completion` does what these do.
            parameter.hidden = getattr(parameter, "hidden", False) or parameter.name in _COMPLETION
            _name_type(parameter)
            _convert_simply(parameter)
        return found

    command.get_params = get_params
    plain_help = command.get_help
    command.get_help = lambda ctx: painted_help(plain_help(ctx))
    if not isinstance(command, TyperGroup) or isinstance(command.commands, _Commands):
        return
    group: Any = command
    group.format_commands = partial(_format_commands, group)
    for one in group.commands.values():
        lighten(one)


_LIST = re.compile(r"list\[(.+)\]")


def _name_type(parameter: Any) -> None:
    """Let the help of a parameter that takes several values name the type of one."""
    typers_own = getattr(parameter, "display_type_rich", None)
    if typers_own is not None and "display_type_rich" not in vars(parameter):
        parameter.display_type_rich = lambda ctx: _LIST.sub(r"\1", typers_own(ctx=ctx) or "")


def _format_commands(group: Any, ctx: Any, formatter: Any) -> None:
    """Write the names of a group's commands, with the first paragraph of their help in full."""
    shown = [(name, one) for name, one in group.commands.items() if not one.hidden]
    with formatter.section("Commands"):
        formatter.write_dl([(name, " ".join((one.help or "").partition("\n\n")[0].split())) for name, one in shown])


@contextmanager
def _errors_painted() -> Iterator[None]:
    """Let usage errors show themselves in colours."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "show"):
            error.show = partial(_show, error)
        raise


def _show(error: Any, file: Any = None) -> None:
    """Print a usage error."""
    text = io.StringIO()
    type(error).show(error, text)
    stream = file or sys.stderr
    stream.write(painted_error(text.getvalue(), stream))


class _Converter(NamedTuple):
    """Conversion of a value; whatever it cannot convert is left to typer, with its errors."""

    annotation: Any
    #: Limits of a number.
    least: float | None
    most: float | None
    #: Returns typer's own conversion.
    fallback: Callable[[], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return a value from the command line, from the environment or the default, converted."""
        several = param.multiple or param.nargs != 1
        if value is None:
            return () if several else None
        found = self._list(value) if several else self._one(value)
        return self.fallback().coerce(value, param=param, ctx=ctx) if found is None else found

    def _one(self, value: Any) -> Any:
        """Return a single value; None if it is not of a simple type, or not allowed."""
        if isinstance(self.annotation, EnumType):
            members: list[Enum] = list(self.annotation)
            return next((one for one in members if value in (one, one.value)), None)
        if type(value) is str and self.annotation in _SIMPLE:
            try:
                value = _SIMPLE[self.annotation](value)
            except ValueError:
                return None
        if type(value) in (int, float):
            allowed = type(value) is self.annotation
            allowed = allowed and (self.least is None or self.least <= value)
            return value if allowed and (self.most is None or value <= self.most) else None
        if isinstance(value, Path):
            return value if self.annotation is Path and _usable(value) else None
        return value if type(value) is str and self.annotation is str else None

    def _list(self, value: Any) -> list[str] | None:
        """Return several texts; None if they are something else."""
        texts = isinstance(value, list | tuple) and self.annotation == list[str]
        return list(value) if texts and all(type(one) is str for one in value) else None


def _usable(path: Path) -> bool:
    """Tell whether typer would accept a path: if it exists, it must be readable."""
    return not path.exists() or os.access(path, os.R_OK)


_SIMPLE: dict[Any, Callable[[str], Any]] = {str: str, int: int, float: float, Path: Path}
#: Settings of a parameter that typer checks when it converts a value.
_CHECKED = ("clamp", "parser", "exists", "writable", "resolve_path", "allow_dash", "path_type")


def _convert_simply(parameter: Any) -> None:
    """Let a parameter convert simple values by itself.

    Versions of typer before 0.29 do not use pydantic, and have no `get_runtime_param`.
    """
    typers_own = getattr(parameter, "get_runtime_param", None)
    if typers_own is None or "get_runtime_param" in vars(parameter):
        return
    info = parameter.type_descriptor.parameter_info
    if any(getattr(info, name, None) for name in _CHECKED) or not (info.file_okay and info.dir_okay):
        return
    converter = _Converter(parameter.type_descriptor.annotation, info.min, info.max, typers_own)
    parameter.get_runtime_param = lambda: converter


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

        lighten(self)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the options before the command."""
        with _errors_painted():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command and run it."""
        with _errors_painted():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and texts of the commands, under their headings."""
        for panel in dict.fromkeys(entry.panel for entry in self.entries):
            with formatter.section(panel):
                formatter.write_dl([(entry.name, entry.help) for entry in self.entries if entry.panel == panel])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.commands[name], rest

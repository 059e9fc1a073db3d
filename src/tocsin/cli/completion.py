"""`tocsin completion`: install or show the completion of commands and options for a shell."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from tocsin.cli.context import Json
from tocsin.cli.output import fail, say, show_json
from tocsin.cli.remote import Exit

__all__ = ["completion"]

_PROGRAM = "tocsin"
_VARIABLE = "_TOCSIN_COMPLETE"

completion = typer.Typer(no_args_is_help=True)


class Shell(StrEnum):
    """Shells that there is a completion for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


ShellArgument = Annotated[Shell | None, typer.Argument(help="The shell; by default the one that runs this command.")]


@completion.command("install")
def install(shell: ShellArgument = None, as_json: Json = False) -> None:
    """Install completion for a shell: a script in the home directory, and a line in the shell's settings."""
    from typer import completion

    found = _running_shell(shell)
    machinery: Any = completion
    try:
        _, path = machinery.install(found, _PROGRAM, _VARIABLE)
    except OSError as error:
        raise fail(f"completion cannot be installed: {error}", Exit.FAILED) from None
    if as_json:
        show_json({"shell": found, "file": str(path)})
    else:
        say(f"completion for {found} is in {path}; open a new terminal to use it")


@completion.command("show")
def show(shell: ShellArgument = None, as_json: Json = False) -> None:
    """Print the completion script of a shell, to install it yourself."""
    from typer import completion

    found = _running_shell(shell)
    machinery: Any = completion
    script = machinery.get_completion_script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=found)
    if as_json:
        show_json({"shell": found, "script": script})
    else:
        typer.echo(script)


def _running_shell(given: Shell | None) -> str:
    """Return the shell that was named, or else the one that started this process."""
    if given is not None:
        return given.value
    import shellingham  # type: ignore[import-untyped]

    try:
        name: str = shellingham.detect_shell()[0]
    except shellingham.ShellDetectionFailure:
        name = ""
    if name not in list(Shell):
        running = f"{name} is not one of them" if name else "the shell that runs this command is not known"
        raise fail(f"name a shell ({', '.join(Shell)}): {running}", Exit.USAGE)
    return name

"""Options that several commands share, and the hub that they name."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.remote import Remote, token_from

__all__ = ["HERE", "DataHere", "Json", "Level", "LogLevel", "data_of", "remote_of"]

#: Default directory of a project.
HERE = Path(".tocsin")
Json = Annotated[bool, typer.Option("--json", help="Print the reply as JSON.")]
#: `--data` after a command that creates or reads the directory; it overrides the one before the command.
DataHere = Annotated[
    Path | None, typer.Option("--data", help="The project's directory; also before the command, or TOCSIN_DATA.")
]


class Level(StrEnum):
    """Log levels."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel = Annotated[
    Level, typer.Option(help="Lowest level of the log messages on standard error.", case_sensitive=False)
]


def data_of(context: typer.Context, given: Path | None) -> Path:
    """Return the project's directory: the option after the command, else the one before it, else the default."""
    found: Path = context.find_root().params.get("data") or HERE
    return found if given is None else given


def remote_of(context: typer.Context, **more: Any) -> Remote:
    """Return the hub and caller that the options before the command name."""
    given = context.find_root().params
    agent: str | None = given["agent"]
    return Remote(given["url"], token_from(given["data"], agent), agent=agent or "admin", **more)

"""Where to ask, and as whom: the options that come before a command, and what the commands make of them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.remote import Remote, token_from

__all__ = ["HERE", "DataHere", "Json", "Level", "LogLevel", "data_of", "remote_of"]

#: The project's directory, unless said otherwise.
HERE = Path(".tocsin")
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
#: `--data` once more, after a command that makes or reads the directory: it wins over the one before the command.
DataHere = Annotated[
    Path | None, typer.Option("--data", help="The project's directory; also before the command, or TOCSIN_DATA.")
]


class Level(StrEnum):
    """What is worth a line in the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel = Annotated[
    Level, typer.Option(help="What is worth a line of the log, on standard error.", case_sensitive=False)
]


def data_of(context: typer.Context, given: Path | None) -> Path:
    """Return the project's directory: as given after the command, else before it, else where it usually is."""
    found: Path = context.find_root().params.get("data") or HERE
    return found if given is None else given


def remote_of(context: typer.Context, **more: Any) -> Remote:
    """Return the hub that the options before the command name, asked as whom they say."""
    given = context.find_root().params
    agent: str | None = given["agent"]
    return Remote(given["url"], token_from(given["data"], agent), agent=agent or "admin", **more)

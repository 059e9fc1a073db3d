"""Options that several commands share, and the hub that they name."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.identity import HERE
from tocsin.cli.remote import Remote, no_token, token_from

__all__ = ["HERE", "DataHere", "Json", "Level", "LogLevel", "data_of", "project_data", "remote_of"]

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
    token = token_from(project_data(context), agent)
    if (project := given["project"]) is not None:
        more["headers"] = {"Tocsin-Project": project} | more.get("headers", {})
        if token is None and agent is None:
            token = token_from(given["data"], None)
    missing = no_token(project_data(context), agent) if token is None else ""
    return Remote(given["url"], token, agent=agent or "admin", no_token=missing, **more)


def project_data(context: typer.Context) -> Path:
    """Return the directory with the tokens of the project that the options before the command name."""
    given = context.find_root().params
    data: Path = given["data"]
    return data if given["project"] is None else data / "projects" / given["project"]

"""`tocsin init`, `serve` and `mcp`: commands that run a hub or a bridge to one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.context import DataHere, Json, Level, LogLevel, data_of
from tocsin.cli.output import fail, say, show_json
from tocsin.cli.remote import Exit, Unusable
from tocsin.core.errors import TocsinError

__all__ = ["init", "mcp", "serve"]

Project = Annotated[str, typer.Option(envvar="TOCSIN_PROJECT", help="Name of the project.")]
Store = Annotated[str, typer.Option(envvar="TOCSIN_STORE", help="postgresql://… instead of SQLite.")]


def init(
    context: typer.Context,
    data: DataHere = None,
    project: Project = "default",
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Create a project's directory, its policy file and its admin token."""
    from tocsin.cli.serve import initialise

    data = data_of(context, data)
    token_file = initialise(data, project, store)
    if as_json:
        show_json({"data": str(data), "admin_token_file": None if token_file is None else str(token_file)})
    else:
        say(f"project {project} in {data}")
        if token_file is not None:
            say(f"admin token: {token_file}")


def serve(
    context: typer.Context,
    data: DataHere = None,
    project: Project = "default",
    store: Store = "",
    address: Annotated[
        str | None, typer.Option(help="Address to listen on; by default that of server.yaml, or loopback.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="TCP port; by default that of server.yaml, or 7077; 0 takes any free one.", min=0, max=65_535
        ),
    ] = None,
    channels: Annotated[
        Path | None, typer.Option(help="Directory of NDJSON channel files; by default there are none.")
    ] = None,
    insecure_loopback: Annotated[
        bool,
        typer.Option("--insecure-loopback", help="Do not authenticate callers on this machine: no tokens."),
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait until no other hub serves the project (PostgreSQL).")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that share the projects; by default one, or as many as there are cores if there are several"
            " projects.",
            min=1,
            max=256,
        ),
    ] = None,
    proxy: Annotated[
        bool,
        typer.Option(
            "--proxy", help="Pass calls for projects of other hubs on to them, instead of redirecting (PostgreSQL)."
        ),
    ] = False,
    log_level: LogLevel = Level.INFO,
) -> None:
    """Serve a project until stopped; create it if it does not exist."""
    from tocsin.cli.serve import run_hub

    files = None if channels is None else {"directory": str(channels)}
    settings: dict[str, Any] = {"address": address, "port": port, "channels": files}
    run_hub(
        data_of(context, data),
        project,
        store,
        trusting=insecure_loopback,
        log_level=log_level,
        standby=standby,
        workers=workers,
        proxy=proxy,
        **settings,
    )


def mcp(
    context: typer.Context,
    token_file: Annotated[Path | None, typer.Option(help="A file with the agent's token, instead of --as.")] = None,
    toolsets: Annotated[
        str,
        typer.Option(
            help="Tools to list, separated by commas: core, history, leases, work, teamwork, directing, all; schemas "
            "adds the schemas of results. By default those of the agent's role."
        ),
    ] = "",
    channel: Annotated[
        bool,
        typer.Option(
            "--channel",
            help="Notify an idle Claude Code of messages that wait, and relay its permission prompts as approvals.",
        ),
    ] = False,
    log_level: LogLevel = Level.WARNING,
) -> None:
    """Serve MCP over standard input and output, for a coding agent that starts it."""
    try:
        from tocsin.cli.programs.mcp import serve_stdio
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        raise fail(f"MCP needs {error.name}: pip install 'tocsin[mcp]'", Exit.FAILED) from None
    given = context.find_root().params
    try:
        serve_stdio(given["url"], given["data"], given["agent"], token_file, log_level, toolsets, channel=channel)
    except Unusable as error:
        raise fail(str(error), Exit.USAGE) from None
    except (TocsinError, OSError) as error:
        raise fail(f"the server cannot start: {error}", Exit.FAILED) from None

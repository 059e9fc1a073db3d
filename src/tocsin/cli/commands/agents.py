"""`tocsin agents`: agents, and tokens in the project's directory."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.context import Json, project_data, remote_of
from tocsin.cli.operations.commands import group_of
from tocsin.cli.output import fail, refusals_told, say, show_json
from tocsin.cli.remote import Exit

__all__ = ["agents"]

AgentName = Annotated[str, typer.Argument(help="The agent's name: letters, digits, dots, dashes, underscores.")]
Save = Annotated[
    bool, typer.Option("--save", help="Store the token in the project's directory, for --as, instead of printing it.")
]


def add(
    context: typer.Context,
    agent: AgentName,
    role: Annotated[
        str, typer.Option(help="Its rights: director or human (may decide and see everything), primary or clone.")
    ] = "primary",
    type: Annotated[  # noqa: A002
        str, typer.Option(help="Type used for routing: Manager, Implementation, AdHoc or any other name.")
    ] = "AdHoc",
    also: Annotated[
        list[str] | None, typer.Option("--also-type", help="A further type that the agent may register as.")
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="Let the token administer all tokens and projects.")] = False,
    lifetime_s: Annotated[float | None, typer.Option(help="Seconds until the token expires; by default never.")] = None,
    save: Save = False,
    as_json: Json = False,
) -> None:
    """Issue a token for an agent, and register the agent."""
    arguments = {"agent": agent, "role": role, "type": type, "admin": admin, "lifetime_s": lifetime_s}
    arguments |= {"types": also} if also else {}
    _issue(context, "issue_token", arguments, save, as_json)


def rotate(
    context: typer.Context,
    agent: AgentName,
    overlap_s: Annotated[float, typer.Option(help="Seconds for which the old tokens remain valid.")] = 0.0,
    lifetime_s: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds until the token expires, 0: never; by default as long as the last one."),
    ] = None,
    save: Save = False,
    as_json: Json = False,
) -> None:
    """Replace all tokens of an agent by a new one."""
    arguments: dict[str, Any] = {"agent": agent, "overlap_s": overlap_s}
    if lifetime_s is not None:
        arguments["lifetime_s"] = lifetime_s or None
    _issue(context, "rotate_tokens", arguments, save, as_json)


def revoke(context: typer.Context, agent: AgentName, as_json: Json = False) -> None:
    """Revoke all tokens of an agent."""
    with refusals_told(as_json):
        revoked = remote_of(context).ask("revoke_tokens", {"agent": agent})
        if as_json:
            show_json(revoked)
        else:
            say(f"{len(revoked)} tokens of {agent} revoked")


def _issue(context: typer.Context, operation: str, arguments: dict[str, Any], save: bool, as_json: bool) -> None:
    """Issue a token; print it, or store it in the project's directory."""
    agent = arguments["agent"]
    with refusals_told(as_json):
        issued = remote_of(context).ask(operation, arguments)
        if not save:
            if as_json:
                show_json(issued)
            else:
                say(issued.token)
            return
        path = _stored(project_data(context), agent, issued.token)
        if as_json:
            show_json({"grant": issued.grant, "token_file": str(path)})
        else:
            say(f"token of {agent}: {path}")


def _stored(data: Path, agent: str, token: str) -> Path:
    from tocsin.hub.token_files import keep_secret

    try:
        return keep_secret(data / "tokens" / f"{agent}.token", token)
    except OSError as error:
        again = f"it is valid nevertheless; `tocsin agents rotate {agent}` issues another"
        raise fail(f"the token of {agent} cannot be stored: {error}; {again}", Exit.FAILED) from None


agents = group_of("agents", add=add, rotate=rotate, revoke=revoke)

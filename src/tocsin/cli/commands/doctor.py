"""`tocsin doctor`: checks of a hub, of the caller's token and of what is stored, and the form of the installation."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin import __version__
from tocsin.cli.commands.hub import Project, Store
from tocsin.cli.context import HERE, DataHere, Json, data_of, remote_of
from tocsin.cli.identity import Identity, agent_of_tree
from tocsin.cli.output import UNREADABLE, fail, refusals_told, say, show_json, table
from tocsin.cli.remote import Exit, Refused, Remote, Unreachable, Unusable
from tocsin.form import package_form

__all__ = ["doctor"]


def doctor(
    context: typer.Context,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read everything that is stored and check it against its checksums, also beside a hub."
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Continue a stopped SQLite project without commits that its journal has lost."
        ),
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            help="Check how this agent is connected in this folder: token, entries, trust, and checks that have run.",
            metavar="NAME",
        ),
    ] = None,
    data: DataHere = None,
    project: Project = "default",
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Check that a hub answers, serves its project and accepts the token; or check an agent, or what is stored."""
    if agent is not None:
        _check_agent(context, agent, data, as_json)
        return
    if verify or accept_loss:
        from tocsin.cli.storage import accept_lost_commits, verify_stored

        if verify and accept_loss:
            raise fail("choose one of --verify and --accept-loss", Exit.USAGE)
        where = data_of(context, data)
        if accept_loss:
            accept_lost_commits(where, project, store, as_json)
        else:
            verify_stored(where, project, store, as_json)
        return
    with refusals_told(as_json):
        remote = remote_of(context)
    checks = [
        _checked("the hub answers", lambda: _condition(remote.get("health"), "serving", "standing_by")),
        _checked("the project is served", lambda: _condition(remote.get("ready"), "serving")),
        _checked("the token is valid", lambda: _identity(remote)),
        _checked("this installation", lambda: (True, f"tocsin {__version__}, {package_form()} form")),
    ]
    if as_json:
        show_json(checks)
    else:
        table(checks, "check", "good", "detail")
    if not all(check["good"] for check in checks):
        raise typer.Exit(Exit.FAILED)


def _check_agent(context: typer.Context, name: str, data: Path | None, as_json: bool) -> None:
    from tocsin.cli.hooks.connection import connection_of

    folder = Path.cwd()
    try:
        here = agent_of_tree(folder)
        where = data_of(context, data)
        # Only the default gives way to the folder's: another directory was meant.
        where = here.data if here is not None and where == HERE else where
        identity = Identity(name, "--agent", where, file=where / "tokens" / f"{name}.token")
        findings = list(connection_of(name, identity, context.find_root().params["url"], folder))
    except Unusable as error:
        raise fail(str(error), Exit.FAILED) from None
    if as_json:
        show_json([finding._asdict() for finding in findings])
    for finding in [] if as_json else findings:
        say({True: "\N{CHECK MARK}", False: "\N{BALLOT X}", None: "-"}[finding.good], end=" ")
        say(f"{finding.check}: {finding.detail}")
        if not finding.good and finding.next:
            say(f"    next: {finding.next}")
    if any(finding.good is False for finding in findings):
        raise typer.Exit(Exit.FAILED)


def _checked(name: str, check: Callable[[], tuple[bool, str]]) -> dict[str, Any]:
    try:
        good, detail = check()
    except (Unreachable, Refused) as error:
        good, detail = False, str(error)
    except UNREADABLE:
        good, detail = False, "the reply does not come from a hub"
    return {"check": name, "good": good, "detail": detail}


def _condition(reply: dict[str, Any], *good: str) -> tuple[bool, str]:
    """Judge the condition of a hub; the reply of a standby names the hub that serves instead."""
    if "condition" not in reply:
        return False, str(reply["detail"])
    return reply["condition"] in good, f"{reply['condition']} {reply['reason']}".strip()


def _identity(remote: Remote) -> tuple[bool, str]:
    me = remote.ask("get_me")
    return True, f"{me.agent}, {me.role}"

"""`tocsin policy`: the policy in force, and policy files."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
import yaml

from tocsin.cli.context import Json, remote_of
from tocsin.cli.operations.commands import group_of
from tocsin.cli.output import fail, refusals_told, say, show_json
from tocsin.cli.output.replies import show as show_reply
from tocsin.cli.output.terminal import console
from tocsin.cli.remote import Exit
from tocsin.core.errors import TocsinError
from tocsin.core.policy import Policy, document_of
from tocsin.policies import POLICY_FILE, differences, load_policy

__all__ = ["policy"]

OwnFile = Annotated[Path | None, typer.Argument(help="A policy file; by default the project's own tocsin.yaml.")]
PolicyFile = Annotated[Path, typer.Argument(help="A tocsin.yaml: the settings that differ from the defaults.")]


def show(context: typer.Context, as_json: Json = False) -> None:
    """Show the policy in force."""
    with refusals_told(as_json):
        reply = remote_of(context).ask("get_policy")
        if as_json:
            show_json(reply)
        else:
            text = yaml.safe_dump(reply.policy, sort_keys=False)
            console.print(f"# version {reply.version}\n{text}", markup=False)


def check(file: PolicyFile, as_json: Json = False) -> None:
    """Check whether a policy file is valid; needs no hub."""
    try:
        load_policy(file)
    except (TocsinError, OSError, UnicodeDecodeError) as error:
        if as_json:
            show_json({"valid": False, "detail": str(error)})
        raise fail(str(error), Exit.REFUSED) from None
    if as_json:
        show_json({"valid": True})
    else:
        say(f"{file} is valid")


def diff(context: typer.Context, file: OwnFile = None, as_json: Json = False) -> None:
    """Show in which settings a policy file differs from the policy in force."""
    wanted = document_of(_loaded(file or _own(context)))
    with refusals_told(as_json):
        found = differences(remote_of(context).ask("get_policy").policy, msgspec.to_builtins(wanted))
    if as_json:
        show_json(found)
    elif not found:
        say("the file and the policy in force are the same")
    for one in found if not as_json else ():
        console.print(str(one), markup=False, soft_wrap=True)


def apply(
    context: typer.Context,
    file: OwnFile = None,
    reason: Annotated[str, typer.Option(help="Reason, recorded with the policy.")] = "",
    change: Annotated[
        bool, typer.Option("--change", help="Settings that the file does not name stay as they are.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Adopt a policy file: the whole policy, or with --change a change to the one in force."""
    path = file or _own(context)
    try:
        settings: Any = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise fail(f"{path} cannot be read: {error}", Exit.USAGE) from None
    if not change and path.resolve() == _own(context).resolve():
        # The hub recognises its own file by this, and does not adopt it again when it starts.
        reason = f"{POLICY_FILE} was applied" + (f": {reason}" if reason else "")
    with refusals_told(as_json):
        request = {"policy": settings, "reason": reason, "scope": "change" if change else "whole"}
        show_reply(remote_of(context).ask("adopt_policy", request), as_json)


def _own(context: typer.Context) -> Path:
    """Return the policy file of the project."""
    folder: Path = context.find_root().params["data"]
    return folder / POLICY_FILE


def _loaded(file: Path) -> Policy:
    try:
        return load_policy(file)
    except (TocsinError, OSError, UnicodeDecodeError) as error:
        raise fail(f"{file}: {error}", Exit.REFUSED) from None


policy = group_of("policy", show=show, check=check, diff=diff, apply=apply)

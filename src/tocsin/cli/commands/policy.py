"""`tocsin policy`: the policy in force, and policy files."""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from tocsin.cli.context import Json, remote_of
from tocsin.cli.operations import group_of
from tocsin.cli.output import fail, refusals_told, say, show_json
from tocsin.cli.remote import Exit
from tocsin.cli.replies import show as show_reply
from tocsin.cli.terminal import console
from tocsin.core.errors import TocsinError
from tocsin.policies import load_policy

__all__ = ["policy"]

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


def adopt(
    context: typer.Context,
    file: PolicyFile,
    reason: Annotated[str, typer.Option(help="Reason, recorded with the policy.")] = "",
    as_json: Json = False,
) -> None:
    """Adopt a policy file: the defaults with its changes."""
    try:
        changes: Any = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise fail(f"{file} cannot be read: {error}", Exit.USAGE) from None
    with refusals_told(as_json):
        reply = remote_of(context).ask("adopt_policy", {"policy": changes, "reason": reason})
        show_reply(reply, as_json)


policy = group_of("policy", show=show, check=check, adopt=adopt)

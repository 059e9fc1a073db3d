"""`tocsin approvals`, `tocsin escalations`, `tocsin alerts`: what directors and humans look after."""

from typing import Annotated, Any

import typer

from tocsin.cli.asking import Json, remote_of
from tocsin.cli.output import console, refusals_told, show_json, table

__all__ = ["alerts", "approvals", "escalations"]

approvals = typer.Typer(help="What waits for a director's word.", no_args_is_help=True)
escalations = typer.Typer(help="What somebody with more power should look at.", no_args_is_help=True)

Reason = Annotated[str, typer.Option(help="Why.")]


def _asked(context: typer.Context, as_json: bool, body: dict[str, Any], *path: str) -> Any:
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", *path, body=body)
    if as_json:
        show_json(answer)
    return answer


@approvals.command("list")
def approvals_list(context: typer.Context, as_json: Json = False) -> None:
    """List what waits for a director's word."""
    with refusals_told(as_json):
        rows = remote_of(context).get("v1", "approvals")
    if as_json:
        show_json(rows)
    else:
        table(rows, "approval", "handoff", "asker", "subject", "details", "due_at")


@approvals.command("approve")
def approvals_approve(context: typer.Context, approval: str, reason: Reason = "", as_json: Json = False) -> None:
    """Let it go."""
    body = {"verdict": "approve", "reason": reason}
    answer = _asked(context, as_json, body, "approvals", approval, "decide")
    if not as_json:
        console.print(f"{answer['approval']} is {answer['outcome']}")


@approvals.command("refuse")
def approvals_refuse(context: typer.Context, approval: str, reason: str, as_json: Json = False) -> None:
    """Refuse it, and say why."""
    body = {"verdict": "refuse", "reason": reason}
    answer = _asked(context, as_json, body, "approvals", approval, "decide")
    if not as_json:
        console.print(f"{answer['approval']} is {answer['outcome']}")


@escalations.command("list")
def escalations_list(
    context: typer.Context,
    closed: Annotated[bool, typer.Option("--closed", help="Closed ones too.")] = False,
    as_json: Json = False,
) -> None:
    """List the escalations."""
    with refusals_told(as_json):
        rows = remote_of(context).get("v1", "escalations", closed=str(closed).lower())
    if as_json:
        show_json(rows)
    else:
        table(rows, "escalation", "trigger", "subject", "state", "opened_at", "detail")


@escalations.command("resolve")
def escalations_resolve(context: typer.Context, escalation: str, resolution: str, as_json: Json = False) -> None:
    """Say how an escalation was taken care of."""
    answer = _asked(context, as_json, {"resolution": resolution}, "escalations", escalation, "resolve")
    if not as_json:
        console.print(f"{answer['escalation']} is {answer['state']}")


@escalations.command("human")
def escalations_human(context: typer.Context, escalation: str, reason: Reason = "", as_json: Json = False) -> None:
    """Bring an escalation before a human."""
    answer = _asked(context, as_json, {"reason": reason}, "escalations", escalation, "human")
    if not as_json:
        console.print(f"{answer['escalation']} is {answer['state']}")


def alerts(context: typer.Context, as_json: Json = False) -> None:
    """List what is over its limit, and the alerts."""
    with refusals_told(as_json):
        rows = remote_of(context).get("v1", "alerts")
    if as_json:
        show_json(rows)
    else:
        table(rows, "metric", "state", "value", "limit", "since", "raised_at")

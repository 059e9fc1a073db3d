"""`tocsin approvals`, `tocsin escalations`, `tocsin alerts`: what directors and humans look after."""

from typing import Annotated, Any

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.output import console, refusals_told, show_json, table
from tocsin.cli.sending import payload_from

__all__ = ["alerts", "approvals", "escalations"]

approvals = typer.Typer(help="Approvals: what waits for a director's word, and the word.", no_args_is_help=True)
escalations = typer.Typer(help="Escalations: what a director or a human should look at.", no_args_is_help=True)

Reason = Annotated[str, typer.Option(help="Why.")]
Approval = Annotated[str, typer.Argument(help="Its id, as `tocsin approvals list` shows it.")]
Escalation = Annotated[str, typer.Argument(help="Its id, as `tocsin escalations list` shows it.")]


def _listed(context: typer.Context, as_json: bool, columns: str, *path: str, **query: str) -> None:
    with refusals_told(as_json):
        rows = remote_of(context).get("v1", *path, **query)
        if as_json:
            show_json(rows)
        else:
            table(rows, *columns.split())


def _changed(context: typer.Context, as_json: bool, name: str, state: str, body: dict[str, Any], *path: str) -> None:
    """Ask for a change, and say in which state what has that name is now."""
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", *path, body=body)
        if as_json:
            show_json(answer)
        else:
            console.print(f"{answer[name]} is {answer[state]}", soft_wrap=True, markup=False)


def _decide(
    context: typer.Context, as_json: bool, approval: str, verdict: str, reason: str, payload: Any = None
) -> None:
    body = {"verdict": verdict, "reason": reason} | ({} if payload is None else {"payload": payload})
    _changed(context, as_json, "approval", "outcome", body, "approvals", approval, "decide")


@approvals.command("list")
def approvals_list(context: typer.Context, as_json: Json = False) -> None:
    """List what waits for a director's word."""
    _listed(context, as_json, "approval handoff asker subject details due_at", "approvals")


@approvals.command("ask")
def approvals_ask(
    context: typer.Context,
    handoff: Annotated[str, typer.Argument(help="plan_approval, lease_override, pre_merge_review or ratification.")],
    subject: Annotated[str, typer.Argument(help="What for; of a lease_override, the lease.")],
    details: Annotated[str, typer.Option(help="What a director needs to know to decide.")] = "",
    as_json: Json = False,
) -> None:
    """Ask the directors before doing something; their word comes to the inbox."""
    body = {"handoff": handoff, "subject": subject, "details": details}
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", "approvals", body=body)
        if as_json:
            show_json(answer)
        else:
            console.print(f"{answer['approval']} waits for a director's word", soft_wrap=True, markup=False)


@approvals.command("withdraw")
def approvals_withdraw(context: typer.Context, approval: Approval, as_json: Json = False) -> None:
    """Want it no longer; a message that is held is recalled instead."""
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", "approvals", approval, "withdraw", body={})
        if as_json:
            show_json(answer)
        else:
            console.print(f"{approval} is withdrawn", soft_wrap=True, markup=False)


@approvals.command("approve")
def approvals_approve(
    context: typer.Context,
    approval: Approval,
    reason: Reason = "",
    payload: Annotated[
        str | None,
        typer.Option(help="A held message goes with this payload instead of its own.", metavar="JSON|@FILE|-"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Approve: what waits goes its way."""
    _decide(context, as_json, approval, "approve", reason, None if payload is None else payload_from(payload))


@approvals.command("refuse")
def approvals_refuse(
    context: typer.Context,
    approval: Approval,
    reason: Annotated[str, typer.Argument(help="Why; whoever asked is told.")],
    as_json: Json = False,
) -> None:
    """Refuse, and say why."""
    _decide(context, as_json, approval, "refuse", reason)


@escalations.command("list")
def escalations_list(
    context: typer.Context,
    closed: Annotated[bool, typer.Option("--closed", help="Closed ones too.")] = False,
    as_json: Json = False,
) -> None:
    """List the escalations."""
    columns = "escalation trigger subject state opened_at detail"
    _listed(context, as_json, columns, "escalations", closed=str(closed).lower())


@escalations.command("resolve")
def escalations_resolve(
    context: typer.Context,
    escalation: Escalation,
    resolution: Annotated[str, typer.Argument(help="How it was taken care of.")],
    as_json: Json = False,
) -> None:
    """Say how an escalation was taken care of."""
    body = {"resolution": resolution}
    _changed(context, as_json, "escalation", "state", body, "escalations", escalation, "resolve")


@escalations.command("human")
def escalations_human(
    context: typer.Context, escalation: Escalation, reason: Reason = "", as_json: Json = False
) -> None:
    """Bring an escalation before a human."""
    _changed(context, as_json, "escalation", "state", {"reason": reason}, "escalations", escalation, "human")


def alerts(context: typer.Context, as_json: Json = False) -> None:
    """List what is over its limit, and the alerts."""
    _listed(context, as_json, "metric state value limit since raised_at", "alerts")

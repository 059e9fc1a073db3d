"""`tocsin approvals`, `discussions` and `attention`."""

from typing import Annotated, Any

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.operations.commands import group_of
from tocsin.cli.operations.parameters import JSON_METAVAR, object_from
from tocsin.cli.output import missing, refusals_told
from tocsin.cli.output.replies import show

__all__ = ["approvals", "attention", "discussions"]

Approval = Annotated[str, typer.Argument(help="Its id, as `tocsin approvals list` shows it.")]


def approve(
    context: typer.Context,
    approval: Approval,
    reason: Annotated[str, typer.Option(help="Reason for the decision.")] = "",
    payload: Annotated[
        str | None,
        typer.Option(help="New payload of a held message, instead of the original one.", metavar=JSON_METAVAR),
    ] = None,
    as_json: Json = False,
) -> None:
    """Approve a request; a held message is released."""
    changed = {} if payload is None else {"payload": object_from(payload, "--payload")}
    _decide(context, {"approval": approval, "verdict": "approve", "reason": reason} | changed, as_json)


def refuse(
    context: typer.Context,
    approval: Approval,
    reason: Annotated[str, typer.Argument(help="Reason, sent to the agent that asked.")],
    as_json: Json = False,
) -> None:
    """Refuse a request."""
    _decide(context, {"approval": approval, "verdict": "refuse", "reason": reason}, as_json)


def _decide(context: typer.Context, arguments: dict[str, Any], as_json: bool) -> None:
    with refusals_told(as_json):
        show(remote_of(context).ask("decide_approval", arguments), as_json)


def show_discussion(
    context: typer.Context,
    discussion: Annotated[str, typer.Argument(help="Its id, as `tocsin discussions list` shows it.")],
    as_json: Json = False,
) -> None:
    """Show an open discussion: its question, its options and the votes."""
    with refusals_told(as_json):
        records = remote_of(context).list("list_discussions")
        found = next((record for record in records if record.discussion == discussion), None)
        if found is None:
            raise missing(f"{discussion} is not an open discussion that you may see", as_json)
        show(found, as_json)


def show_attention(
    context: typer.Context,
    agent: Annotated[
        str | None, typer.Argument(help="An agent; by default the caller. Directors and humans may see any.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what an agent is working on, what interrupts it, and what it has put aside."""
    with refusals_told(as_json):
        remote = remote_of(context)
        if agent is None:
            show(remote.ask("get_attention"), as_json)
            return
        page = remote.ask("list_roster", {"q": agent, "limit": 100})
        found = next((record.attention for record in page.items if record.agent == agent), None)
        if found is None:
            raise missing(f"{agent} is not registered in this project", as_json)
        show(found, as_json)


approvals = group_of("approvals", approve=approve, refuse=refuse)
discussions = group_of("discussions", show=show_discussion)
attention = group_of("attention", show=show_attention)

"""`tocsin leases`: who holds what, and holding something oneself."""

from typing import Annotated, Any

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.output import console, refusals_told, show_json, table

__all__ = ["leases"]

LeaseId = Annotated[str, typer.Argument(help="The lease, as `tocsin leases list` shows it.")]

leases = typer.Typer(help="Leases: who holds what, and who waits for it.", no_args_is_help=True)


@leases.command("list")
def leases_list(
    context: typer.Context,
    resource: Annotated[str | None, typer.Argument(help="Only what conflicts with this name or glob.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only what this agent holds or waits for.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many of each.")] = 100,
    as_json: Json = False,
) -> None:
    """List who holds what, and who waits for it."""
    with refusals_told(as_json):
        answer = remote_of(context).get("v1", "leases", resource=resource, agent=agent, limit=limit)
        if as_json:
            show_json(answer)
            return
        rows = [
            row
            | {"resources": ", ".join([*row["exclusive"], *(f"{name} (shared)" for name in row["shared"])])}
            | {"until": row["expires_at"] or row["wait_until"], "place": row["place"] or ""}
            for row in [*answer["held"], *answer["waiting"]]
        ]
        table(rows, "lease", "agent", "state", "resources", "priority", "place", "until")


@leases.command("acquire")
def leases_acquire(
    context: typer.Context,
    resources: Annotated[list[str], typer.Argument(help="Names and path globs, such as 'src/api/**'.")],
    shared: Annotated[bool, typer.Option("--shared", help="Share them with others who share them.")] = False,
    ttl_s: Annotated[float | None, typer.Option(help="How long for, seconds.")] = None,
    wait_s: Annotated[float | None, typer.Option(help="How long to wait in line, seconds; 0 fails at once.")] = None,
    priority: Annotated[str | None, typer.Option(help="Info, Coordinate, Blocking, Critical, …")] = None,
    lease: Annotated[str | None, typer.Option(help="An id of your own, to ask the same again.")] = None,
    as_json: Json = False,
) -> None:
    """Hold resources: all of them, or a place in line."""
    body = {"shared" if shared else "exclusive": resources, "ttl_s": ttl_s, "wait_s": wait_s}
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", "leases", body=body | {"priority": priority, "lease": lease})
        if as_json:
            show_json(answer)
        elif answer["state"] == "held":
            console.print(f"{answer['lease']} is held until {answer['expires_at']}", soft_wrap=True, markup=False)
        else:
            holders = ", ".join(answer["holders"]) or "those before it"
            place = f"{answer['lease']} waits at place {answer['place']} for {holders}"
            console.print(f"{place}, until {answer['wait_until']}", soft_wrap=True, markup=False)


@leases.command("renew")
def leases_renew(
    context: typer.Context,
    lease: LeaseId,
    ttl_s: Annotated[float | None, typer.Option(help="How long for from now on, seconds.")] = None,
    as_json: Json = False,
) -> None:
    """Keep a lease for longer."""
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", "leases", lease, "renew", body={"ttl_s": ttl_s})
        if as_json:
            show_json(answer)
        else:
            console.print(f"{answer['lease']} is held until {answer['expires_at']}", soft_wrap=True, markup=False)


@leases.command("release")
def leases_release(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="A lease, or resources by the names that they are held under.")],
    as_json: Json = False,
) -> None:
    """Set a lease or resources free, or leave the line."""
    with refusals_told(as_json):
        remote = remote_of(context)
        known = remote.get("v1", "leases", agent=remote.get("v1", "me")["agent"], limit=10_000)
        ids = {row["lease"] for row in [*known["held"], *known["waiting"]]}
        if len(names) == 1 and names[0] in ids:
            answer = remote.call("DELETE", ("v1", "leases", names[0]), None, {})
        else:
            answer = remote.post("v1", "leases", "release", body={"resources": names})
        _show_released(answer, as_json)


@leases.command("force-release")
def leases_force_release(
    context: typer.Context,
    lease: LeaseId,
    reason: Annotated[str, typer.Option(help="Why; the holder is told.")],
    as_json: Json = False,
) -> None:
    """Take a lease, or a place in line, away from whoever has it."""
    with refusals_told(as_json):
        answer = remote_of(context).post("v1", "leases", lease, "force-release", body={"reason": reason})
        _show_released(answer, as_json)


def _show_released(answer: dict[str, Any], as_json: bool) -> None:
    lines = [f"{resource} is free" for resource in answer["resources"]]
    lines += [f"{request} has left the line" for request in answer["cancelled"]]
    if as_json:
        show_json(answer)
    elif lines:
        console.print("\n".join(lines), soft_wrap=True, markup=False)

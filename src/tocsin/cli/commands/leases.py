"""`tocsin leases`: leases on resources."""

from typing import Annotated

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.operations.commands import group_of
from tocsin.cli.output import refusals_told, say, show_json
from tocsin.cli.output.replies import cell, show

__all__ = ["leases"]


def acquire(
    context: typer.Context,
    resources: Annotated[list[str], typer.Argument(help="Names and path globs, such as 'src/api/**'.")],
    shared: Annotated[bool, typer.Option("--shared", help="Hold them together with others.")] = False,
    ttl_s: Annotated[
        float | None, typer.Option(help="Seconds until the lease lapses; by default the policy's.")
    ] = None,
    wait_s: Annotated[
        float | None, typer.Option(help="Seconds to wait in the queue; 0 fails at once; by default the policy's.")
    ] = None,
    priority: Annotated[str | None, typer.Option(help="Info, Coordinate, Blocking, Critical, …")] = None,
    lease: Annotated[str | None, typer.Option(help="An id of your choice, to repeat the same request safely.")] = None,
    as_json: Json = False,
) -> None:
    """Acquire resources, all or none; the request waits in a queue if they are not free."""
    arguments = {"shared" if shared else "exclusive": resources, "ttl_s": ttl_s, "wait_s": wait_s}
    with refusals_told(as_json):
        reply = remote_of(context).ask("acquire_lease", arguments | {"priority": priority, "lease": lease})
        if as_json:
            show_json(reply)
        elif reply.state == "held":
            say(f"{reply.lease} is held until {cell(reply.expires_at)}")
        else:
            holders = ", ".join(reply.holders) or "the requests before it"
            say(f"{reply.lease} waits at place {reply.place} for {holders}, until {cell(reply.wait_until)}")


def release(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="A lease, or resources by the names they are held under.")],
    as_json: Json = False,
) -> None:
    """Release a lease or resources, or cancel a waiting request."""
    with refusals_told(as_json):
        remote = remote_of(context)
        own = remote.pages("list_leases", {"agent": remote.ask("get_me").agent})
        if len(names) == 1 and any(record.lease == names[0] for page in own for record in [*page.held, *page.waiting]):
            reply = remote.ask("release_lease", {"lease": names[0]})
        else:
            reply = remote.ask("release_resources", {"resources": names})
        show(reply, as_json)


leases = group_of("leases", acquire=acquire, release=release)

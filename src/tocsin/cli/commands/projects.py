"""`tocsin projects`: the projects of a hub."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.context import Json, remote_of
from tocsin.cli.operations.commands import group_of
from tocsin.cli.output import fail, refusals_told, say, show_json
from tocsin.cli.remote import Exit

__all__ = ["projects"]

#: Time for the hub to copy and verify a project before it begins to send it, seconds.
_EXPORT_TIMEOUT_S = 3600.0
ProjectName = Annotated[str, typer.Argument(help="The project's name.")]


def add(
    context: typer.Context,
    project: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits, dashes and underscores.")],
    save: Annotated[
        bool,
        typer.Option("--save", help="Store its admin token in the data directory, for --project, and do not print it."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Add a project to the hub, and issue its admin token."""
    from tocsin.hub.token_files import ADMIN_TOKEN_FILE, keep_secret

    with refusals_told(as_json):
        added = remote_of(context).ask("add_project", {"project": project})
    if not save:
        show_json(added) if as_json else say(added.token)
        return
    path = context.find_root().params["data"] / "projects" / project / ADMIN_TOKEN_FILE
    keep_secret(path, added.token)
    if as_json:
        show_json({"project": added.project, "token_file": str(path)})
    else:
        say(f"project {project} added; its admin token: {path}")


def export(
    context: typer.Context,
    project: ProjectName,
    file: Annotated[Path, typer.Argument(help="File to write, such as NAME.tar; it must not exist.")],
    as_json: Json = False,
) -> None:
    """Export a project with its tokens and settings as an archive that `tocsin restore` reads.

    The hub goes on serving it. The archive is checked before it gets its name.
    """
    from tocsin.fleet.backups.archive import check_archive
    from tocsin.fleet.backups.manifest import BackupError

    if file.exists():
        raise fail(f"{file} exists: an export never overwrites anything", Exit.USAGE)
    partial = file.with_name(f".{file.name}.partial-{os.getpid()}")
    try:
        with refusals_told(as_json):
            remote = remote_of(context, timeout_s=_EXPORT_TIMEOUT_S)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as writing:
                remote.download("v1", "projects", project, "export", to=writing)
                writing.flush()
                os.fsync(writing.fileno())
        check_archive(partial)
        partial.rename(file)
    except (BackupError, OSError) as error:
        raise fail(f"the export failed: {error}", Exit.FAILED) from None
    finally:
        partial.unlink(missing_ok=True)
    if as_json:
        show_json({"project": project, "file": str(file), "bytes": file.stat().st_size})
    else:
        say(f"project {project} exported: {file}, {file.stat().st_size / 2**20:.1f} MiB")


def remove(
    context: typer.Context,
    project: ProjectName,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove an archived project with everything that it has stored."""
    with refusals_told(as_json):
        known = {one.project for one in remote_of(context).list("list_projects")}
    if project not in known:
        raise fail(f"there is no project {project}", Exit.NOT_FOUND)
    if not yes:
        typed = typer.prompt(f"This deletes all messages of {project}. Type its name to go on", default="")
        if typed != project:
            raise fail("nothing was removed", Exit.USAGE)
    with refusals_told(as_json):
        removed = remote_of(context).ask("remove_project", {"project": project})
        show_json(removed) if as_json else say(f"project {project} removed")


projects = group_of("projects", add=add, export=export, remove=remove)

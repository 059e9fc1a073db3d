"""`tocsin backup` and `tocsin restore`: projects in a data folder, copied and brought back."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.commands.hub import Store
from tocsin.cli.context import DataHere, Json, data_of
from tocsin.cli.output import fail, say, show_json
from tocsin.cli.remote import Exit
from tocsin.core.errors import TocsinError

__all__ = ["backup", "restore"]

OnlyProject = Annotated[
    str | None, typer.Option("--project", help="Only this project; by default all.", metavar="NAME")
]


def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(help="Folder to make; it must not exist.")],
    project: OnlyProject = None,
    data: DataHere = None,
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Back up the projects of a data folder, while a hub serves them.

    Everything that was confirmed before the backup began is in it, with tokens, policy and settings. It is verified
    before it gets its name. Keep it as safe as the data folder: it has the same secrets.
    """
    from tocsin.fleet.backups.exports import PG_DUMP
    from tocsin.fleet.backups.making import make_backup
    from tocsin.fleet.backups.manifest import BackupError

    if store:
        raise fail(f"projects in PostgreSQL are backed up with its own tools: {PG_DUMP}", Exit.USAGE)
    told = (lambda name: None) if as_json else (lambda name: say(f"project {name}"))
    try:
        made = make_backup(data_of(context, data), target, project or _before_the_command(context), told)
    except BackupError as error:
        raise fail(str(error), Exit.FAILED) from None
    except TocsinError as error:
        raise fail(str(error), Exit.REFUSED) from None
    size = sum(file.size for file in made.files)
    if as_json:
        show_json({"backup": str(target), "begun_at": made.begun_at, "projects": made.projects, "bytes": size})
    else:
        count = f"{len(made.projects)} project{'' if len(made.projects) == 1 else 's'}"
        say(f"{count}, {size / 2**20:.1f} MiB, verified: {target}")


def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="A folder of `tocsin backup`, or a file of `tocsin projects export`.")],
    project: OnlyProject = None,
    data: DataHere = None,
    as_json: Json = False,
) -> None:
    """Restore a backup to a new data folder, or add one project of it to a data folder that no hub serves.

    A damaged backup is refused, and nothing is overwritten.
    """
    from tocsin.fleet.backups.manifest import BackupError
    from tocsin.fleet.backups.restoring import restore_backup

    if not source.exists():
        raise fail(f"there is no {source}", Exit.NOT_FOUND)
    where = data_of(context, data)
    try:
        restored = restore_backup(source, where, project or _before_the_command(context))
    except BackupError as error:
        raise fail(str(error), Exit.FAILED) from None
    except TocsinError as error:
        raise fail(str(error), Exit.REFUSED) from None
    if as_json:
        show_json({"data": str(where), "projects": restored})
        return
    for one in restored:
        say(f"project {one.project}, {one.last_seq} events: {os.path.normpath(where / one.folder)}")
    home = next((one.project for one in restored if one.folder == "."), "default")
    named = "" if home == "default" else f" --project {home}"
    say(f"next: tocsin serve --data {where}{named}")


def _before_the_command(context: typer.Context) -> str | None:
    """Return the project that the options before the command name."""
    found: str | None = context.find_root().params.get("project")
    return found

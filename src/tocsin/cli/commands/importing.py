"""`tocsin import`: messages of another system into a project that no hub serves."""

import re
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tocsin.cli.commands.hub import Project, Store
from tocsin.cli.context import DataHere, Json, data_of
from tocsin.cli.output import fail, record, say, show_json
from tocsin.cli.remote import Exit

__all__ = ["import_messages"]


def import_messages(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="A SQLite file with a table of signals, or a directory of NDJSON channels.")
    ],
    table: Annotated[str, typer.Option(help="Name of the table in a SQLite file.")] = "signal_queue",
    column: Annotated[
        list[str] | None,
        typer.Option(help="Column with a value that is not found by itself, as VALUE=COLUMN; may be repeated."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the source, part of the messageIds that are made; by default that of the file."),
    ] = None,
    quarantine: Annotated[
        Path | None,
        typer.Option(help="File for the records that are refused; by default imports-refused.ndjson in the directory."),
    ] = None,
    data: DataHere = None,
    project: Project = "default",
    store: Store = "",
    as_json: Json = False,
) -> None:
    """Import messages of another system into a project that no hub serves.

    A message that the project already has is left alone, so an import can be repeated. Messages that have not ended
    wait for their recipients; what the source does not say is `unknown`.
    """
    from tocsin.cli.storage import explained
    from tocsin.core.errors import TocsinError
    from tocsin.hub.importing.channel_files import read_channels
    from tocsin.hub.importing.found import Rejected
    from tocsin.hub.importing.importer import Importer
    from tocsin.hub.importing.signal_tables import read_table
    from tocsin.hub.service import UnknownStore, check_store, open_journal
    from tocsin.journal.errors import JournalError, ProjectBusy

    where = data_of(context, data)
    named = _named(column or [])
    if not source.exists():
        raise fail(f"there is no {source}", Exit.NOT_FOUND)
    if not store and not (where / "journal.db").exists():
        raise fail(f"there is no project in {where}: create it with `tocsin init`", Exit.NOT_FOUND)
    title = re.sub(r"[^0-9A-Za-z]", "", name or source.resolve().stem) or "import"
    try:
        check_store(store)
        importer = Importer(open_journal(where, project, store), where, quarantine or where / "imports-refused.ndjson")
        try:
            records = (
                read_channels(source, importer.bytes_max, importer.types)
                if source.is_dir()
                else read_table(source, table, title, importer.types, named)
            )
            report = importer.run(records, time.time_ns() // 1000)
        finally:
            importer.close()
    except UnknownStore as error:
        raise fail(f"--store: {error}.", Exit.USAGE) from None
    except ProjectBusy as error:
        raise fail(
            f"{error}. Stop it: messages are imported while no hub serves the project.", Exit.PROJECT_OWNED
        ) from None
    except Rejected as error:
        raise fail(f"{source} cannot be imported: {error}", Exit.USAGE) from None
    except JournalError as error:
        raise fail(f"the import failed: {explained(error)}", Exit.FAILED) from None
    except (TocsinError, OSError) as error:
        raise fail(f"the import failed: {error}", Exit.FAILED) from None
    if as_json:
        show_json(msgspec.to_builtins(report))
    else:
        record({field: value for field, value in msgspec.to_builtins(report).items() if field != "states"})
        for state, count in sorted(report.states.items()):
            say(f"  {state}: {count}")
    if report.rejected:
        raise typer.Exit(Exit.FAILED)


def _named(columns: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in columns]
    if not all(what and separator and column for what, separator, column in pairs):
        raise fail("--column takes VALUE=COLUMN, such as payload=body", Exit.USAGE)
    return {what: column for what, _, column in pairs}

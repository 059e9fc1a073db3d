"""Checks and repairs of what a project has stored, in this process."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import typer

from tocsin.cli.output import fail, say, show_json, table
from tocsin.cli.remote import Exit
from tocsin.hub.service import UnknownStore, check_store, is_postgres
from tocsin.journal.errors import JournalError, ProjectBusy, advice
from tocsin.journal.verification import Examined

__all__ = ["accept_lost_commits", "explained", "verify_stored"]


def explained(error: JournalError) -> str:
    """Return an error with what to do about it."""
    told = str(error).rstrip(".")
    return f"{told}. {advice(error)}".strip()


def verify_stored(data: Path, project: str, store: str, as_json: bool) -> None:
    """Read everything that a project has stored, and report the damage."""
    try:
        check_store(store)
        examined = list(_examined(data, project, store))
    except UnknownStore as error:
        raise fail(f"--store: {error}.", Exit.USAGE) from None
    except (JournalError, OSError) as error:
        raise fail(f"the project cannot be read: {error}", Exit.FAILED) from None
    rows = [
        {
            "check": found.what,
            "good": found.good,
            "read": found.read,
            "unverified": found.unverified,
            "damaged": found.damaged,
            "detail": found.note,
        }
        for found in examined
    ]
    if as_json:
        show_json([row | {"problems": found.problems} for row, found in zip(rows, examined, strict=True)])
    else:
        table(rows, "check", "good", "read", "unverified", "damaged", "detail")
        for found in examined:
            for problem in found.problems:
                say(f"{found.what}: {problem}")
            if found.damaged > len(found.problems):
                say(f"{found.what}: {found.damaged - len(found.problems)} more")
        if any(found.unverified for found in examined):
            say("unverified: written before there were checksums, so damage to it may go unnoticed")
    if not all(found.good for found in examined):
        if not as_json:
            say(_next_step(examined))
        raise typer.Exit(Exit.FAILED)


def _examined(data: Path, project: str, store: str) -> Iterator[Examined]:
    if is_postgres(store):
        from tocsin.journal.postgres.verification import verify_database  # the driver is optional

        return verify_database(store, project)
    from tocsin.journal.sqlite.verification import verify_directory

    if not (data / "journal.db").exists():
        raise fail(f"there is no project in {data}: it has no journal.db", Exit.NOT_FOUND)
    return verify_directory(data)


def _next_step(examined: list[Examined]) -> str:
    damaged = [found.what for found in examined if not found.good]
    if any("journal" in what or "confirmed" in what for what in damaged):
        return (
            "The journal is damaged, or has lost commits. Keep a copy of the directory and restore it from a backup;"
            " where only commits at the end are lost, `tocsin doctor --accept-loss` continues without them."
        )
    if any("structure of tokens.db" in what for what in damaged):
        return "The tokens are damaged: restore tokens.db from a backup, or remove it and issue the tokens anew."
    if any("tokens" in what for what in damaged):
        return (
            "Damaged tokens are refused, the others are valid: delete the rows of the damaged ones from the table"
            " `grants`, and issue new tokens to their agents."
        )
    return "Only tables are damaged: the next start of the hub rebuilds them from the journal."


def accept_lost_commits(data: Path, project: str, store: str, as_json: bool) -> None:
    """Continue a project without the commits that its journal has lost."""
    if store:
        raise fail("--accept-loss is for SQLite: restore a PostgreSQL database with its own tools", Exit.USAGE)
    from tocsin.journal.sqlite.repair import accept_loss

    if not data.exists():
        raise fail(f"there is no project in {data}", Exit.NOT_FOUND)
    try:
        accepted = accept_loss(data, project)
    except ProjectBusy as error:
        raise fail(f"{error}. Stop it first.", Exit.PROJECT_OWNED) from None
    except (JournalError, OSError) as error:
        raise fail(f"the loss cannot be accepted: {error}", Exit.FAILED) from None
    if as_json:
        show_json(msgspec.to_builtins(accepted))
    elif accepted.confirmed_seq <= accepted.last_seq:
        say(f"nothing is lost: the journal ends with event {accepted.last_seq}, as was confirmed")
    else:
        say(f"the project continues after event {accepted.last_seq}")
        say(f"given up: events {accepted.last_seq + 1} to {accepted.confirmed_seq}")
        if accepted.tables_reset:
            say("the tables included lost events; the next start rebuilds them")
        for name in accepted.segments:
            say(f"segment with lost events, renamed: {name}.lost")

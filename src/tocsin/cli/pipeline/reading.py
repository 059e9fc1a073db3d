"""Commands that read tables, without Java: `status`, `verify` and `query`."""

from typing import Annotated

import typer

from tocsin.cli.context import Json
from tocsin.cli.output import fail, say, show_json, table
from tocsin.cli.pipeline.options import OPTIONS, errors_reported, opened_warehouse, pipeline
from tocsin.cli.remote import Exit

__all__ = ["query", "status", "verify"]


@pipeline.command()
def status(as_json: Json = False) -> None:
    """Show progress: lag, last batches, rows, quarantine, gaps."""
    with errors_reported():
        from tocsin.pipeline.jobs.status import status as status_of

        answer = status_of(opened_warehouse(), OPTIONS.landing)
    if as_json:
        show_json(answer)
        return
    lag = answer["lag"]
    say(
        f"version {answer['version']}, written {answer['written_at'] or 'never'}\n"
        f"lag: {lag['segments']} segments ({lag['bytes']:,} bytes), {lag['seconds']:g} s,"
        f" {lag['events_not_in_tables']:,} events not in the tables yet\n"
        f"{answer['segments']} segments ingested, {answer['quarantined']:,} lines quarantined,"
        f" {answer['duplicates']:,} duplicates dropped\n"
    )
    if answer["rereadable"]:
        say(
            f"{answer['rereadable']} segments have lines that this version of Tocsin can read and an earlier one could"
            " not: tocsin pipeline reread\n"
        )
    projects = [{"project": name, **mark, "gaps": len(mark["gaps"])} for name, mark in answer["projects"].items()]
    table(projects, "project", "events", "last_seq", "last_event_at", "gaps", "retired")
    say("")
    table([{"table": name, **found} for name, found in answer["tables"].items()], "table", "rows", "files", "bytes")
    say("")
    table(answer["batches"][:10], "version", "what", "at", "seconds", "segments", "events", "events_per_s")


@pipeline.command()
def verify(as_json: Json = False) -> None:
    """Check that all tables are consistent; list the failed checks and exit with 1 if they are not."""
    with errors_reported():
        from tocsin.pipeline.jobs.verify import verify as verify_all

        checks = verify_all(opened_warehouse(), OPTIONS.landing)
    wrong = [check for check in checks if not check.balances]
    rows = [
        {"check": c.name, "what": c.what, "expected": c.expected, "found": c.found, "balances": c.balances}
        for c in checks
    ]
    if as_json:
        show_json({"balances": not wrong, "checks": rows})
    elif wrong:
        table([row for row in rows if not row["balances"]], "check", "what", "expected", "found")
    else:
        say(f"consistent: {len(checks)} checks passed")
    if wrong:
        raise typer.Exit(Exit.FAILED)


@pipeline.command()
def query(
    sql: Annotated[
        str | None, typer.Argument(help="A query in SQL (DuckDB). Without it, list tables and views.")
    ] = None,
    show: Annotated[str | None, typer.Option(help="Print the SQL of a view instead.")] = None,
    rows_max: Annotated[int, typer.Option("--limit", help="Largest number of rows shown.", min=1)] = 100,
    as_json: Json = False,
) -> None:
    """Ask all tables and views by name, in SQL. Nothing can be changed."""
    with errors_reported():
        import duckdb

        from tocsin.pipeline.catalogue import SOURCES, TABLES, VIEWS, open_tables
        from tocsin.pipeline.engine.duck import rows_of
        from tocsin.pipeline.tables.table import Source, Table, View

        if show is not None:
            text = next((view.sql for view in VIEWS if view.name == show), None)
            if text is None:
                raise fail(f"there is no view {show}; `tocsin pipeline query` lists them", Exit.USAGE)
            say(text.strip())
            return
        if sql is None:
            items: list[Source | Table | View] = []
            for some in (SOURCES, TABLES, VIEWS):
                items += some
            known = [{"name": item.name, "layer": item.layer, "about": item.about} for item in items]
            show_json(known) if as_json else table(known, "name", "layer", "about")
            return
        try:
            names = duckdb.get_table_names(sql)
        except duckdb.Error as error:
            raise fail(f"the query failed: {error}", Exit.USAGE) from None
        with open_tables(opened_warehouse(), names=names) as tables:
            try:
                tables.execute("SET enable_external_access = false")
                text = f"SELECT * FROM ({sql.rstrip().rstrip(';')}) LIMIT {rows_max}"  # noqa: S608
                found = rows_of(tables, text)
            except duckdb.Error as error:
                raise fail(f"the query failed: {error}", Exit.USAGE) from None
    if as_json:
        show_json([{name: _plain(value) for name, value in row.items()} for row in found])
    elif found:
        table([{name: str(_plain(value)) for name, value in row.items()} for row in found], *found[0])
    else:
        say("no rows")


def _plain(value: object) -> object:
    """Return a value that JSON can hold: times as text in UTC."""
    return value.isoformat() if hasattr(value, "isoformat") else value

"""Commands for people, without Java: `report` and `advise`."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.context import Json
from tocsin.cli.interruption import interruptible
from tocsin.cli.output import say, show_json
from tocsin.cli.pipeline.options import (
    OPTIONS,
    chosen_projects,
    errors_reported,
    opened_warehouse,
    parse_day,
    pipeline,
)

if TYPE_CHECKING:
    from tocsin.pipeline.advice import Advised
    from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["SHOWN", "advise", "dashboard_page", "report", "write_page"]

#: Where the dashboard shows a report that is in its folder.
SHOWN = "; the dashboard shows it under History, Reports"
_INTERRUPTED = "interrupted; nothing was written"
Projects = Annotated[list[str] | None, typer.Option("--project", help="Project. Can be repeated. Default: all.")]
Since = Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD.")]
Until = Annotated[str | None, typer.Option(help="Last day, YYYY-MM-DD.")]


@pipeline.command()
@interruptible(_INTERRUPTED)
def report(
    out: Annotated[
        Path | None, typer.Argument(help="Output file. Default: a file in DATA/reports, which the dashboard shows.")
    ] = None,
    project: Projects = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
) -> None:
    """Write a report as one HTML file, with plots, tables and advice."""
    first, last = parse_day(since, "--since"), parse_day(until, "--until")
    with errors_reported():
        from tocsin.cli.pipeline.advising import advice_on

        warehouse = opened_warehouse()
        projects = chosen_projects(project, warehouse)
        path = out or dashboard_page(projects, first, last)
        size = write_page(path, warehouse, advice_on(warehouse, projects, first, last), first, last)
    if as_json:
        show_json({"path": str(path), "projects": projects, "bytes": size})
    else:
        say(f"wrote {path}" + ("" if out else SHOWN))


def dashboard_page(projects: list[str], since: date | None = None, until: date | None = None) -> Path:
    """Describe a report to the dashboard, and return where its page has to be."""
    days = "".join(f"-{day}" for day in (since, until) if day)
    path = OPTIONS.data / "reports" / f"report{days}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    title = f"Report of {', '.join(projects)}" + (f" ({days.strip('-')})" if days else "")
    about = {"title": title, "kind": "report", "projects": projects, "made_at": datetime.now(UTC).isoformat()}
    path.with_suffix(".json").write_text(json.dumps(about), encoding="utf-8")
    return path


def write_page(
    out: Path,
    warehouse: "Warehouse",
    advised: "Mapping[str, Advised]",
    since: date | None = None,
    until: date | None = None,
) -> int:
    """Write the report on the projects that were advised; return its size in bytes."""
    from tocsin.pipeline.catalogue import open_tables
    from tocsin.pipeline.jobs.status import status as status_of
    from tocsin.pipeline.report import make_report, write_report

    state = status_of(warehouse, OPTIONS.landing)
    with open_tables(warehouse) as tables:
        page = make_report(tables, advised, state, since, until)
    write_report(out, page)
    return len(page.encode())


@pipeline.command()
@interruptible(_INTERRUPTED)
def advise(
    project: Projects = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
) -> None:
    """Recommend policy changes, each with its evidence and the change to tocsin.yaml."""
    first, last = parse_day(since, "--since"), parse_day(until, "--until")
    with errors_reported():
        import msgspec

        from tocsin.cli.pipeline.advising import advice_on
        from tocsin.pipeline.report.formatting import figure, number

        warehouse = opened_warehouse()
        given = advice_on(warehouse, chosen_projects(project, warehouse), first, last)
    if as_json:
        show_json({name: msgspec.to_builtins(advised) for name, advised in given.items()})
        return
    for name, advised in given.items():
        say(name if advised.advice else f"{name}: no changes recommended")
        if advised.note:
            say(advised.note)
        for piece in advised.advice:
            say(f"\n{piece.subject}: {piece.verdict}\n{piece.text}")
            for item in piece.evidence:
                say(f"  {item.table}: {item.figure}: {figure(item.figure, item.value)} (of {number(item.count)})")
            say("".join(f"    {line}\n" for line in piece.patch.splitlines()).rstrip("\n"))

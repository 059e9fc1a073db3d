"""The `tocsin pipeline` commands. They read segment files and need no running hub."""

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tocsin.cli.context import HERE, DataHere, Json, data_of
from tocsin.cli.output import fail, show_json, table
from tocsin.cli.remote import Exit
from tocsin.cli.terminal import console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.pipeline.lake.manifest import Manifest
    from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["pipeline"]

pipeline = typer.Typer(
    help="Data pipeline on Spark: tables, reports and advice from recorded events.", no_args_is_help=True
)


#: A URL; `Path` has made one slash of two.
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/+(?P<rest>.*)")


class _Options:
    """Options of all commands, set before a command runs."""

    landing = HERE / "segments"
    warehouse = HERE / "warehouse"
    settings: Path | None = None
    master = "local[*]"
    remote: str | None = None
    conf: tuple[str, ...] = ()
    java = "auto"
    scratch: Path | None = None


_options = _Options()


@pipeline.callback()
def _common(
    context: typer.Context,
    data: DataHere = None,
    segments: Annotated[
        Path | None, typer.Option(help="Folder of segment files (the landing zone). Default: DATA/segments.")
    ] = None,
    warehouse: Annotated[Path | None, typer.Option(help="Folder of the tables. Default: DATA/warehouse.")] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings file. Default: DATA/pipeline.yaml.")] = None,
    master: Annotated[str, typer.Option(help="Spark master, for example local[4] or spark://host:7077.")] = "local[*]",
    remote: Annotated[str | None, typer.Option(help="Spark Connect server, sc://host:port.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark option NAME=VALUE. Can be repeated.")] = None,
    java: Annotated[str, typer.Option(envvar="TOCSIN_JAVA", help="Java to use: auto, bundled, or a path.")] = "auto",
    scratch: Annotated[Path | None, typer.Option(help="Folder for temporary files. Default: the system's.")] = None,
) -> None:
    data = data_of(context, data)
    _options.landing = _folder(segments, "--segments") or data / "segments"
    _options.warehouse = _folder(warehouse, "--warehouse") or data / "warehouse"
    _options.settings = settings or data / "pipeline.yaml"
    _options.master, _options.remote, _options.java, _options.scratch = master, remote, java, scratch
    _options.conf = tuple(conf or ())


def _folder(given: Path | None, option: str) -> Path | None:
    """Return a folder that is given as a path or as a file:// URL; fail on any other URL."""
    named = None if given is None else _SCHEME.match(str(given))
    if given is None or named is None:
        return given
    if named["scheme"] != "file":
        raise fail(
            f"{option} {given}: there is no storage {named['scheme']}; give a folder that driver and workers see",
            Exit.USAGE,
        )
    return Path("/", named["rest"])


@pipeline.command()
def run(as_json: Json = False) -> None:
    """Ingest new segments and update all tables, once. A second run changes nothing."""
    with _errors_reported(), _session() as (spark, warehouse):
        from tocsin.pipeline.jobs.extract_writer import Extractor
        from tocsin.pipeline.jobs.run import run as run_once

        with _progress(quiet=as_json) as report_progress:
            outcome = run_once(spark, warehouse, _options.landing, report_progress)
        Extractor(warehouse).write()
        rate = round(outcome.events / outcome.seconds) if outcome.seconds else 0
        answer = {
            "version": outcome.version,
            "segments": outcome.segments,
            "events": outcome.events,
            "seconds": round(outcome.seconds, 2),
            "events_per_s": rate,
            "rows": outcome.rows,
        }
        if as_json:
            show_json(answer)
            return
        console.print(
            f"{outcome.events:,} events of {outcome.segments} new segments in {outcome.seconds:.1f} s"
            f" ({rate:,} per second); version {outcome.version}"
        )
        table([{"table": name, "rows": f"{rows:,}"} for name, rows in outcome.rows.items()], "table", "rows")


@pipeline.command()
def stream(
    every: Annotated[float, typer.Option(help="Seconds between checks for new segments.", min=0.1)] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Process the segments that are there, and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Keep all tables up to date with new segments until stopped (Ctrl-C)."""
    with _errors_reported(), _session() as (spark, warehouse):
        from tocsin.pipeline.jobs.extract_writer import Extractor
        from tocsin.pipeline.jobs.refresh import refresh
        from tocsin.pipeline.jobs.stream import start_stream

        with warehouse.writing():
            refresh(spark, warehouse)
        stopping = _until_signal()
        on_commit = None if _options.remote else _report_batch(as_json)
        query = start_stream(spark, warehouse, _options.landing, every_s=None if once else every, on_commit=on_commit)
        if not as_json:
            console.print(f"watching {_options.landing}", soft_wrap=True, markup=False)
        extractor = Extractor(warehouse)
        while query.isActive and not stopping.is_set():
            query.awaitTermination(1)
            extractor.keep_up()
        query.stop()
        extractor.write()
        error = query.exception()
        if error is not None:
            raise fail(f"the stream stopped: {error}", Exit.FAILED)


@pipeline.command()
def extract(as_json: Json = False) -> None:
    """Write tables and advice as plain files for the dashboard; run and stream do this automatically."""
    with _errors_reported():
        from tocsin.pipeline.jobs.extract_writer import Extractor

        index = Extractor(_warehouse()).write()
    rows = {name: sum(part.kept for part in known.parts) for name, known in index.tables.items()}
    if as_json:
        show_json({"version": index.version, "rows": rows})
    else:
        console.print(f"version {index.version}: {sum(rows.values()):,} rows of {len(rows)} tables")


@pipeline.command()
def status(as_json: Json = False) -> None:
    """Show progress: lag, last batches, rows, quarantine, gaps."""
    with _errors_reported():
        from tocsin.pipeline.jobs.status import status as status_of

        answer = status_of(_warehouse(), _options.landing)
    if as_json:
        show_json(answer)
        return
    lag = answer["lag"]
    console.print(
        f"version {answer['version']}, written {answer['written_at'] or 'never'}\n"
        f"lag: {lag['segments']} segments ({lag['bytes']:,} bytes), {lag['seconds']:g} s,"
        f" {lag['events_not_in_tables']:,} events not in the tables yet\n"
        f"{answer['segments']} segments ingested, {answer['quarantined']:,} lines quarantined,"
        f" {answer['duplicates']:,} duplicates dropped\n"
    )
    projects = [{"project": name, **mark, "gaps": len(mark["gaps"])} for name, mark in answer["projects"].items()]
    table(projects, "project", "events", "last_seq", "last_event_at", "gaps", "retired")
    console.print()
    table([{"table": name, **found} for name, found in answer["tables"].items()], "table", "rows", "files", "bytes")
    console.print()
    table(answer["batches"][:10], "version", "what", "at", "seconds", "segments", "events", "events_per_s")


@pipeline.command()
def verify(as_json: Json = False) -> None:
    """Check that all tables are consistent; list the failed checks and exit with 1 if they are not."""
    with _errors_reported():
        from tocsin.pipeline.jobs.verify import verify as verify_all

        checks = verify_all(_warehouse(), _options.landing)
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
        console.print(f"consistent: {len(checks)} checks passed")
    if wrong:
        raise typer.Exit(Exit.FAILED)


@pipeline.command()
def compact(as_json: Json = False) -> None:
    """Merge small files, drop days beyond retention, delete unused files; safe while a stream runs."""
    with _errors_reported(), _session() as (spark, warehouse):
        from tocsin.pipeline.lake.compaction import Housekeeping, retire, vacuum
        from tocsin.pipeline.lake.compaction import compact as compact_all

        done = Housekeeping()
        retire(warehouse, done)
        compact_all(spark, warehouse, done)
        vacuum(warehouse, done)
    if as_json:
        show_json({name: getattr(done, name) for name in done.__struct_fields__})
    else:
        console.print(
            f"{done.files_before} files merged into {done.files_after}; {done.files_retired} dropped by retention;"
            f" {done.files_deleted} files deleted ({done.bytes_deleted:,} bytes)"
        )


@pipeline.command()
def report(
    out: Annotated[Path, typer.Argument(help="Output file.")] = Path("tocsin-report.html"),
    project: Annotated[list[str] | None, typer.Option(help="Project. Can be repeated. Default: all.")] = None,
    since: Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD.")] = None,
    until: Annotated[str | None, typer.Option(help="Last day, YYYY-MM-DD.")] = None,
    as_json: Json = False,
) -> None:
    """Write a report as one HTML file, with plots, tables and advice."""
    first, last = _day(since, "--since"), _day(until, "--until")
    with _errors_reported():
        from tocsin.pipeline.catalogue import open_tables
        from tocsin.pipeline.jobs.status import status as status_of
        from tocsin.pipeline.report import make_report, write_report

        warehouse = _warehouse()
        projects = _chosen(project, warehouse)
        state = status_of(warehouse, _options.landing)
        with open_tables(warehouse) as tables:
            page = make_report(tables, projects, state, first, last)
        write_report(out, page)
    if as_json:
        show_json({"path": str(out), "projects": projects, "bytes": len(page.encode())})
    else:
        console.print(f"wrote {out}", soft_wrap=True, markup=False)


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
    with _errors_reported():
        import duckdb

        from tocsin.pipeline.catalogue import SOURCES, TABLES, VIEWS, open_tables
        from tocsin.pipeline.engine.duck import rows_of
        from tocsin.pipeline.tables.table import Source, Table, View

        if show is not None:
            text = next((view.sql for view in VIEWS if view.name == show), None)
            if text is None:
                raise fail(f"there is no view {show}; `tocsin pipeline query` lists them", Exit.USAGE)
            print(text.strip())  # noqa: T201
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
        with open_tables(_warehouse(), names=names) as tables:
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
        console.print("no rows")


@pipeline.command()
def advise(
    project: Annotated[list[str] | None, typer.Option(help="Project. Can be repeated. Default: all.")] = None,
    since: Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD.")] = None,
    until: Annotated[str | None, typer.Option(help="Last day, YYYY-MM-DD.")] = None,
    as_json: Json = False,
) -> None:
    """Recommend policy changes, each with its evidence and the change to tocsin.yaml."""
    first, last = _day(since, "--since"), _day(until, "--until")
    with _errors_reported():
        import msgspec

        from tocsin.pipeline.advice import ADVICE_VIEWS, advise_on
        from tocsin.pipeline.catalogue import open_tables

        warehouse = _warehouse()
        with open_tables(warehouse, names=ADVICE_VIEWS) as tables:
            given = {name: advise_on(tables, name, first, last) for name in _chosen(project, warehouse)}
    if as_json:
        show_json({name: msgspec.to_builtins(pieces) for name, pieces in given.items()})
        return
    for name, pieces in given.items():
        console.print(f"[bold]{escape(name)}[/bold]" + ("" if pieces else ": no changes recommended"))
        for piece in pieces:
            console.print(f"\n{escape(piece.text)}", highlight=False)
            for item in piece.evidence:
                console.print(f"  {escape(item.table)}: {escape(item.figure)} = {item.value:g} (of {item.count:,})")
            console.print(escape(piece.patch), style="green", highlight=False)


def _plain(value: object) -> object:
    """Return a value that JSON can hold: times as text in UTC."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _chosen(asked: list[str] | None, warehouse: "Warehouse") -> list[str]:
    """Return the chosen projects, or all; fail on an unknown one."""
    known = sorted(warehouse.current().projects)
    if unknown := [name for name in asked or [] if name not in known]:
        raise fail(f"there is no project {unknown[0]} in the tables; known projects: {', '.join(known)}", Exit.USAGE)
    return list(asked or known)


def _day(text: str | None, option: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise fail(f"{option} {text} is not a date: use YYYY-MM-DD", Exit.USAGE) from None


def _warehouse() -> "Warehouse":
    from tocsin.pipeline.catalogue import open_warehouse
    from tocsin.pipeline.settings import load_settings

    return open_warehouse(_options.warehouse, load_settings(_options.settings))


@contextmanager
def _session() -> Iterator[tuple["SparkSession", "Warehouse"]]:
    """Open Spark and the warehouse according to the options."""
    from tocsin.pipeline.engine.spark import SparkOptions, spark_session

    pairs = [item.partition("=") for item in _options.conf]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise fail(f"--conf {wrong[0]} has no value: use NAME=VALUE", Exit.USAGE)
    conf = {name: value for name, _, value in pairs}
    options = SparkOptions(_options.master, _options.remote, conf, _options.java, _options.scratch)
    warehouse = _warehouse()
    with spark_session(options, warehouse.settings) as spark:
        yield spark, warehouse


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Turn errors of the pipeline into a message and an exit code."""
    try:
        from tocsin.core.errors import TocsinError
        from tocsin.pipeline.errors import PipelineError, WarehouseBusy
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    except WarehouseBusy as error:
        raise fail(f"{error}. Wait for it to end, or stop it.", Exit.TRY_LATER) from None
    except (PipelineError, TocsinError, OSError) as error:
        raise fail(str(error), Exit.FAILED) from None


def _missing(error: ModuleNotFoundError) -> BaseException:
    if error.name is None or error.name.startswith("tocsin"):
        return error
    return fail(f"the pipeline needs {error.name}: pip install 'tocsin[pipeline]'", Exit.FAILED)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show progress bars on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar: dict[str, TaskID] = {}
        begin = time.monotonic()

        def report_progress(stage: str, done: int, total: int) -> None:
            group = "bronze" if stage == "bronze" else "tables"
            if group not in bar:
                bar[group] = bars.add_task(group, total=total, rate="")
            spent = max(time.monotonic() - begin, 1e-6)
            rate = f"{done / spent / 1e6:.1f} MB/s" if group == "bronze" else f"{done} of {total}"
            shown = stage if group == "bronze" else f"tables: {stage}"
            bars.update(bar[group], completed=done, total=total, rate=rate, description=shown)

        yield report_progress


def _report_batch(as_json: bool) -> Callable[[int, "Manifest"], None]:
    """Return a callback that prints each micro-batch."""

    def on_commit(batch_id: int, manifest: "Manifest") -> None:
        batch = manifest.batches[-1] if manifest.batches else None
        if batch is None:
            return
        if as_json:
            show_json({"batch": batch_id, "version": manifest.version, "events": batch.events, "rows": batch.rows})
        else:
            rate = round(batch.events / batch.seconds) if batch.seconds else 0
            console.print(
                f"batch {batch_id}: version {manifest.version}, {batch.events:,} events"
                f" in {batch.seconds:.1f} s ({rate:,} per second)"
            )

    return on_commit


def _until_signal() -> threading.Event:
    """Return an event that is set by SIGINT and SIGTERM."""
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stopping

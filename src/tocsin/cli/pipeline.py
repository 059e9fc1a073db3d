"""`tocsin pipeline`: what happened, as tables. Needs no hub: it reads the segments that a hub leaves behind."""

import functools
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
from tocsin.cli.output import console, fail, show_json, table
from tocsin.cli.remote import Exit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.pipeline.lake.manifest import Manifest
    from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["pipeline"]

pipeline = typer.Typer(help="What happened, as tables: the data pipeline on Spark.", no_args_is_help=True)


class _Options:
    """What holds for all commands; filled in before one runs."""

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
        Path | None, typer.Option(help="The landing zone; DATA/segments unless said otherwise.")
    ] = None,
    warehouse: Annotated[Path | None, typer.Option(help="Where the tables are; DATA/warehouse otherwise.")] = None,
    settings: Annotated[Path | None, typer.Option(help="DATA/pipeline.yaml unless said otherwise.")] = None,
    master: Annotated[str, typer.Option(help="Spark master, such as local[4] or spark://host:7077.")] = "local[*]",
    remote: Annotated[str | None, typer.Option(help="Spark Connect server, sc://host:port.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for Spark, as it is; again for more.")] = None,
    java: Annotated[str, typer.Option(envvar="TOCSIN_JAVA", help="auto, bundled, or where a Java is.")] = "auto",
    scratch: Annotated[Path | None, typer.Option(help="Where Spark may spill; the system's place otherwise.")] = None,
) -> None:
    data = data_of(context, data)
    _options.landing = segments or data / "segments"
    _options.warehouse = warehouse or data / "warehouse"
    _options.settings = settings or data / "pipeline.yaml"
    _options.master, _options.remote, _options.java, _options.scratch = master, remote, java, scratch
    _options.conf = tuple(conf or ())


@pipeline.command()
def run(as_json: Json = False) -> None:
    """Take new segments through all tables, once. Doing it again changes nothing."""
    with _errors_reported(), _session() as (spark, warehouse):
        from tocsin.pipeline.jobs.extract_writer import Extractor
        from tocsin.pipeline.jobs.run import run as run_once

        with _progress(quiet=as_json) as report_progress:
            outcome = run_once(spark, warehouse, _options.landing, report_progress)
        Extractor(spark, warehouse).write()
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
    every: Annotated[float, typer.Option(help="Seconds between looks at the landing zone.", min=0.1)] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Take what is there, and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Follow the landing zone until told to stop (Ctrl-C): all tables stay up to date."""
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
            console.print(f"following {_options.landing}", soft_wrap=True, markup=False)
        extractor = Extractor(spark, warehouse)
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
    """Write the tables and the advice as plain files for the dashboard; run and stream do it by themselves."""
    with _errors_reported(), _session() as (spark, warehouse):
        from tocsin.pipeline.jobs.extract_writer import Extractor

        index = Extractor(spark, warehouse).write()
    rows = {name: sum(part.kept for part in known.parts) for name, known in index.tables.items()}
    if as_json:
        show_json({"version": index.version, "rows": rows})
    else:
        console.print(f"version {index.version}: {sum(rows.values()):,} rows of {len(rows)} tables")


@pipeline.command()
def status(as_json: Json = False) -> None:
    """Show how far the tables are: lag, last batches, rows, quarantine, gaps."""
    with _errors_reported():
        from tocsin.pipeline.jobs.status import status as status_of

        answer = status_of(_warehouse(), _options.landing)
    if as_json:
        show_json(answer)
        return
    lag = answer["lag"]
    console.print(
        f"version {answer['version']}, written {answer['written_at'] or 'never'}\n"
        f"behind: {lag['segments']} segments ({lag['bytes']:,} bytes), {lag['seconds']:g} s,"
        f" {lag['events_not_in_tables']:,} events not in the tables yet\n"
        f"{answer['segments']} segments taken, {answer['quarantined']:,} lines quarantined,"
        f" {answer['duplicates']:,} duplicates left out\n"
    )
    projects = [{"project": name, **mark, "gaps": len(mark["gaps"])} for name, mark in answer["projects"].items()]
    table(projects, "project", "events", "last_seq", "last_event_at", "gaps", "retired")
    console.print()
    table([{"table": name, **found} for name, found in answer["tables"].items()], "table", "rows", "files", "bytes")
    console.print()
    table(answer["batches"][:10], "version", "what", "at", "seconds", "segments", "events", "events_per_s")


@pipeline.command()
def verify(as_json: Json = False) -> None:
    """Prove that the books balance; exit 1 and say where, when they do not."""
    with _errors_reported(), _session() as (spark, warehouse):
        from tocsin.pipeline.jobs.verify import verify as verify_all

        checks = verify_all(spark, warehouse, _options.landing)
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
        console.print(f"the books balance: {len(checks)} sums agree")
    if wrong:
        raise typer.Exit(Exit.FAILED)


@pipeline.command()
def compact(as_json: Json = False) -> None:
    """Join small files, drop days that are no longer kept, delete what no longer counts; also beside a stream."""
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
            f"{done.files_before} files became {done.files_after}; {done.files_retired} files of old days dropped;"
            f" {done.files_deleted} files deleted ({done.bytes_deleted:,} bytes)"
        )


@pipeline.command()
def report(
    out: Annotated[Path, typer.Argument(help="Where to write the page.")] = Path("tocsin-report.html"),
    project: Annotated[list[str] | None, typer.Option(help="A project; again for more. All unless said.")] = None,
    since: Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD.")] = None,
    until: Annotated[str | None, typer.Option(help="Last day, YYYY-MM-DD.")] = None,
    as_json: Json = False,
) -> None:
    """Write what the tables say as one HTML file, with plots and advice."""
    first, last = _day(since, "--since"), _day(until, "--until")
    with _errors_reported(), _session() as (spark, warehouse):
        from tocsin.pipeline.jobs.status import status as status_of
        from tocsin.pipeline.report import make_report, write_report

        projects = _chosen(project, warehouse)
        state = status_of(warehouse, _options.landing)
        page = make_report(lambda name: warehouse.table(spark, name), projects, state, first, last)
        write_report(out, page)
    if as_json:
        show_json({"path": str(out), "projects": projects, "bytes": len(page.encode())})
    else:
        console.print(f"wrote {out}", soft_wrap=True, markup=False)


@pipeline.command()
def advise(
    project: Annotated[list[str] | None, typer.Option(help="A project; again for more. All unless said.")] = None,
    since: Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD.")] = None,
    until: Annotated[str | None, typer.Option(help="Last day, YYYY-MM-DD.")] = None,
    as_json: Json = False,
) -> None:
    """Say what history asks of the policy: each piece with its evidence and the change to tocsin.yaml."""
    first, last = _day(since, "--since"), _day(until, "--until")
    with _errors_reported(), _session() as (spark, warehouse):
        import msgspec

        from tocsin.pipeline.advice import advise_on

        read = functools.partial(warehouse.table, spark)
        given = {name: advise_on(read, name, first, last) for name in _chosen(project, warehouse)}
    if as_json:
        show_json({name: msgspec.to_builtins(pieces) for name, pieces in given.items()})
        return
    for name, pieces in given.items():
        console.print(f"[bold]{escape(name)}[/bold]" + ("" if pieces else ": nothing to change"))
        for piece in pieces:
            console.print(f"\n{escape(piece.text)}", highlight=False)
            for item in piece.evidence:
                console.print(f"  {escape(item.table)}: {escape(item.figure)} = {item.value:g} (of {item.count:,})")
            console.print(escape(piece.patch), style="green", highlight=False)


def _chosen(asked: list[str] | None, warehouse: "Warehouse") -> list[str]:
    """Return the projects that are asked for, or all; one that is not there is a mistake."""
    known = sorted(warehouse.current().projects)
    if unknown := [name for name in asked or [] if name not in known]:
        raise fail(f"there is no project {unknown[0]} in the tables; there are: {', '.join(known)}", Exit.USAGE)
    return list(asked or known)


def _day(text: str | None, option: str) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise fail(f"{option} {text}: say YYYY-MM-DD", Exit.USAGE) from None


def _warehouse() -> "Warehouse":
    from tocsin.pipeline.catalogue import open_warehouse
    from tocsin.pipeline.settings import load_settings

    return open_warehouse(_options.warehouse, load_settings(_options.settings))


@contextmanager
def _session() -> Iterator[tuple["SparkSession", "Warehouse"]]:
    """Open Spark and the warehouse as the options say."""
    from tocsin.pipeline.engine.spark import SparkOptions, spark_session

    pairs = [item.partition("=") for item in _options.conf]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise fail(f"--conf {wrong[0]}: say NAME=VALUE", Exit.USAGE)
    conf = {name: value for name, _, value in pairs}
    options = SparkOptions(_options.master, _options.remote, conf, _options.java, _options.scratch)
    warehouse = _warehouse()
    with spark_session(options, warehouse.settings) as spark:
        yield spark, warehouse


@contextmanager
def _errors_reported() -> Iterator[None]:
    """Turn what keeps the pipeline from working into a message and an exit code."""
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
        raise fail(f"{error}. Wait for it, or stop it.", Exit.TRY_LATER) from None
    except (PipelineError, TocsinError, OSError) as error:
        raise fail(str(error), Exit.FAILED) from None


def _missing(error: ModuleNotFoundError) -> BaseException:
    if error.name is None or error.name.startswith("tocsin"):
        return error
    return fail(f"the pipeline needs {error.name}: pip install 'tocsin[pipeline]'", Exit.FAILED)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show bars with stage and rate, on a terminal."""
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
    """Say what each micro-batch did."""

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
    """Return what is set once somebody wants this process to stop."""
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return stopping

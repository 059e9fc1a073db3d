"""Commands that build tables: `run`, `reread`, `stream`, `extract` and `compact`."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.context import Json
from tocsin.cli.interruption import interruptible, on_interrupt
from tocsin.cli.output import fail, say, show_json, table
from tocsin.cli.pipeline.options import OPTIONS, errors_reported, open_session, opened_warehouse, pipeline
from tocsin.cli.pipeline.progress import shown_steps
from tocsin.cli.remote import Exit

if TYPE_CHECKING:
    from tocsin.pipeline.lake.warehouse import Snapshot

__all__ = ["compact", "extract", "reread", "run", "stream"]

#: Last line of a command that was interrupted.
_INTERRUPTED = "interrupted; the next run continues from the last commit"
#: Steps of `run`.
_STEPS = ("spark", "events", "tables", "advice", "extract", "report")

#: Steps of `reread`.
_REREAD_STEPS = ("spark", "events", "tables", "extract")


@pipeline.command()
@interruptible(_INTERRUPTED)
def run(
    report: Annotated[
        Path | None, typer.Option(help="File of the report. Default: one in DATA/reports, which the dashboard shows.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ingest new segments, update all tables, and write advice and report. A second run changes nothing."""
    with shown_steps(_STEPS, quiet=as_json) as steps, errors_reported(), ExitStack() as opened:
        with steps.step("spark"):
            from tocsin.cli.pipeline.advising import advice_on
            from tocsin.cli.pipeline.reports import SHOWN, dashboard_page, write_page
            from tocsin.pipeline.jobs.extract_writer import Extractor
            from tocsin.pipeline.jobs.run import run as run_once

            spark, warehouse = opened.enter_context(open_session())
        outcome = run_once(spark, warehouse, OPTIONS.landing, steps)
        with steps.step("advice") as step:
            advised = advice_on(warehouse)
            step.rows = sum(len(one.advice) for one in advised.values())
        with steps.step("extract") as step:
            index = Extractor(warehouse, advised.__getitem__).write()
            step.rows = sum(part.kept for known in index.tables.values() for part in known.parts)
        page = report or dashboard_page(list(advised))
        with steps.step("report"):
            write_page(page, warehouse, advised)
    rate = round(outcome.events / outcome.seconds) if outcome.seconds else 0
    if as_json:
        answer = {
            "version": outcome.version,
            "segments": outcome.segments,
            "events": outcome.events,
            "seconds": round(outcome.seconds, 2),
            "events_per_s": rate,
            "rows": outcome.rows,
            "report": str(page),
        }
        show_json(answer)
        return
    say(
        f"{outcome.events:,} events of {outcome.segments} new segments in {outcome.seconds:.1f} s"
        f" ({rate:,} per second); version {outcome.version}"
    )
    if outcome.rows:
        table([{"table": name, "rows": f"{rows:,}"} for name, rows in outcome.rows.items()], "table", "rows")
    else:
        say(f"there are no segments in {OPTIONS.landing} yet: a running hub closes one after storage.segment_age_s")
    say(f"report: {page}" + ("" if report else SHOWN))


@pipeline.command()
@interruptible(_INTERRUPTED)
def reread(
    rejected: Annotated[
        bool, typer.Option("--rejected", help="Read all segments again that had rejected lines, for whatever reason.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read segments again that had lines of unknown kinds, after an upgrade that knows them; add their events."""
    with shown_steps(_REREAD_STEPS, quiet=as_json) as steps, errors_reported(), ExitStack() as opened:
        with steps.step("spark"):
            from tocsin.cli.pipeline.advising import Adviser
            from tocsin.pipeline.jobs.extract_writer import Extractor
            from tocsin.pipeline.jobs.run import reread as reread_once

            spark, warehouse = opened.enter_context(open_session())
        outcome = reread_once(spark, warehouse, OPTIONS.landing, steps, rejected=rejected)
        with steps.step("extract") as step:
            index = Extractor(warehouse, Adviser(warehouse).advise).write()
            step.rows = sum(part.kept for known in index.tables.values() for part in known.parts)
    if as_json:
        show_json({"version": outcome.version, "segments": outcome.segments, "events": outcome.events})
    else:
        say(f"{outcome.events:,} events added from {outcome.segments} segments; version {outcome.version}")


@pipeline.command()
@interruptible(_INTERRUPTED)
def stream(
    every: Annotated[float, typer.Option(help="Seconds between checks for new segments.", min=0.1)] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Process the segments that are there, and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Keep all tables up to date with new segments until stopped (Ctrl-C)."""
    with errors_reported(), open_session() as (spark, warehouse):
        from tocsin.cli.pipeline.advising import Adviser
        from tocsin.pipeline.jobs.extract_writer import Extractor
        from tocsin.pipeline.jobs.refresh import refresh
        from tocsin.pipeline.jobs.stream import start_stream

        with warehouse.writing():
            refresh(spark, warehouse)
        on_commit = None if OPTIONS.remote else _report_batch(as_json)
        query = start_stream(spark, warehouse, OPTIONS.landing, every_s=None if once else every, on_commit=on_commit)
        if OPTIONS.remote:
            # A stream on a server does not end with this process.
            on_interrupt(query.stop)
        if not as_json:
            say(f"watching {OPTIONS.landing}")
        extractor = Extractor(warehouse, Adviser(warehouse).advise)
        while query.isActive:
            query.awaitTermination(1)
            extractor.keep_up()
        extractor.write()
        error = query.exception()
        if error is not None:
            raise fail(f"the stream stopped: {error}", Exit.FAILED)


@pipeline.command()
@interruptible(_INTERRUPTED)
def extract(as_json: Json = False) -> None:
    """Write tables and advice as plain files for the dashboard; run and stream do this automatically."""
    with errors_reported():
        from tocsin.cli.pipeline.advising import Adviser
        from tocsin.pipeline.jobs.extract_writer import Extractor

        warehouse = opened_warehouse()
        index = Extractor(warehouse, Adviser(warehouse).advise).write()
    rows = {name: sum(part.kept for part in known.parts) for name, known in index.tables.items()}
    if as_json:
        show_json({"version": index.version, "rows": rows})
    else:
        say(f"version {index.version}: {sum(rows.values()):,} rows of {len(rows)} tables")


@pipeline.command()
@interruptible(_INTERRUPTED)
def compact(as_json: Json = False) -> None:
    """Merge small files, drop days beyond retention, delete unused files; safe while a stream runs."""
    with errors_reported():
        from tocsin.pipeline.lake.compaction import Housekeeping, retire, vacuum
        from tocsin.pipeline.lake.compaction import compact as compact_all

        warehouse, done = opened_warehouse(), Housekeeping()
        retire(warehouse, done)
        compact_all(warehouse, done)
        vacuum(warehouse, done)
    if as_json:
        show_json({name: getattr(done, name) for name in done.__struct_fields__})
    else:
        say(
            f"{done.files_before} files merged into {done.files_after}; {done.files_retired} dropped by retention;"
            f" {done.files_deleted} files deleted ({done.bytes_deleted:,} bytes)"
        )


def _report_batch(as_json: bool) -> Callable[[int, "Snapshot"], None]:
    """Return a callback that prints each micro-batch."""

    def on_commit(batch_id: int, state: "Snapshot") -> None:
        batch = state.release.batch
        if batch is None:
            return
        if as_json:
            show_json({"batch": batch_id, "version": state.version, "events": batch.events, "rows": batch.rows})
        else:
            rate = round(batch.events / batch.seconds) if batch.seconds else 0
            say(
                f"batch {batch_id}: version {state.version}, {batch.events:,} events"
                f" in {batch.seconds:.1f} s ({rate:,} per second)"
            )

    return on_commit

"""Options of all `tocsin pipeline` commands, and what they open: settings, warehouse and Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.context import HERE, DataHere, data_of
from tocsin.cli.interruption import on_interrupt
from tocsin.cli.output import fail
from tocsin.cli.remote import Exit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["OPTIONS", "chosen_projects", "errors_reported", "open_session", "opened_warehouse", "parse_day", "pipeline"]

pipeline = typer.Typer(
    help="Data pipeline on Spark: tables, reports and advice from recorded events.", no_args_is_help=True
)


class Options:
    """Options of all commands, set before a command runs."""

    data = HERE
    #: Path or URL of the segments, and of the tables.
    landing = str(HERE / "segments")
    warehouse = str(HERE / "warehouse")
    settings: Path | None = None
    master = "local[*]"
    remote: str | None = None
    conf: tuple[str, ...] = ()
    java = "auto"
    scratch: Path | None = None


OPTIONS = Options()


@pipeline.callback()
def _common(
    context: typer.Context,
    data: DataHere = None,
    segments: Annotated[
        str | None, typer.Option(help="Folder or URL of segment files (the landing zone). Default: DATA/segments.")
    ] = None,
    warehouse: Annotated[
        str | None, typer.Option(help="Folder or URL of the tables, such as s3://bucket/lake. Default: DATA/warehouse.")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="Settings file. Default: DATA/pipeline.yaml.")] = None,
    master: Annotated[str, typer.Option(help="Spark master, for example local[4] or spark://host:7077.")] = "local[*]",
    remote: Annotated[str | None, typer.Option(help="Spark Connect server, sc://host:port.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark option NAME=VALUE. Can be repeated.")] = None,
    java: Annotated[str, typer.Option(envvar="TOCSIN_JAVA", help="Java to use: auto, bundled, or a path.")] = "auto",
    scratch: Annotated[Path | None, typer.Option(help="Folder for temporary files. Default: the system's.")] = None,
) -> None:
    data = OPTIONS.data = data_of(context, data)
    OPTIONS.landing = segments or str(data / "segments")
    OPTIONS.warehouse = warehouse or str(data / "warehouse")
    OPTIONS.settings = settings or data / "pipeline.yaml"
    OPTIONS.master, OPTIONS.remote, OPTIONS.java, OPTIONS.scratch = master, remote, java, scratch
    OPTIONS.conf = tuple(conf or ())


def chosen_projects(asked: list[str] | None, warehouse: "Warehouse") -> list[str]:
    """Return the chosen projects, or all; fail on an unknown one."""
    known = sorted(warehouse.current().projects)
    if unknown := [name for name in asked or [] if name not in known]:
        raise fail(f"there is no project {unknown[0]} in the tables; known projects: {', '.join(known)}", Exit.USAGE)
    return list(asked or known)


def parse_day(text: str | None, option: str) -> date | None:
    """Return the day that an option names."""
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise fail(f"{option} {text} is not a date: use YYYY-MM-DD", Exit.USAGE) from None


def opened_warehouse() -> "Warehouse":
    """Open the warehouse according to the options."""
    from tocsin.pipeline.catalogue import open_warehouse
    from tocsin.pipeline.lake.storage import open_storage
    from tocsin.pipeline.settings import load_settings

    for place in dict.fromkeys((OPTIONS.landing, OPTIONS.warehouse)):
        open_storage(place).check()
    return open_warehouse(OPTIONS.warehouse, load_settings(OPTIONS.settings), OPTIONS.data / "warehouse")


@contextmanager
def open_session() -> Iterator[tuple["SparkSession", "Warehouse"]]:
    """Open Spark and the warehouse according to the options."""
    from tocsin.pipeline.engine.processes import PROCESSES
    from tocsin.pipeline.engine.spark import SparkOptions, spark_session

    pairs = [item.partition("=") for item in OPTIONS.conf]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise fail(f"--conf {wrong[0]} has no value: use NAME=VALUE", Exit.USAGE)
    conf = {name: value for name, _, value in pairs}
    options = SparkOptions(OPTIONS.master, OPTIONS.remote, conf, OPTIONS.java, OPTIONS.scratch)
    warehouse = opened_warehouse()
    on_interrupt(PROCESSES.kill)
    with spark_session(options, warehouse.settings) as spark:
        yield spark, warehouse


@contextmanager
def errors_reported() -> Iterator[None]:
    """Turn errors of the pipeline into a message and an exit code."""
    try:
        from tocsin.core.errors import TocsinError
        from tocsin.pipeline.errors import PipelineError, StorageUnknown, WarehouseBusy
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    try:
        yield
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    except WarehouseBusy as error:
        raise fail(f"{error}. Wait for it to end, or stop it.", Exit.TRY_LATER) from None
    except StorageUnknown as error:
        raise fail(str(error), Exit.USAGE) from None
    except (PipelineError, TocsinError, OSError) as error:
        raise fail(str(error), Exit.FAILED) from None


def _missing(error: ModuleNotFoundError) -> BaseException:
    if error.name is None or error.name.startswith("tocsin"):
        return error
    return fail(f"the pipeline needs {error.name}: pip install 'tocsin[pipeline]'", Exit.FAILED)

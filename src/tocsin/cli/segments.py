"""The `tocsin segments` commands: the files in which a hub exports its journal. They need no running hub."""

import time
from typing import Annotated

import msgspec
import typer

from tocsin.cli.context import DataHere, Json, data_of
from tocsin.cli.output import fail, say, show_json
from tocsin.cli.remote import Exit

__all__ = ["segments"]

segments = typer.Typer(help="Segments: files with every event, which the pipeline reads.", no_args_is_help=True)


@segments.callback()
def _group() -> None:
    """Segments: files with every event, which the pipeline reads."""


@segments.command()
def upload(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="Where to: a folder, or a URL such as s3://bucket/segments.")],
    every: Annotated[
        float | None, typer.Option(help="Repeat after so many seconds, until stopped (Ctrl-C).", min=1)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Most segments to copy at a time.", min=1)] = None,
    data: DataHere = None,
    as_json: Json = False,
) -> None:
    """Copy closed segments to a folder or URL; those that are there already are left out."""
    try:
        from tocsin.pipeline.errors import PipelineError, StorageUnknown
        from tocsin.pipeline.jobs.upload import upload_segments
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        raise fail(f"uploading needs {error.name}: pip install 'tocsin[pipeline]'", Exit.FAILED) from None
    source = data_of(context, data) / "segments"
    try:
        while True:
            try:
                done = upload_segments(source, url, limit)
            except StorageUnknown as error:
                raise fail(str(error), Exit.USAGE) from None
            except (PipelineError, OSError) as error:
                if every is None:
                    raise fail(f"segments cannot be copied to {url}: {error}", Exit.FAILED) from None
                say(f"segments cannot be copied to {url}: {error}; trying again in {every:g} s")
            else:
                if as_json:
                    show_json(msgspec.to_builtins(done))
                elif done.segments or every is None:
                    rest = f", {done.left} left for the next time" if done.left else ""
                    say(f"{done.segments} segments copied ({done.bytes:,} bytes), {done.known} were there{rest}")
            if every is None:
                return
            time.sleep(every)
    except KeyboardInterrupt:
        return

"""Progress of a run: a line per step, or a bar on a terminal. Rich is imported only for the bar."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tocsin.cli.output import say
from tocsin.pipeline.jobs.steps import Step, Steps

__all__ = ["shown_steps"]


@contextmanager
def shown_steps(names: Sequence[str], *, quiet: bool) -> Iterator[Steps]:
    """Return the steps of a run, shown as they go."""
    if quiet:
        yield Steps(names)
    elif sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _bar(names) as steps:
            yield steps
    else:
        yield Steps(names, _print)


def _print(step: Step) -> None:
    if step.state != "RUN":
        say(step.line)


@contextmanager
def _bar(names: Sequence[str]) -> Iterator[Steps]:
    """Show a bar for the step that runs, which moves also while its length is unknown; finished steps stay as lines."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bars:
        bar = bars.add_task(f"1 of {len(names)} {names[0]}", total=None)

        def listen(step: Step) -> None:
            if step.state == "START":
                bars.reset(bar, total=None, description=f"{step.number} of {step.count} {step.name}")
            elif step.state == "RUN":
                part = f"{step.number} of {step.count} {step.name}: {step.part}"
                bars.update(bar, completed=step.done, total=step.total or None, description=part)
            else:
                bars.console.print(step.line, markup=False)

        yield Steps(names, listen)

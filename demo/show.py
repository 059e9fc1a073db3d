"""The course of the demo: hub and dashboard first, then the story, open matters for the reader, and the history."""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo.desk import Matter, leave_matters
from demo.history import PipelineFailed, make_history
from demo.hub import HUMAN, MEMBERS, DemoHub, free_port, own_folder, serve
from demo.life import work_on
from demo.scenes import SCENES, Team, team

__all__ = ["find_port", "show"]

ROOT = Path(".demo")
PORT = 7077
#: Pause after each scene, for the reader, seconds.
_PAUSE_S = 1.0
_console = Console(highlight=False)


def show() -> None:
    """Run the demo until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description="A team of agents on a real hub, and its dashboard.")
    parser.add_argument("--port", type=int, help=f"port of the hub; by default {PORT}, or a free one if it is taken")
    parser.add_argument("--leave", action="store_true", help="exit when everything has been shown")
    parser.add_argument("--quick", action="store_true", help="show the scenes without pauses and with fewer tasks")
    parser.add_argument("--without-pipeline", action="store_true", help="do not run the pipeline")
    options = parser.parse_args()
    with _one_line_at_the_end(), own_folder(ROOT):
        # The SDK logs what it retries; the reader is told what matters.
        logging.basicConfig(filename=ROOT / "demo.log", level=logging.WARNING)
        port = find_port(options.port)
        with serve(ROOT, port) as hub:
            hub.issue(HUMAN)
            _introduce(hub)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_play(hub, options))


@contextmanager
def _one_line_at_the_end() -> Iterator[None]:
    """Treat all signals that end a program as Ctrl-C; say where the data is, and do not accept a second one."""
    # A shell that starts a program in the background lets it ignore Ctrl-C; then no signal at all would end it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    except KeyboardInterrupt:
        _console.print(f"\nStopped. The data is kept in {ROOT} until the next run.", soft_wrap=True)


def find_port(asked: int | None, default: int = PORT) -> int:
    """Return a port that is free; say at once if the one that was asked for, or the default one, is not."""
    port = free_port(default if asked is None else asked)
    if port is not None:
        return port
    if asked is not None:
        sys.exit(f"port {asked} is taken: choose another with --port, or leave it out")
    port = free_port(0)
    if port is None:
        sys.exit("no TCP port is free on 127.0.0.1")
    _console.print(f"Port {default} is taken, perhaps by another hub. This one uses {port}.\n")
    return port


def _introduce(hub: DemoHub) -> None:
    _print(f"[bold]A team of {len(MEMBERS)} agents works on a real hub. Ctrl-C stops it.[/bold]\n")
    _print(f"  dashboard  [bold]{hub.url}/[/bold]")
    _print(f"  sign in    {hub.sign_in_link()}")
    _print(
        f"             as {HUMAN}, the human; the link works once, `{hub.command} --as {HUMAN} dashboard` makes more\n"
    )


def _print(text: str) -> None:
    """Print a line that the terminal may wrap, so that it can be copied as a whole."""
    _console.print(text, soft_wrap=True)


async def _play(hub: DemoHub, options: argparse.Namespace) -> None:
    watching = asyncio.create_task(_watch(hub))
    playing = asyncio.create_task(_parts(hub, options))
    try:
        await asyncio.wait({watching, playing}, return_when=asyncio.FIRST_COMPLETED)
        await (watching if watching.done() else playing)
    finally:
        # From here on a second Ctrl-C would only leave something running.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for task in (watching, playing):
            task.cancel()
        await asyncio.gather(watching, playing, return_exceptions=True)


async def _watch(hub: DemoHub) -> None:
    """Exit if the hub ends."""
    while hub.process.poll() is None:
        await asyncio.sleep(0.5)
    log = (hub.data / "hub.log").read_text(encoding="utf-8")
    sys.exit(f"the hub ended with code {hub.process.returncode}. {log[-1000:]}")


async def _parts(hub: DemoHub, options: argparse.Namespace) -> None:
    await asyncio.to_thread(hub.issue, *(name for name in MEMBERS if name != HUMAN))
    async with team(hub, quick=options.quick) as team_:
        await _story(team_)
        with _console.status("  leaving something for you to do …"):
            matters = await leave_matters(team_)
        _print_matters(team_, matters)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(work_on(team_))]
            running += [group.create_task(_tell_outcome(matter)) for matter in matters]
            if not options.without_pipeline:
                await _history(hub)
            if options.leave:
                for task in running:
                    task.cancel()


async def _story(team_: Team) -> None:
    for number, (title, scene) in enumerate(SCENES.items(), 1):
        with _console.status(f"  {number} of {len(SCENES)}: {title} …"):
            finding = await scene(team_)
        _console.print(f"[bold]{number:2} of {len(SCENES)}  {title.capitalize()}[/bold]")
        _console.print(Padding(Text(finding), (0, 0, 1, 10)))
        await asyncio.sleep(0 if team_.quick else _PAUSE_S)


def _print_matters(team_: Team, matters: list[Matter]) -> None:
    _print("[bold]The story is told; the team goes on working.[/bold] Four things wait for you in the dashboard:\n")
    rows = Table.grid(padding=(0, 2))
    for matter in matters:
        rows.add_row("", Text(matter.page, style="bold"), Text(matter.text))
    _console.print(rows)
    _print("\n[bold]Try this[/bold] in the dashboard, or in another terminal:\n")
    approval, _, letter, _ = matters
    for command, does in (
        (approval.command, approval.does),
        (letter.command, letter.does),
        (f"--as {HUMAN} trace {team_.alarm}", "read the steps of the first act's urgent message, with their reasons"),
    ):
        _print(f"  {team_.hub.command} {command}  [dim]# {does}[/dim]")
    _print("")


async def _tell_outcome(matter: Matter) -> None:
    _print(f"[green]✓[/green] {await matter.settled()}")


async def _history(hub: DemoHub) -> None:
    """Run the pipeline in the background, and tell how far it is and where the report is."""
    with _console.status("  history: …") as status:

        def progress(text: str) -> None:
            status.update(f"  history: {text} …")
            if not _console.is_terminal:
                _print(f"  history: {text}")

        try:
            told = f"[green]✓[/green] {await make_history(hub, progress)}"
        except PipelineFailed as error:
            told = f"[red]The pipeline failed.[/red] The rest of the demo goes on.\n{error}"
    _print(told)

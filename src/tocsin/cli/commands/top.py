"""`tocsin top`: a live view of the project."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from tocsin.cli.context import Json, remote_of
from tocsin.cli.output import refusals_told, show_json
from tocsin.cli.remote import Remote
from tocsin.cli.terminal import console

__all__ = ["top"]


def top(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    interval_s: Annotated[float, typer.Option(help="Seconds between two updates.", min=0.05)] = 1.0,
    as_json: Json = False,
) -> None:
    """Watch the project: waiting messages, agents, events; q or Ctrl-C ends it."""
    with refusals_told(as_json):
        remote = remote_of(context)
        if as_json:
            show_json({"status": remote.ask("get_status"), "agents": remote.list("list_agents")})
        elif once:
            console.print(_screen(remote))
        else:
            _watch(remote, interval_s)


def _watch(remote: Remote, interval_s: float) -> None:
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as ended,
        Live(_screen(remote), console=console, auto_refresh=False) as live,
    ):
        while not ended(interval_s):
            live.update(_screen(remote), refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for some seconds and returns whether q was pressed; without a keyboard it sleeps."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def pressed(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([keyboard], [], [], left)[0]:
                keys = os.read(keyboard, 64)
                if not keys or b"q" in keys.lower():
                    return True
        return False

    tty.setcbreak(keyboard)
    try:
        yield pressed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _screen(remote: Remote) -> Table:
    status, agents = remote.ask("get_status"), remote.list("list_agents")
    waiting = "  ".join(f"{name} {count}" for name, count in reversed(status.waiting.items()))
    grid = Table(title=escape(f"{status.project}: {status.condition}, event {status.seq}, waiting {waiting}"))
    for column in ("agent", "role", "presence", "waiting", "sessions"):
        grid.add_column(column)
    for row in sorted(agents, key=lambda row: -sum(row.waiting.values())):
        sessions = ", ".join(f"{count} {kind}" for kind, count in row.sessions.items())
        cells = (row.agent, row.role, row.presence, sum(row.waiting.values()), sessions)
        grid.add_row(*(escape(str(cell)) for cell in cells))
    return grid

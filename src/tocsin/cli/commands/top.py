"""`tocsin top`: a live view of the project and its latest events, or of all projects of a hub."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tocsin.cli.context import Json, remote_of
from tocsin.cli.output import refusals_told, show_json
from tocsin.cli.output.terminal import console, styled
from tocsin.cli.remote import Remote
from tocsin.cli.style import in_words
from tocsin.cli.tail import Tail

__all__ = ["top"]


def top(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    interval_s: Annotated[float, typer.Option(help="Seconds between two updates.", min=0.05)] = 1.0,
    events: Annotated[int, typer.Option(help="Latest events to show below; 0: none.", min=0, max=1000)] = 12,
    every: Annotated[
        bool, typer.Option("--all", help="Watch all projects of the hub instead, as its administrator.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Watch the project: waiting messages, agents, events; q or Ctrl-C ends it."""
    with refusals_told(as_json):
        remote = remote_of(context)
        if as_json and every:
            show_json(_projects(remote))
        elif as_json:
            show_json({"status": remote.ask("get_status"), "agents": remote.list("list_agents")})
        elif once:
            console.print(_all_projects(remote) if every else _screen(remote))
        else:
            _watch(remote, interval_s, 0 if every else events, _all_projects if every else _screen)


def _watch(remote: Remote, interval_s: float, events: int, screen: Callable[[Remote], Group]) -> None:
    first = screen(remote)
    with (
        contextlib.suppress(KeyboardInterrupt),
        contextlib.closing(Tail(remote, events, interval_s)) if events else contextlib.nullcontext() as tail,
        _keys() as ended,
        Live(first, console=console, auto_refresh=False) as live,
    ):
        while not ended(interval_s):
            live.update(_whole(screen(remote), tail), refresh=True)


def _whole(screen: Group, tail: Tail | None) -> Group:
    """Return the table, and the latest events below it."""
    if tail is None:
        return screen
    below = Table(box=None, show_header=False, padding=(0, 1))
    below.add_column(style="dim", no_wrap=True, min_width=8)
    below.add_column(no_wrap=True, overflow="ellipsis")
    for at, text in tail.lines:
        below.add_row(at, escape(text))
    if tail.problem:
        below.add_row("", f"[yellow]{escape(tail.problem)}[/]")
    elif not tail.lines:
        below.add_row("", "[dim]no events since this view was opened[/]")
    return Group(screen, below)


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


def _screen(remote: Remote) -> Group:
    status, agents = remote.ask("get_status"), remote.list("list_agents")
    waiting = ", ".join(f"{name} {count:,}" for name, count in reversed(status.waiting.items()) if count)
    head = f"{status.project}: {status.condition}, {status.seq:,} events; waiting: {waiting or 'nothing'}"
    grid = Table()
    for column in ("agent", "role", "presence", "waiting", "sessions"):
        grid.add_column(column)
    for row in sorted(agents, key=lambda row: -sum(row.waiting.values())):
        sessions = ", ".join(f"{count} {kind}" for kind, count in row.sessions.items())
        cells = (row.agent, row.role, in_words(row.presence), str(sum(row.waiting.values())), sessions)
        grid.add_row(*map(styled, cells))
    return Group(Text(head, style="bold"), grid)


def _projects(remote: Remote) -> dict[str, Any]:
    """Return all projects of a hub, those that are open with their condition and counts."""
    opened, silent = dict[str, Any](), 0
    for page in remote.pages("list_open_projects"):
        silent = max(silent, page.workers_silent)
        opened |= {one.project: one for one in page.items}
    known = [{"project": one.project, "state": one.state, "due_at": one.due_at} for one in remote.list("list_projects")]
    for one in known:
        if (found := opened.get(one["project"])) is not None:
            one |= msgspec.to_builtins(found) | {"state": "open"}
    return {"projects": known, "workers_silent": silent}


def _all_projects(remote: Remote) -> Group:
    found = _projects(remote)
    projects, silent = found["projects"], found["workers_silent"]
    opened = [one for one in projects if "seq" in one]
    waiting = sum(sum(one["waiting"].values()) for one in opened)
    title = f"{len(projects)} projects, {len(opened)} open, waiting {waiting}"
    head = Text(title, style="bold")
    if silent:
        head.append(f", {silent} workers do not answer", style="red")
    grid = Table()
    for column in ("project", "state", "worker", "waiting", "agents", "sessions", "dead letters", "event"):
        grid.add_column(column)
    for one in sorted(projects, key=lambda one: (-sum(one.get("waiting", {}).values()), "seq" not in one)):
        state = one["state"]
        if "seq" in one and one["condition"] != "serving":
            state = f"{one['condition']} {one['reason']}".strip()
        counts = (one.get(name, "") for name in ("agents", "sessions", "dead_letters", "seq"))
        waits = sum(one["waiting"].values()) if "waiting" in one else ""
        cells = (one["project"], state, one.get("worker", ""), waits, *counts)
        grid.add_row(*(escape(str(cell)) for cell in cells))
    return Group(head, grid)

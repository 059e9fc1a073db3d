"""Play the story on a hub of its own, run the pipeline over it, tell what happened, and leave the dashboard open."""

import argparse
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import uvloop
from rich.console import Console

from demo.stage import Stage, stage
from demo.story import ACTS, team
from demo.telling import page

ROOT = Path(".demo")
PORT = 7077
_console = Console(highlight=False)


def main() -> None:
    """Do it, until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help="where the hub serves, if that is free")
    parser.add_argument("--leave", action="store_true", help="end once everything is told, without waiting for Ctrl-C")
    parser.add_argument("--without-pipeline", action="store_true", help="tell the story, without its history")
    chosen = parser.parse_args()
    enough = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        _console.print("[bold]1[/bold] A hub is started: SQLite in a folder, fsync before every receipt.")
        with stage(ROOT, chosen.port) as scene:
            _console.print("[bold]2[/bold] A team plays: a director, four primaries, three clones, a human.")
            findings = uvloop.run(_play(scene))
            report = None
            if not chosen.without_pipeline:
                _console.print("[bold]3[/bold] Spark turns what happened into tables, and asks them for advice.")
                report = _pipeline(scene)
            _console.print()
            _console.print(page(findings, scene, report))
            if not chosen.leave:
                _console.print("Ctrl-C ends it.")
                enough.wait()
    except KeyboardInterrupt:
        _console.print("\nThe hub is stopped. What happened is kept in .demo until the next time.")


async def _play(scene: Stage) -> dict[str, str]:
    findings: dict[str, str] = {}
    async with team(scene) as all_:
        for number, (title, act) in enumerate(ACTS.items(), 1):
            with _console.status(f"  {number} of {len(ACTS)}: {title} …"):
                started = time.perf_counter()
                findings[title] = await act(all_)
            _console.print(f"  {number:2} of {len(ACTS)}  {title} [dim]({time.perf_counter() - started:.1f} s)[/dim]")
    return findings


def _pipeline(scene: Stage) -> Path:
    """Run the pipeline as a user would; it shows its own progress. Return its report."""
    _await_segments(scene)
    report = ROOT / "report.html"
    for words in (("run",), ("report", str(report))):
        command = [sys.executable, "-m", "tocsin", "pipeline", "--data", str(scene.data), *words]
        if subprocess.run(command, check=False).returncode:  # noqa: S603
            sys.exit(f"tocsin pipeline {words[0]} failed")
    return report


def _await_segments(scene: Stage) -> None:
    """Wait until the hub has let go of what happened: it cuts a segment once its first event is old enough."""
    with _console.status("  the hub writes the last segment …"):
        known, quiet_since = -1, time.monotonic()
        while time.monotonic() - quiet_since < 5:
            count = len(list((scene.data / "segments").rglob("*.zst")))
            if count != known:
                known, quiet_since = count, time.monotonic()
            time.sleep(0.2)


if __name__ == "__main__":
    main()

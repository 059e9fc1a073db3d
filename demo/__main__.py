"""Run the demo's scenes on a hub, run the pipeline, print a summary, and keep the dashboard open."""

import argparse
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import uvloop
from rich.console import Console

from demo.hub import DemoHub, serve
from demo.scenes import SCENES, team
from demo.summary import summary

ROOT = Path(".demo")
PORT = 7077
_console = Console(highlight=False)


def main() -> None:
    """Run the demo until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help="port of the hub; another is used if it is taken")
    parser.add_argument("--leave", action="store_true", help="exit after the summary instead of waiting for Ctrl-C")
    parser.add_argument("--without-pipeline", action="store_true", help="do not run the pipeline")
    chosen = parser.parse_args()
    enough = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        _console.print("[bold]1[/bold] Starting a hub: SQLite storage, fsync before every receipt.")
        with serve(ROOT, chosen.port) as hub:
            _console.print("[bold]2[/bold] Running a team: a director, four primaries, three clones and a human.")
            findings = uvloop.run(_play(hub))
            report = None
            if not chosen.without_pipeline:
                _console.print("[bold]3[/bold] Running the Spark pipeline: tables and advice from the recorded events.")
                report = _pipeline(hub)
            _console.print()
            _console.print(summary(findings, hub, report))
            if not chosen.leave:
                _console.print("Press Ctrl-C to stop.")
                enough.wait()
    except KeyboardInterrupt:
        _console.print("\nThe hub is stopped. Its data is kept in .demo until the next run.")


async def _play(hub: DemoHub) -> dict[str, str]:
    findings: dict[str, str] = {}
    async with team(hub) as team_:
        for number, (title, scene) in enumerate(SCENES.items(), 1):
            with _console.status(f"  {number} of {len(SCENES)}: {title} …"):
                started = time.perf_counter()
                findings[title] = await scene(team_)
            _console.print(f"  {number:2} of {len(SCENES)}  {title} [dim]({time.perf_counter() - started:.1f} s)[/dim]")
    return findings


def _pipeline(hub: DemoHub) -> Path:
    """Run the pipeline's commands, which show their own progress; return the report."""
    _await_segments(hub)
    report = ROOT / "report.html"
    for words in (("run",), ("report", str(report))):
        command = [sys.executable, "-m", "tocsin", "pipeline", "--data", str(hub.data), *words]
        if subprocess.run(command, check=False).returncode:  # noqa: S603
            sys.exit(f"tocsin pipeline {words[0]} failed")
    return report


def _await_segments(hub: DemoHub) -> None:
    """Wait until the hub has written the last segment, which happens when its first event is old enough."""
    with _console.status("  waiting for the last segment …"):
        known, quiet_since = -1, time.monotonic()
        while time.monotonic() - quiet_since < 5:
            count = len(list((hub.data / "segments").rglob("*.zst")))
            if count != known:
                known, quiet_since = count, time.monotonic()
            time.sleep(0.2)


if __name__ == "__main__":
    main()

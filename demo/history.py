"""The pipeline, run by its own commands in the background, and the report in the dashboard."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable

from demo.hub import DemoHub

__all__ = ["PipelineFailed", "make_history"]

_PATIENCE_S = 10.0


class PipelineFailed(Exception):
    """A command of the pipeline failed; the text is its output."""


async def make_history(hub: DemoHub, progress: Callable[[str], None]) -> str:
    """Make tables and report from all that has happened so far; return a sentence on where they are."""
    started = time.monotonic()
    progress("waiting for the recorded events")
    await _segment_since(hub, time.time())
    progress("starting Spark")
    lines = await _pipeline(hub, progress, "run")
    progress("writing the report")
    await _pipeline(hub, progress, "report")
    events = next((found[1] for line in lines if (found := re.match(r"([\d,]+) events", line))), "all")
    return (
        f"The report is ready, {time.monotonic() - started:.0f} s after the story: Spark made tables of {events} "
        f"events. In the dashboard: {hub.url}/#/history, Reports"
    )


async def _segment_since(hub: DemoHub, at: float) -> None:
    """Wait until the hub has written a segment after a point in time: it has all events before."""
    while not any(path.stat().st_mtime > at for path in (hub.data / "segments").rglob("*.zst")):
        await asyncio.sleep(0.2)


async def _pipeline(hub: DemoHub, progress: Callable[[str], None], *words: str) -> list[str]:
    """Run a command of the pipeline; return its output. It ends with this call, also when that is cancelled."""
    scratch = hub.root / "scratch"
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tocsin", "pipeline", "--data", str(hub.data), "--scratch", str(scratch), *words]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    lines: list[str] = []

    async def follow(stream: asyncio.StreamReader | None) -> None:
        async for raw in stream or asyncio.StreamReader():
            if line := raw.decode(errors="replace").strip():
                lines.append(line)
                if step := re.match(r"(\d+ of \d+) START (.+)", line):
                    progress(f"step {step[1]}, {step[2]}")

    try:
        await asyncio.gather(follow(process.stdout), follow(process.stderr))
        if await process.wait():
            raise PipelineFailed("\n".join(lines[-10:]))
        return lines
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process and the Java process that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await _gone(process, number)
                return


async def _gone(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal to a group of processes, and wait until none of them is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
        await process.wait()
        while True:
            os.killpg(process.pid, 0)
            await asyncio.sleep(0.05)

"""What a worker is given: record one project, or replay one window under one policy.

A task is a pure function of files. Each leaves one file under a name made of what it depends on, written whole or not
at all: a task that is done is never done again, wherever a run was stopped, and two workers that do the same write the
same.
"""

import gc
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from tocsin.lab.figures.fidelity import Fidelity, fidelity_of
from tocsin.lab.figures.measures import Row, measured
from tocsin.lab.replays.closed_loop import closed_loop
from tocsin.lab.replays.open_loop import open_loop
from tocsin.lab.replays.replay import prepared_trace
from tocsin.lab.settings import Settings
from tocsin.lab.traces.event_sources import Source, read_events
from tocsin.lab.traces.recorder import record
from tocsin.lab.traces.trace import save_trace

__all__ = [
    "RecordTask",
    "RecordedTraces",
    "ReplayResult",
    "ReplayTask",
    "Task",
    "Window",
    "perform",
    "policy_hash",
    "write_whole",
]


class RecordTask(msgspec.Struct, frozen=True, tag="record"):
    """Turn one project's events into traces."""

    source: Source
    folder: str
    settings: Settings
    #: The list of the traces; it is there once all of them are.
    out: str


class ReplayTask(msgspec.Struct, frozen=True, tag="replay"):
    """Replay one window."""

    trace: str
    #: The policy's document as JSON; empty for those in force.
    policy: str
    #: `open` or `closed`.
    loop: str
    seed: int
    clock_us: int
    starved_us: int
    out: str


Task = RecordTask | ReplayTask


class Window(msgspec.Struct, frozen=True):
    """One trace that was recorded."""

    project: str
    window: str
    path: str
    events: int
    messages: int


class RecordedTraces(msgspec.Struct, frozen=True):
    """All traces of one project."""

    windows: list[Window]


class ReplayResult(msgspec.Struct, frozen=True):
    """What one replay came to; the same for the same trace, policy and seed."""

    rows: list[Row]
    #: Beside the recording, where the policy was the one in force.
    fidelity: Fidelity | None
    events: int
    decisions: int
    missed: int


def perform(task: Task) -> float:
    """Do a task unless it is done; return the seconds of processor time that it took."""
    if Path(task.out).exists():
        return 0.0
    begin = time.process_time()
    enabled = gc.isenabled()
    gc.disable()
    try:
        done: Any = _record(task) if isinstance(task, RecordTask) else _replay(task)
    finally:
        if enabled:
            gc.enable()
    write_whole(Path(task.out), msgspec.json.encode(done))
    return time.process_time() - begin


def _record(task: RecordTask) -> RecordedTraces:
    windows = []
    for trace in record(task.source.project, read_events(task.source), task.settings, task.settings.window_us):
        path = save_trace(Path(task.folder), trace)
        windows.append(Window(trace.project, trace.window, str(path), trace.events, len(trace.histories)))
        gc.collect()
    return RecordedTraces(windows)


def _replay(task: ReplayTask) -> ReplayResult:
    prepared = prepared_trace(Path(task.trace))
    policy = msgspec.json.decode(Path(task.policy).read_bytes()) if task.policy else None
    stamps = task.loop == "open"
    replay = open_loop(prepared, policy) if stamps else closed_loop(prepared, policy, task.seed, task.clock_us)
    beside = policy is None and prepared.trace.recorded
    fidelity = fidelity_of(prepared.trace, replay, stamps=stamps) if beside else None
    rows = measured(replay, prepared.trace.ends_at, task.starved_us)
    return ReplayResult(rows, fidelity, replay.events, replay.decisions, replay.missed)


def policy_hash(document: Any) -> str:
    """Return a short name for a policy's content."""
    return hashlib.blake2b(msgspec.json.encode(document, order="sorted"), digest_size=8).hexdigest()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)

"""Tasks for workers: record one project, or replay one window under one policy.

A task is a pure function of files. It writes one file, atomically, under a name derived from its inputs: a finished
task is never run again, also after a run that was stopped, and two workers that run the same task write the same file.
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
    "write_atomically",
]


class RecordTask(msgspec.Struct, frozen=True, tag="record"):
    """Record the traces of one project."""

    source: Source
    #: Folder for the traces.
    folder: str
    settings: Settings
    #: File for the list of traces, written when all traces are.
    out: str


class ReplayTask(msgspec.Struct, frozen=True, tag="replay"):
    """Replay one window under one policy."""

    #: Path of the trace.
    trace: str
    #: Path of the policy document as JSON; empty for the policies in force.
    policy: str
    #: `open` or `closed`.
    loop: str
    seed: int
    clock_us: int
    starved_us: int
    #: File for the result.
    out: str


Task = RecordTask | ReplayTask


class Window(msgspec.Struct, frozen=True):
    """One recorded trace."""

    project: str
    window: str
    path: str
    events: int
    messages: int


class RecordedTraces(msgspec.Struct, frozen=True):
    """All traces of one project."""

    windows: list[Window]


class ReplayResult(msgspec.Struct, frozen=True):
    """Result of one replay; identical for the same trace, policy and seed."""

    rows: list[Row]
    #: Comparison with the recording, if replayed under the policies in force.
    fidelity: Fidelity | None
    events: int
    decisions: int
    missed: int


def perform(task: Task) -> float:
    """Run a task unless its result exists; return the processor time in seconds."""
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
    write_atomically(Path(task.out), msgspec.json.encode(done))
    return time.process_time() - begin


def _record(task: RecordTask) -> RecordedTraces:
    windows = []
    for trace in record(task.source.project, read_events(task.source), task.settings, task.settings.window_us):
        path = save_trace(Path(task.folder), trace)
        windows.append(Window(trace.project, trace.window, str(path), trace.events, trace.messages))
        gc.collect()
    return RecordedTraces(windows)


def _replay(task: ReplayTask) -> ReplayResult:
    prepared = prepared_trace(Path(task.trace))
    policy = msgspec.json.decode(Path(task.policy).read_bytes()) if task.policy else None
    stamps = task.loop == "open"
    replay = open_loop(prepared, policy) if stamps else closed_loop(prepared, policy, task.seed, task.clock_us)
    beside = policy is None and prepared.trace.recorded
    fidelity = fidelity_of(prepared, replay, stamps=stamps) if beside else None
    rows = measured(replay, prepared.trace.ends_at, task.starved_us)
    return ReplayResult(rows, fidelity, replay.events, replay.decisions, replay.missed)


def policy_hash(document: Any) -> str:
    """Return a digest of a policy document."""
    return hashlib.blake2b(msgspec.json.encode(document, order="sorted"), digest_size=8).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)

"""An experiment: recorded windows, candidate policies and replay results, stored below one folder.

`record` makes traces; `replays` runs the missing replays and reads all results. The folder is a cache and may be
deleted at any time.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tocsin.core.errors import refusal
from tocsin.core.policy import Policy, policy_from
from tocsin.lab.parameters import changes_of
from tocsin.lab.replays.replay import without_schemas
from tocsin.lab.runners import Progress, Runner
from tocsin.lab.settings import Settings
from tocsin.lab.tasks import RecordedTraces, RecordTask, ReplayResult, ReplayTask, Window, policy_hash, write_atomically
from tocsin.lab.traces.event_sources import find_source
from tocsin.lab.traces.trace import Trace, load_trace, save_trace

__all__ = ["IN_FORCE", "Candidate", "Experiment"]

#: Name of the candidate with the policies that were in force.
IN_FORCE = "in force"
#: Version of the results' format; results of another one are made anew.
_FORMAT = 2
#: Version of the traces' format; history is recorded anew if its traces have another one.
TRACES = 2
_RECORDED = msgspec.json.Decoder(RecordedTraces)
_RESULT = msgspec.json.Decoder(ReplayResult)


class Candidate(msgspec.Struct, frozen=True):
    """A policy to try, with a name."""

    name: str
    #: The whole policy document; null for the policies that were in force.
    document: Any = None
    #: Differences to the defaults, as in a project's policy file.
    changes: Any = None

    @classmethod
    def of(cls, name: str, policy: Policy) -> "Candidate":
        """Make a candidate from a policy."""
        return cls(name, without_schemas(policy), changes_of(policy))

    @property
    def hash(self) -> str:
        """Return a digest of the document."""
        return "in-force" if self.document is None else policy_hash(self.document)


class Experiment:
    """Traces, policies and results below one folder."""

    def __init__(self, folder: Path, runner: Runner, settings: Settings) -> None:
        self._folder = folder.absolute()
        self._runner = runner
        self.settings = settings
        self.windows: list[Window] = []

    def record(self, events: Path | str, projects: list[str] | None = None, progress: Progress | None = None) -> None:
        """Make traces from recorded events; traces of unchanged events are reused."""
        tasks = []
        for source in find_source(events, projects):
            options = (self.settings.window_s, self.settings.think_max_s, self.settings.examples_max)
            key = msgspec.json.encode((TRACES, source, *options), order="sorted")
            name = hashlib.blake2b(key, digest_size=8).hexdigest()
            out = self._folder / "traces" / f"{name}.json"
            tasks.append(RecordTask(source, str(self._folder / "traces"), self.settings, str(out)))
        self._runner.run(tasks, progress)
        self.windows = [window for task in tasks for window in _RECORDED.decode(Path(task.out).read_bytes()).windows]

    def add(self, trace: Trace) -> None:
        """Add a trace that was made elsewhere, such as a scenario's."""
        path = save_trace(self._folder / "traces", trace)
        self.windows.append(Window(trace.project, trace.window, str(path), trace.events, trace.messages))

    def between(self, since: str | None, until: str | None) -> None:
        """Keep only the windows of the given days."""
        self.windows = [
            window
            for window in self.windows
            if (since is None or window.window[:10] >= since) and (until is None or window.window[:10] <= until)
        ]
        if not self.windows:
            raise refusal("E_LAB_002", f"no events were recorded from {since or 'the beginning'} to {until or 'now'}")

    def replays(
        self, candidates: Sequence[Candidate], loop: str = "closed", progress: Progress | None = None
    ) -> list[list[ReplayResult]]:
        """Replay all windows under each candidate; return the results by candidate and window."""
        # The tasks of one window follow each other, because a worker keeps only the last trace.
        tasks = [self._task(window, candidate, loop) for window in self.windows for candidate in candidates]
        self._runner.run(tasks, progress)
        found = [_RESULT.decode(Path(task.out).read_bytes()) for task in tasks]
        return [found[number :: len(candidates)] for number in range(len(candidates))]

    def _task(self, window: Window, candidate: Candidate, loop: str) -> ReplayTask:
        settings = self.settings
        policy = ""
        if candidate.document is not None:
            path = self._folder / "policies" / f"{candidate.hash}.json"
            if not path.exists():
                write_atomically(path, msgspec.json.encode(candidate.document, order="sorted"))
            policy = str(path)
        key = (_FORMAT, loop, settings.seed, settings.clock_us, settings.starved_after_s)
        way = hashlib.blake2b(msgspec.json.encode(key), digest_size=4).hexdigest()
        name = f"{Path(window.path).stem}.{candidate.hash}.{way}.json"
        starved_us = round(settings.starved_after_s * 1_000_000)
        out = self._folder / "results" / name
        return ReplayTask(window.path, policy, loop, settings.seed, settings.clock_us, starved_us, str(out))

    def policy_in_force(self) -> Policy:
        """Return the policy that was in force at the end of the last window."""
        trace = load_trace(Path(max(self.windows, key=lambda window: window.window).path))
        adopted = [step.body["policy"] for step in trace.steps if step.ask == "AdoptPolicy"]
        return policy_from(adopted[-1] if adopted else trace.policy)

    def id_of(self, candidates: Sequence[Candidate]) -> str:
        """Return the report's id, a digest of windows, candidates and settings."""
        key = (
            sorted(Path(window.path).name for window in self.windows),
            [candidate.hash for candidate in candidates],
            self.settings,
        )
        return "lab-" + hashlib.blake2b(msgspec.json.encode(key, order="sorted"), digest_size=6).hexdigest()

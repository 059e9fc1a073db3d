"""Benchmark of the lab: replays in one process, on Spark with one and two cores, and scenarios with many agents.

History is generated with the real exchange in virtual time and cached (`bench.traffic`). An event counts once, when the
exchange decides it in the replay; the time includes reading the trace, the clock, the consumers and the counting. The
bare exchange gets the recorded commands of the same windows and does nothing but decide them; only that is timed. Rates
per core use processor time and are medians over interleaved rounds. The times on Spark are elapsed times. The overhead
of Spark is the median of three rounds, each a replay in one process and the same on Spark; the speed-up compares the
fastest rounds.
"""

import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import msgspec

from bench.report import Aim, Run, options, rss_bytes, table
from bench.traffic import landing_of
from tocsin.lab.experiment import Candidate, Experiment
from tocsin.lab.replays.replay import Ids, begin, prepared_trace, without_schemas
from tocsin.lab.runners import LocalRunner, SparkRunner, timed
from tocsin.lab.scenario import parse_scenario
from tocsin.lab.scenario_traces import build_traces
from tocsin.lab.settings import Settings, load_settings
from tocsin.lab.tasks import ReplayResult, ReplayTask
from tocsin.pipeline.engine.spark import SparkOptions, spark_session
from tocsin.pipeline.settings import load_settings as pipeline_settings
from tocsin.policies import default_policy

CACHE = Path(os.environ.get("TOCSIN_CACHE") or Path.home() / ".cache" / "tocsin") / "bench"
#: Length of a window, seconds: a dozen windows per million events, so that all cores are busy to the end.
_WINDOW_S = 7200
EVENTS, QUICK_EVENTS = 1_000_000, 20_000
ROUNDS = 5
#: Rounds on Spark.
SPARK_ROUNDS = 3
AIMS = (
    Aim("replay_over_core", ">=", 0.7, "events per second and core of a replay, over those of the bare exchange"),
    Aim("speedup_2_cores", ">=", 1.7, "elapsed time on Spark with one core, over that with two"),
    Aim("spark_overhead_pct", "<", 25, "overhead of Spark with one core over a bare replay, per cent"),
    Aim("scenario_agents_max", ">=", 100_000, "most agents in a scenario"),
)
_CROWD = """
name: crowd
duration_s: 60
runs: 1
teams: {{crowd: {{agents: {agents}, heartbeat_s: 45, handles: {{"*": {{receipt_s: 0.05}}}}}}}}
loads: [{{from: crowd, to: crowd, per_s: {rate}}}]
"""


class Timing(msgspec.Struct):
    """Time of one way to run all replays."""

    wall_s: float
    cpu_s: float
    events: int


class Measured(msgspec.Struct):
    """Everything that a run has measured."""

    events: int
    windows: int
    recording_s: float
    #: Replays in one process, and the bare exchange, by round.
    alone: list[Timing] = []
    core: list[Timing] = []
    #: Replays in one process and on Spark with one core, by round.
    beside: list[tuple[Timing, Timing]] = []
    #: Replays on Spark with two cores, by round.
    double: list[Timing] = []
    #: Agents of each scenario, its processor time, its events and its memory in MiB.
    crowds: list[tuple[int, float, int, int]] = []


Replays = Callable[[Sequence[ReplayTask]], tuple[float, list[float]]]


def bare(tasks: Sequence[ReplayTask]) -> tuple[float, list[float]]:
    """Run replays one after another in a new process, like a worker of Spark."""
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(timed, LocalRunner(), tasks).result()


def decide(paths: Sequence[str]) -> Timing:
    """Let a bare exchange decide the recorded commands of windows at their recorded times; time only the deciding."""
    events = 0
    cpu = wall = 0.0
    for path in paths:
        prepared = prepared_trace(Path(path))
        ids = Ids()
        exchange, _ = begin(prepared.trace, None, ids)
        gc.collect()
        gc.disable()
        wall_began, began = time.perf_counter(), time.process_time()
        for index, step in enumerate(prepared.trace.steps):
            command = prepared.commands[index]
            if command is None:
                exchange.replay(prepared.applied[index])
                continue
            ids.load(step.ids)
            events += len(exchange.handle(command, prepared.callers[index], step.at).events)
        cpu += time.process_time() - began
        wall += time.perf_counter() - wall_began
        gc.enable()
    return Timing(wall, cpu, events)


def bare_exchange(experiment: Experiment) -> Timing:
    """Measure the bare exchange in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(decide, [window.path for window in experiment.windows]).result()


def replays(experiment: Experiment, run: Replays) -> Timing:
    """Replay all windows under the policies in force."""
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        tasks = tasks_of(experiment, Path(folder))
        wall, cpu = run(tasks)
        done = [msgspec.json.decode(Path(task.out).read_bytes(), type=ReplayResult) for task in tasks]
        return Timing(wall, sum(cpu), sum(result.events for result in done))


def per_core(timings: Sequence[Timing]) -> float:
    """Return the median of events per second of processor time."""
    return statistics.median(timing.events / timing.cpu_s for timing in timings)


def fastest(timings: Sequence[Timing]) -> Timing:
    """Return the timing of the fastest round."""
    return min(timings, key=lambda timing: timing.wall_s)


def tasks_of(experiment: Experiment, folder: Path) -> list[ReplayTask]:
    """Return one task per window, the largest first."""
    settings = experiment.settings
    windows = sorted(experiment.windows, key=lambda window: -window.events)
    starved_us = round(settings.starved_after_s * 1_000_000)
    return [
        ReplayTask(
            window.path, "", "closed", settings.seed, settings.clock_us, starved_us, str(folder / f"{number}.json")
        )
        for number, window in enumerate(windows)
    ]


@contextmanager
def warm_spark(experiment: Experiment, cores: int) -> Iterator[Replays]:
    """Provide replays on Spark after a warm-up, so that its workers are running and have imported the code."""
    with (
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder,
        spark_session(SparkOptions(f"local[{cores}]"), pipeline_settings()) as spark,
    ):
        runner = SparkRunner(spark)
        small = msgspec.structs.replace(experiment.settings, seed=0)
        warm = Experiment(Path(folder), runner, small)
        for trace in build_traces(parse_scenario(_CROWD.format(agents=4, rate=1)), small) * cores:
            warm.add(trace)
        warm.replays([Candidate("warm", without_schemas(default_policy()))])
        yield lambda tasks: timed(runner, tasks)


def interleaved(here: Callable[[], Timing], there: Callable[[], Timing], rounds: int) -> list[tuple[Timing, Timing]]:
    """Measure two ways to run the replays in turn, so that a slow time of the machine affects both."""
    return [(here(), there()) for _ in range(rounds)]


def overhead_pct(rounds: Sequence[tuple[Timing, Timing]]) -> float:
    """Return the median over rounds of how much longer the second way took than the first, per cent."""
    return statistics.median(100 * (there.wall_s / here.wall_s - 1) for here, there in rounds)


def measure_spark(experiment: Experiment) -> tuple[list[tuple[Timing, Timing]], list[Timing]]:
    """Measure replays in one process beside those on Spark with one core, then those with two cores."""
    with warm_spark(experiment, 1) as run:
        print(f"{SPARK_ROUNDS} rounds: replay in one process and on Spark with one core", file=sys.stderr)
        beside = interleaved(lambda: replays(experiment, bare), lambda: replays(experiment, run), SPARK_ROUNDS)
    with warm_spark(experiment, 2) as run:
        print(f"{SPARK_ROUNDS} rounds: replay on Spark with two cores", file=sys.stderr)
        return beside, [replays(experiment, run) for _ in range(SPARK_ROUNDS)]


def crowd(agents: int, settings: Settings) -> tuple[float, int, int]:
    """Simulate a minute of a scenario with many agents; return processor time, events and memory in MiB."""
    (trace,) = build_traces(parse_scenario(_CROWD.format(agents=agents, rate=max(1.0, agents / 100))), settings)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        experiment = Experiment(Path(folder), LocalRunner(), settings)
        experiment.add(trace)
        begin = time.process_time()
        ((result,),) = experiment.replays([Candidate("defaults", without_schemas(default_policy()))])
        return time.process_time() - begin, result.events, rss_bytes() >> 20


def summary(measured: Measured) -> tuple[str, dict[str, float]]:
    """Return the tables and the figures of a run."""
    alone, core = per_core(measured.alone), per_core(measured.core)
    found: dict[str, float] = {
        "events": measured.events,
        "windows": measured.windows,
        "replay_events_per_s_per_core": round(alone),
        "core_events_per_s_per_core": round(core),
        "replay_over_core": round(alone / core, 3),
        "record_events_per_s_per_core": round(measured.events / measured.recording_s),
    }
    timings = [("bare exchange", fastest(measured.core)), ("replay", fastest(measured.alone))]
    if measured.beside:
        one, two = fastest([there for _, there in measured.beside]), fastest(measured.double)
        timings += [("replay on Spark, one core", one), ("replay on Spark, two cores", two)]
        found["speedup_2_cores"] = round(one.wall_s / two.wall_s, 2)
        found["spark_overhead_pct"] = round(overhead_pct(measured.beside), 1)
    rows = [
        [name, f"{timing.wall_s:.1f}", f"{timing.cpu_s:.1f}", f"{timing.events / timing.wall_s:,.0f}"]
        for name, timing in timings
    ]
    text = f"{measured.events:,} events in {measured.windows} windows; the fastest round of each\n\n"
    text += table(["", "seconds", "processor s", "events/s"], rows)
    if measured.crowds:
        found["scenario_agents_max"] = max(agents for agents, _, _, _ in measured.crowds)
        rows = [
            [f"{agents:,}", f"{cpu:.1f}", f"{total:,}", f"{memory:,}"] for agents, cpu, total, memory in measured.crowds
        ]
        text += "\n\n" + table(["agents for a minute", "processor s", "events", "MiB"], rows)
    text += "\n\n" + table(["figure", "value"], [[name, f"{value:,}"] for name, value in found.items()])
    return text, found


def main() -> None:
    parser = options("bench-lab", __doc__, rounds=ROUNDS)
    parser.add_argument("--events", type=int, default=None, help=f"events of the history (default: {EVENTS})")
    parser.add_argument("--agents", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--only-replays", action="store_true", help="measure neither Spark nor scenarios")
    chosen = parser.parse_args()
    with Run("bench-lab", chosen, rounds=ROUNDS) as run:
        landing, count = landing_of(CACHE, chosen.events or (QUICK_EVENTS if run.quick else EVENTS))
        settings = msgspec.structs.replace(load_settings(), window_s=float(_WINDOW_S))
        folder = CACHE / f"lab-{landing.name}"
        shutil.rmtree(folder, ignore_errors=True)
        experiment = Experiment(folder, LocalRunner(), settings)
        print("recording …", file=sys.stderr)
        begun = time.process_time()
        experiment.record(landing)
        recording_s = time.process_time() - begun
        measured = Measured(count, len(experiment.windows), recording_s)
        for number in range(run.rounds):
            print(f"round {number + 1} of {run.rounds}: replay and bare exchange", file=sys.stderr)
            measured.alone.append(replays(experiment, bare))
            measured.core.append(bare_exchange(experiment))
        if not chosen.only_replays:
            measured.beside, measured.double = measure_spark(experiment)
            measured.crowds = [(agents, *crowd(agents, settings)) for agents in chosen.agents]
    run.finish(*summary(measured), AIMS)


if __name__ == "__main__":
    main()

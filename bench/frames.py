"""Benchmark of the frame bus: cost of a publish, and effect of load shedding.

Variants are compared side by side: they take turns in short batches, and medians of batches and of ratios between
neighbouring batches are printed, so that other load on the machine affects all variants equally.
"""

import gc
import logging
import queue
import statistics
import threading
import time
from collections.abc import Callable, Sequence

from bench.report import Run, options, table
from tocsin.frames import Channel, FrameBus, FramesPolicy, OnFull, Priority

#: Frames per timed batch; less than a fifth of a channel, so that nothing is shed.
BATCH = 64
CAPACITY = 6 * BATCH
SUBSCRIBERS = (1, 10, 100, 1000)
#: Pairs of buses that are compared, per number of subscribers.
PAIRS = 9

#: Duration of one unit of the shared machine's work, seconds.
UNIT_S = 0.002
#: Name of the share of finished work among the workers' shares.
DONE = "work done"
#: Runs of each scenario.
RUNS = 3
#: Units of the machine per frame: half of what the workers of each scenario need.
UNITS_PER_FRAME = 2.5

Frames = FrameBus[bytes]
Crew = dict[str, tuple[Priority, int]]

FIRST_PAGE: Crew = {
    "person detection": (Priority.CRITICAL, 1),
    "fall detection": (Priority.HIGH, 1),
    "experimental pose model": (Priority.BEST_EFFORT, 3),
}
ALL_LEVELS: Crew = {
    "critical": (Priority.CRITICAL, 1),
    "high": (Priority.HIGH, 1),
    "normal": (Priority.NORMAL, 1),
    "best effort": (Priority.BEST_EFFORT, 2),
}
NO_PRIORITIES: Crew = {name: (Priority.NORMAL, cost) for name, (_, cost) in FIRST_PAGE.items()}


class Subject:
    """A bus with subscribers that can be timed."""

    def __init__(self, subscribers: int, *, mixed: bool) -> None:
        self.bus = Frames()
        self.channels = [self._subscribe(index, mixed=mixed) for index in range(subscribers)]

    def _subscribe(self, index: int, *, mixed: bool) -> Channel[bytes]:
        channel: Channel[bytes] = Channel(CAPACITY)
        if mixed:
            return self.bus.subscribe(f"worker-{index}", channel, Priority(index % len(Priority)))
        return self.bus.subscribe(f"worker-{index}", channel)

    def publish_batch(self) -> float:
        """Return the time of one publish in seconds, and empty the channels."""
        publish, frame = self.bus.publish, bytes(1024)
        began = time.perf_counter()
        for _ in range(BATCH):
            publish(frame)
        took = time.perf_counter() - began
        for channel in self.channels:
            for _ in range(len(channel)):
                channel.get_nowait()
        return took / BATCH


def medians(measures: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """Run the measurements in turn, each round in another order; return the figures of each."""
    figures: list[list[float]] = [[] for _ in measures]
    for measure in measures:
        measure()
    for turn in range(rounds):
        order = list(zip(measures, figures, strict=True))
        for measure, kept in order if turn % 2 else reversed(order):
            kept.append(measure())
    return figures


def overhead_pct(plain: list[float], other: list[float]) -> float:
    """Return the overhead of the second over the first in the same round, per cent."""
    return 100 * (statistics.median(b / a for a, b in zip(plain, other, strict=True)) - 1)


def compare(subscribers: int, scale: float) -> tuple[list[float], list[float]]:
    """Time buses without and with priorities; several pairs, because the placement in memory matters too."""
    rounds = max(7, int(scale * 6000 / (BATCH * max(subscribers, 10)) * 10))
    costs: tuple[list[float], list[float]] = ([], [])
    for pair in range(PAIRS):
        order = (False, True) if pair % 2 else (True, False)
        subjects = {mixed: Subject(subscribers, mixed=mixed) for mixed in order}
        measured = medians([subjects[False].publish_batch, subjects[True].publish_batch], rounds)
        for kept, figures in zip(costs, measured, strict=True):
            kept.extend(figures)
    return costs


def bench_publish(scale: float) -> dict[str, float]:
    print("cost of a publish without load shedding (median of batches)")
    print(f"{'subscribers':>12} {'no priorities':>15} {'four priorities':>16} {'overhead':>9} {'per subscriber':>15}")
    figures: dict[str, float] = {}
    overheads: list[float] = []
    for subscribers in SUBSCRIBERS:
        costs = compare(subscribers, scale)
        plain_us, mixed_us = (statistics.median(kept) * 1e6 for kept in costs)
        overhead = overhead_pct(*costs)
        overheads.append(overhead)
        figures[f"publish_{subscribers}_us"] = round(mixed_us, 3)
        figures[f"publish_{subscribers}_plain_us"] = round(plain_us, 3)
        print(
            f"{subscribers:>12} {plain_us:>12.2f} µs {mixed_us:>13.2f} µs {overhead:>7.1f} %"
            f" {1000 * mixed_us / subscribers:>12.1f} ns"
        )
    figures["priority_overhead_pct"] = round(overheads[SUBSCRIBERS.index(10)], 2)
    figures["priority_overhead_max_pct"] = round(max(overheads), 2)
    growth = (figures["publish_1000_us"] / 1000) / (figures["publish_10_us"] / 10)
    figures["per_subscriber_growth_10_to_1000"] = round(growth, 3)
    print(f"{'cost per subscriber, 1000 compared with 10':>45}: {growth:.2f} times\n")
    return figures


def bench_busy(scale: float) -> dict[str, float]:
    """Time a publish to ten subscribers under load."""
    print("cost of a publish to ten subscribers, under load")
    rounds = max(21, int(scale * 300))
    frame = bytes(1024)

    def crowd(priorities: Sequence[Priority], on_full: OnFull) -> Callable[[], float]:
        bus = Frames()
        for index, priority in enumerate(priorities):
            timeout_s = 0.0 if priority is Priority.CRITICAL else None
            bus.subscribe(str(index), Channel[bytes](4), priority, on_full=on_full, timeout_s=timeout_s)

        def measure() -> float:
            began = time.perf_counter()
            for _ in range(BATCH):
                bus.publish(frame)
            return (time.perf_counter() - began) / BATCH

        for _ in range(8):
            bus.publish(frame)
        return measure

    shed = [Priority.CRITICAL, *[Priority.BEST_EFFORT] * 9]
    ways = {
        "one full and critical, nine shed": crowd(shed, OnFull.DROP_NEWEST),
        "ten full, the newest dropped": crowd([Priority.NORMAL] * 10, OnFull.DROP_NEWEST),
        "ten full, the oldest dropped": crowd([Priority.NORMAL] * 10, OnFull.DROP_OLDEST),
    }
    figures = {}
    for name, kept in zip(ways, medians(list(ways.values()), rounds), strict=True):
        cost_us = statistics.median(kept) * 1e6
        figures[name.replace(",", "").replace(" ", "_") + "_us"] = round(cost_us, 2)
        print(f"{name:>45}: {cost_us:.2f} µs")
    print()
    return figures


def bench_sorting(scale: float) -> dict[str, float]:
    """Time subscribing and unsubscribing, which sort the subscribers."""
    subject = Subject(1000, mixed=True)

    def join_and_leave() -> float:
        began = time.perf_counter()
        subject.bus.subscribe("passer-by", Channel[bytes](CAPACITY), Priority.HIGH)
        subject.bus.unsubscribe("passer-by")
        return time.perf_counter() - began

    (kept,) = medians([join_and_leave], max(21, int(scale * 200)))
    cost_us = statistics.median(kept) * 1e6
    print(f"{'subscribe 1000 subscribers and unsubscribe them':>45}: {cost_us:.0f} µs, sorting twice\n")
    return {"join_and_leave_1000_us": round(cost_us, 1)}


class Machine:
    """A machine shared by all workers, which does their work in order of arrival."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[float, float, threading.Lock] | None] = queue.SimpleQueue()
        #: Total time of its work, seconds.
        self.done_s = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def work(self, units: int) -> None:
        """Wait until units of work are done."""
        done = threading.Lock()
        done.acquire()
        self._jobs.put((time.monotonic(), units * UNIT_S, done))
        done.acquire()

    def stop(self) -> None:
        """Stop after the queued work."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        free_at = 0.0
        while (job := self._jobs.get()) is not None:
            asked_at, cost_s, done = job
            free_at = max(free_at, asked_at) + cost_s
            time.sleep(max(0.0, free_at - time.monotonic()))
            self.done_s += cost_s
            done.release()


def run_crew(crew: Crew, frames: int) -> dict[str, float]:
    """Publish at twice the rate that the machine can process; return the share of dropped frames per worker, per cent.

    `DONE` has the share of the work that the machine finished; less than half if the computer was busy.
    """
    machine = Machine()
    bus: FrameBus[int] = FrameBus()
    threads = []

    def read(channel: Channel[int], cost: int) -> None:
        for _ in channel:
            machine.work(cost)

    for name, (priority, cost) in crew.items():
        channel = bus.subscribe(name, priority=priority, capacity=5)
        threads.append(threading.Thread(target=read, args=(channel, cost), daemon=True))
    for thread in threads:
        thread.start()
    # A fixed frame rate: a frame whose time has passed is skipped.
    due = time.monotonic()
    for frame in range(frames):
        due = max(due + UNITS_PER_FRAME * UNIT_S, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        bus.publish(frame)
    stats = bus.stats()
    done_s, asked_s = machine.done_s, frames * UNIT_S * sum(cost for _, cost in crew.values())
    bus.close()
    for thread in threads:
        thread.join()
    machine.stop()
    dropped = {name: 100 * stats.subscribers[name].dropped / stats.published for name in crew}
    return {**dropped, DONE: 100 * done_s / asked_s}


def bench_scenario(scale: float, rounds: int) -> dict[str, float]:
    frames = max(200, int(scale * 800))
    print(f"scenario: one machine for half of the work, channels of 5, {frames} frames a run (dropped)")
    crews = {
        "the three workers": FIRST_PAGE,
        "one worker per priority": ALL_LEVELS,
        "the three without priorities": NO_PRIORITIES,
    }
    runs: dict[str, list[dict[str, float]]] = {title: [] for title in crews}
    for _ in range(rounds):
        for title, crew in crews.items():
            runs[title].append(run_crew(crew, frames))
            shares = ", ".join(f"{name} {share:.1f} %" for name, share in runs[title][-1].items())
            print(f"{title:>30}: {shares}")
    print()
    first, levels, none = ({name: statistics.median(run[name] for run in of) for name in of[0]} for of in runs.values())
    return {
        "critical_dropped_pct": round(first["person detection"], 3),
        "high_dropped_pct": round(first["fall detection"], 3),
        "best_effort_dropped_pct": round(first["experimental pose model"], 3),
        "four_levels_critical_dropped_pct": round(levels["critical"], 3),
        "four_levels_high_dropped_pct": round(levels["high"], 3),
        "four_levels_best_effort_dropped_pct": round(levels["best effort"], 3),
        "no_priorities_dropped_pct": round(statistics.mean(none[name] for name in NO_PRIORITIES), 3),
        "critical_dropped_worst_pct": round(max(run["person detection"] for run in runs["the three workers"]), 3),
        "high_dropped_worst_pct": round(max(run["fall detection"] for run in runs["the three workers"]), 3),
        "work_done_pct": round(first[DONE], 1),
        "work_done_worst_pct": round(min(run[DONE] for run in runs["the three workers"]), 1),
    }


def main() -> None:
    parser = options("bench-frames", __doc__, rounds=RUNS)
    parser.add_argument("--scale", type=float, default=None, help="length of the run; 1 is about a minute")
    chosen = parser.parse_args()
    scale = chosen.scale or (0.1 if chosen.quick else 1.0)
    logging.getLogger("tocsin.frames").setLevel(logging.CRITICAL)
    with Run("bench-frames", chosen, rounds=RUNS, rounds_min=RUNS) as run:
        gc.collect()
        gc.disable()
        figures = {
            **bench_publish(scale),
            **bench_busy(scale),
            **bench_sorting(scale),
        }
        gc.enable()
        figures.update(bench_scenario(scale, run.rounds))
    figures["critical_timeout_s"] = FramesPolicy().wait.critical_timeout_s
    run.finish(table(["figure", "value"], [[name, f"{value:,}"] for name, value in figures.items()]), figures)


if __name__ == "__main__":
    main()

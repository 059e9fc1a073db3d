"""Benchmark of the operations at their limits: how long each of them holds the event loop.

For each operation of the table the worst state and arguments within the default limits are made, on a real hub with its
journal and gateways in this process; then it is called once, from a thread, and the longest iteration of the event loop
is taken: what everybody else has to wait for. The same is measured for a call of `/health` in the same state, and
subtracted. The figure is the processor time of the loop's thread, which other programs do not change much; elapsed time
is printed beside it, and includes what the threads of the hub and other programs took. Work that is not an operation
(timers that end together, frames, the opening of a project) is measured in the same way.

An operation of the table without a case is an error.
"""

import argparse
import multiprocessing
import shutil
import statistics
import sys
import tempfile
from typing import Any

from bench.limits.cases import CASES, CONSTANT, GROUNDS, gaps
from bench.limits.measuring import Measured, held_ms, measure
from bench.report import Aim, Run, options, table
from tocsin.wire.table import OPERATIONS

ROUNDS = 5
#: Share of the limits that a quick run fills.
QUICK_SIZE = 0.01
#: Time that the loop may be held, milliseconds.
HELD_MAX_MS = 50.0
AIMS = (Aim("held_most_ms", "<=", HELD_MAX_MS, "longest time that any of them holds the loop, milliseconds"),)


def _apart(task: Any) -> dict[str, list[Measured]]:
    """Measure in a new process, so that each ground has its own memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: dict[str, list[Measured]] = pool.apply(measure, (task,))
        return found


def _chosen(chosen: argparse.Namespace) -> dict[str, list[str]]:
    """Return the names of the cases to measure, by ground."""
    wanted = [name for name in CASES if not chosen.only or any(word in name for word in chosen.only)]
    by_ground = {ground: [name for name in wanted if CASES[name].ground == ground] for ground in GROUNDS}
    return {ground: names for ground, names in by_ground.items() if names}


def main() -> None:
    """Measure every case and print a table."""
    parser = options("bench-limits", __doc__, rounds=ROUNDS)
    parser.add_argument("--only", nargs="*", help="cases whose name has one of these words")
    parser.add_argument("--size", type=float, default=None, help="share of the limits that is filled (default: 1)")
    chosen = parser.parse_args()
    if missing := gaps():
        sys.exit("bench-limits does not cover the table of operations:\n" + "\n".join(missing))
    size = chosen.size or (QUICK_SIZE if chosen.quick else 1.0)
    found: dict[str, list[Measured]] = {}
    with Run("bench-limits", chosen, rounds=ROUNDS) as run:
        for ground, names in _chosen(chosen).items():
            folder = tempfile.mkdtemp(prefix="tocsin-limits-")
            try:
                found |= _apart((ground, names, size, folder, run.rounds))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    run.finish(_text(found, size), _summary(found), AIMS)


def _text(found: dict[str, list[Measured]], size: float) -> str:
    rows = []
    for name in sorted(found, key=lambda name: -held_ms(found[name])):
        elapsed = statistics.median(step.elapsed_s for step, _ in found[name]) * 1e3
        control = statistics.median(control.cpu_s for _, control in found[name]) * 1e3
        rows.append([f"{name}: {CASES[name].about}", f"{held_ms(found[name]):.1f}", f"{elapsed:.1f}", f"{control:.1f}"])
    head = ["what is at its limit, longest first", "held ms", "elapsed ms", "control ms"]
    constant = "\n".join(f"  {name}: {why}" for name, why in CONSTANT.items())
    part = "" if size == 1 else f"with a share of {size:g} of the limits\n"
    return (
        f"{part}{table(head, rows)}\n\nheld is processor time of the event loop's thread, less the control's\n\n"
        f"{len(OPERATIONS)} operations, all with a case or a reason; without a cost that grows:\n{constant}"
    )


def _summary(found: dict[str, list[Measured]]) -> dict[str, float]:
    figures = {name: round(held_ms(rounds), 1) for name, rounds in found.items()}
    over = {f"held_ms {name}": held for name, held in figures.items() if held > HELD_MAX_MS}
    return {"held_most_ms": max(figures.values()), "over": len(over), "cases": len(figures), **over}


if __name__ == "__main__":
    main()

"""Benchmark of coordination: lease decisions, deadlock checks and conflicts of globs.

Each measurement runs in a new process. Elapsed time is measured; the exchange's clock is virtual.
`python -m bench.coordination` prints a table and, as its last line, one JSON object. A control, a fixed amount
of computation, is measured in between: the ratio of its p99 to its p50 is the noise of the machine.
"""

import gc
import multiprocessing
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.core import Ids, control
from bench.lease_attack import ATTACKS, attack
from bench.report import Aim, Run, median_of, options, percentile, table
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.errors import Problem
from tocsin.core.exchange import Exchange
from tocsin.core.leases.used_patterns import UsedPatterns
from tocsin.core.policy import document_of
from tocsin.core.protocol.priority import PRIORITY_NAMES
from tocsin.policies import parse_policy

LEASES = 10_000
WAITERS = 1_000
CHAIN = 1_000
GLOBS = 10_000
HOT = 64
SAMPLES = 3_000
ROUNDS = 5
AIMS = (
    Aim("lease_p99_over_control", "<=", 10, "p99 of a lease decision, over that of the control"),
    Aim("deadlock_p99_us", "<", 1000, "p99 of a deadlock check, microseconds"),
    Aim("worst_lease_ms", "<=", 20, "slowest lease decision at the limits, with the worst patterns, milliseconds"),
    Aim("glob_p99_us", "<", 1000, "p99 of a search for conflicting globs, microseconds"),
)
_SECOND = 1_000_000
_START = 1_762_940_000 * _SECOND
_FOLDERS = [f"src/service_{number:03}" for number in range(100)]


class Bench:
    """An exchange with many agents that hold and wait for leases."""

    def __init__(self, agents: int) -> None:
        self.exchange = Exchange(Ids())
        self.now = _START
        self.ask(cmd.AdoptPolicy(document_of(parse_policy("leases: {ttl_default_s: 86400}")), "bench"), SYSTEM)
        self.callers = [Caller(f"agent-{number:05}", "primary") for number in range(agents)]
        for caller in self.callers:
            self.ask(cmd.RegisterAgent("Implementation", ("1.1.0",)), caller)

    def ask(self, command: cmd.Command, caller: Caller) -> Any:
        """Run a command and return the reply."""
        return self.exchange.handle(command, caller, self.now).reply


def _resource(number: int) -> str:
    """Return the name of a resource: a file, a glob of files or a folder."""
    folder = f"{_FOLDERS[number % 100]}/part_{number // 100:03}"
    return (f"{folder}/**", f"{folder}/handlers.py", f"{folder}/test_*.py", f"{folder}/*_schema.py")[number % 4]


def measure_leases(_: int) -> dict[str, float]:
    """Measure acquire, release with a grant to a waiting agent, and renew, among many leases and waiting requests."""
    bench = Bench(LEASES)
    held = [bench.ask(cmd.AcquireLease((_resource(number),)), bench.callers[number]).lease for number in range(LEASES)]
    rng = random.Random(1)
    for number in range(WAITERS):
        holder = rng.randrange(LEASES // 2)
        waiter = bench.callers[LEASES // 2 + number * 2]
        bench.ask(cmd.AcquireLease((_resource(holder),), priority=PRIORITY_NAMES[number % 4]), waiter)
    if len(bench.exchange.state.leases.queue) != WAITERS:
        raise RuntimeError("not all agents wait")
    gc.collect()
    gc.freeze()
    spent: dict[str, list[float]] = {name: [] for name in ("acquire", "wait", "release", "renew", "control")}

    def timed(name: str, command: cmd.Command, caller: Caller) -> Any:
        began = time.perf_counter()
        outcome = bench.exchange.handle(command, caller, bench.now)
        spent[name].append(time.perf_counter() - began)
        return outcome.reply

    for number in range(SAMPLES):
        bench.now += 1000
        holder = rng.randrange(LEASES // 2)
        owner, free = bench.callers[holder], bench.callers[LEASES // 2 + 1 + 2 * rng.randrange(LEASES // 4 - 1)]
        began = time.perf_counter()
        control()
        spent["control"].append(time.perf_counter() - began)
        waiting = timed("wait", cmd.AcquireLease((_resource(holder),), priority=PRIORITY_NAMES[number % 4]), free)
        timed("renew", cmd.RenewLease(held[holder]), owner)
        timed("release", cmd.ReleaseLease(held[holder]), owner)
        bench.ask(cmd.ReleaseLease(waiting.lease), free)
        for lease in bench.exchange.state.leases.holding(_resource(holder)):
            bench.ask(cmd.ReleaseLease(lease.lease), Caller(lease.holder, "primary"))
            bench.ask(cmd.AcquireLease((_resource(holder),)), Caller(lease.holder, "primary"))
        fresh = f"{_resource(holder)}".replace("src", f"new_{number}")
        got = timed("acquire", cmd.AcquireLease((fresh,)), owner)
        bench.ask(cmd.ReleaseLease(got.lease), owner)
        for lease in bench.exchange.state.leases.holding(_resource(holder)):
            bench.ask(cmd.ReleaseLease(lease.lease), Caller(lease.holder, "primary"))
        again = bench.ask(cmd.AcquireLease((_resource(holder),)), owner)
        held[holder] = again.lease
    every = [value for name in ("acquire", "wait", "release", "renew") for value in spent[name]]
    return {
        **{f"{name}_p50_us": percentile(values, 50) * 1e6 for name, values in spent.items()},
        **{f"{name}_p99_us": percentile(values, 99) * 1e6 for name, values in spent.items()},
        "lease_p99_us": percentile(every, 99) * 1e6,
    }


def measure_hot(_: int) -> dict[str, float]:
    """Measure releases of one resource with the longest queue that the policy allows."""
    bench = Bench(HOT + 1)
    lease = bench.ask(cmd.AcquireLease(("hot",)), bench.callers[0]).lease
    holder = bench.callers[0]
    for number in range(HOT):
        bench.ask(cmd.AcquireLease(("hot",), priority=PRIORITY_NAMES[number % 4]), bench.callers[number + 1])
    gc.collect()
    gc.freeze()
    spent: list[float] = []
    for number in range(SAMPLES // 10):
        bench.now += 1000
        began = time.perf_counter()
        bench.exchange.handle(cmd.ReleaseLease(lease), holder, bench.now)
        spent.append(time.perf_counter() - began)
        bench.ask(cmd.AcquireLease(("hot",), priority=PRIORITY_NAMES[number % 4]), holder)
        (now_held,) = bench.exchange.state.leases.holding("hot")
        lease, holder = now_held.lease, Caller(now_held.holder, "primary")
    return {"hot_release_p50_us": percentile(spent, 50) * 1e6, "hot_release_p99_us": percentile(spent, 99) * 1e6}


def measure_deadlocks(_: int) -> dict[str, float]:
    """Measure a wait at the end of a long chain of waits: one without and one with a deadlock."""
    bench = Bench(CHAIN + 2)
    for number in range(CHAIN + 1):
        bench.ask(cmd.AcquireLease((f"link_{number:04}",), priority="Coordinate"), bench.callers[number])
    for number in reversed(range(1, CHAIN)):
        bench.ask(cmd.AcquireLease((f"link_{number + 1:04}",), priority="Coordinate"), bench.callers[number])
    gc.collect()
    gc.freeze()
    bench.now += 1
    first = bench.callers[0]
    chained: list[float] = []
    checks: list[float] = []
    closing: list[float] = []
    graph = bench.exchange.state.waits
    held = bench.exchange.state.leases.holding("link_0000")[0].lease
    bench.ask(cmd.AcquireLease(("link_0000",), priority="Coordinate"), bench.callers[CHAIN + 1])
    for _number in range(SAMPLES // 10):
        began = time.perf_counter()
        reply: Any = bench.exchange.handle(
            cmd.AcquireLease(("link_0001",), priority="Coordinate"), first, bench.now
        ).reply
        chained.append(time.perf_counter() - began)
        began = time.perf_counter()
        graph.suspects[first.agent] = None
        if graph.find_deadlock():
            raise RuntimeError("a chain without a cycle was refused")
        checks.append(time.perf_counter() - began)
        began = time.perf_counter()
        last = bench.callers[CHAIN]
        closed = bench.exchange.handle(cmd.AcquireLease(("link_0000",), priority="Info"), last, bench.now)
        closing.append(time.perf_counter() - began)
        if not isinstance(closed.reply, Problem) and len(closed.events) < 2:
            raise RuntimeError("the deadlock was not found")
        bench.ask(cmd.AcquireLease((f"link_{CHAIN:04}",), priority="Coordinate"), last)
        bench.ask(cmd.ReleaseLease(reply.lease), first)
        for lease in bench.exchange.state.leases.holding(f"link_{CHAIN:04}"):
            bench.ask(cmd.ReleaseLease(lease.lease), Caller(lease.holder, "primary"))
        bench.ask(cmd.AcquireLease((f"link_{CHAIN:04}",), priority="Coordinate"), last)
        before = bench.callers[CHAIN - 1]
        bench.ask(cmd.AcquireLease((f"link_{CHAIN:04}",), priority="Coordinate"), before)
    del held
    return {
        "deadlock_p50_us": percentile(checks, 50) * 1e6,
        "deadlock_p99_us": percentile(checks, 99) * 1e6,
        "chained_wait_p50_us": percentile(chained, 50) * 1e6,
        "chained_wait_p99_us": percentile(chained, 99) * 1e6,
        "closing_wait_p99_us": percentile(closing, 99) * 1e6,
    }


def measure_globs(_: int) -> dict[str, float]:
    """Measure the search for conflicts among many globs."""
    used = UsedPatterns()
    for number in range(GLOBS):
        used.hold(_resource(number), ("lease", number))
    rng = random.Random(2)
    spent: list[float] = []
    found = 0
    gc.collect()
    gc.freeze()
    for number in range(SAMPLES):
        target = f"{_FOLDERS[rng.randrange(100)]}/part_{rng.randrange(100):03}"
        queries = (f"{target}/handlers.py", f"{target}/**", f"{target}/*.py", f"{target}/test_{number}.py")
        began = time.perf_counter()
        conflicts = used.conflicting(queries[number % 4])
        spent.append(time.perf_counter() - began)
        found += len(conflicts)
    began = time.perf_counter()
    everything = len(used.conflicting("**"))
    widest = time.perf_counter() - began
    if not found or everything < GLOBS // 2:
        raise RuntimeError(f"{found} and {everything} conflicts are too few")
    return {
        "glob_p50_us": percentile(spent, 50) * 1e6,
        "glob_p99_us": percentile(spent, 99) * 1e6,
        "glob_conflicts_mean": found / SAMPLES,
        "glob_widest_us": widest * 1e6,
    }


def measure_attacks(_: int) -> dict[str, float]:
    """Measure the slowest decision, or replayed event, of leases at exactly the policy's limits."""
    spent = {shape.name: attack(shape) for shape in ATTACKS}
    return {
        "worst_lease_ms": max(value for figures in spent.values() for value in figures.values()) * 1e3,
        **{f"attack_{name}_ms": max(figures.values()) * 1e3 for name, figures in spent.items()},
    }


MEASUREMENTS: tuple[Callable[[int], dict[str, float]], ...] = (
    measure_leases,
    measure_hot,
    measure_deadlocks,
    measure_globs,
    measure_attacks,
)


def main() -> None:
    """Measure everything several times and print medians."""
    parser = options("bench-coordination", __doc__, rounds=ROUNDS)
    chosen = parser.parse_args()
    rounds: list[dict[str, float]] = []
    with Run("bench-coordination", chosen, rounds=ROUNDS) as run:
        for number in range(run.rounds):
            print(f"round {number + 1} of {run.rounds} …", file=sys.stderr)
            figures: dict[str, float] = {}
            for measure in MEASUREMENTS:
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    figures |= pool.apply(measure, (0,))
            rounds.append(figures)
    medians = median_of(rounds)
    head = f"{LEASES} leases, {WAITERS} waiters, {HOT} in the longest queue, a chain of {CHAIN}, {GLOBS} globs\n\n"
    text = head + table(["figure", "median"], [[name, f"{value:,.1f}"] for name, value in medians.items()])
    summary = {name: round(value, 1) for name, value in medians.items() if name.endswith(("_us", "_ms"))}
    summary["lease_p99_over_control"] = round(medians["lease_p99_us"] / medians["control_p99_us"], 3)
    run.finish(text, summary, AIMS)


if __name__ == "__main__":
    main()

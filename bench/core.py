"""Benchmark of the exchange's decisions: rates, percentiles, memory and garbage collection.

Each measurement runs in a new process, so that memory and garbage collector start clean. Elapsed time is measured; the
exchange's clock is virtual. `python -m bench.core` prints a table and, as its last line, one JSON object.
"""

import gc
import multiprocessing
import statistics
import sys
import time
from itertools import count, pairwise
from typing import Any

import msgspec

from bench.report import Aim, Run, median_of, options, percentile, rss_bytes, table
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.events import encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.policy import document_of
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.policies import parse_policy

#: Number of mailboxes with pending messages.
AGENTS = 100
#: Padding in each payload, bytes; the payload has about 600 bytes.
PADDING = 580
PRIORITIES = ("Info",) * 60 + ("Coordinate",) * 30 + ("Blocking",) * 8 + ("Critical",) * 2
SAMPLES = 20_000
CYCLE = 20_000
#: Numbers of pending messages, by name.
SIZES = {"100": 100, "10k": 10_000, "1m": 1_000_000}
QUICK_SIZES = {"100": 100, "10k": 1000, "1m": 5000}
ROUNDS = 5
AIMS = (
    Aim("routing_p50_over_control", "<=", 0.3, "p50 of a send decision, over that of the control"),
    Aim("routing_p99_over_control", "<=", 0.5, "p99 of a send decision, over that of the control"),
    Aim("growth_1m_over_100", "<=", 2, "mean of a decision with a million pending, over that with a hundred"),
    Aim("gc_pause_max_ms_1m", "<=", 5, "longest pause of the garbage collector, milliseconds"),
    Aim("bytes_per_pending", "<", 1024, "memory of a pending message beside its body, bytes"),
)
CONTROL_STEPS = 500
_SECOND = 1_000_000
_START = 1_762_940_000 * _SECOND
_BOSS = Caller("boss", "director")
_POLICY = """
limits: {mailbox_depth_max: 10000000, mailbox_bytes_max: 1000000000000,
  sender_bytes_max: 1000000000000, project_bytes_max: 1000000000000}
contracts: {CUSTOM_WORK: {ack: required, timeout_s: 30, retries_max: 3, backoff_s: [1, 2, 4], ttl_s: 86400}}
"""


class Ids:
    """Source of sequential ids."""

    def __init__(self) -> None:
        self._count = count()

    def fresh(self, prefix: str, now: int) -> str:
        """Return a new id."""
        return f"{prefix}_{now}_{next(self._count)}"


class Bench:
    """An exchange with a team, and functions that create load."""

    def __init__(self) -> None:
        self.exchange = Exchange(Ids())
        self.now = _START
        self.serial = 0
        self.workers = [Caller(f"worker-{number:03}", "primary") for number in range(AGENTS)]
        self._ask(cmd.AdoptPolicy(document_of(parse_policy(_POLICY)), "bench"), SYSTEM)
        self._ask(cmd.RegisterAgent("Manager", ("1.1.0",)), _BOSS)
        self.sessions: dict[str, str] = {}
        for worker in self.workers:
            self._ask(cmd.RegisterAgent("Implementation", ("1.1.0",)), worker)
            opened = self._ask(cmd.OpenSession("piggyback", 1024), worker)
            self.sessions[worker.agent] = opened.session

    def _ask(self, command: cmd.Command, caller: Caller) -> Any:
        return self.exchange.handle(command, caller, self.now).reply

    def bytes_of_next(self) -> bytes:
        """Return the next message, encoded."""
        self.serial += 1
        worker = self.workers[self.serial % AGENTS]
        return msgspec.json.encode(
            {
                "version": "1.1.0",
                "messageId": f"msg_20251112T100000_{self.serial:08x}",
                "timestamp": "2025-11-12T10:00:00.000Z",
                "sender": {"agentId": "boss", "type": "Manager"},
                "receiver": {"agentId": worker.agent, "type": "Implementation"},
                "messageType": "CUSTOM_WORK",
                "priority": PRIORITIES[self.serial * 37 % len(PRIORITIES)],
                "payload": {"n": self.serial, "text": "x" * PADDING},
            }
        )

    def envelope(self) -> Envelope:
        """Parse the next message."""
        return parse_envelope(self.bytes_of_next(), 1 << 20)

    def fill(self, pending: int) -> None:
        """Fill the mailboxes with messages."""
        handle = self.exchange.handle
        for _ in range(pending):
            handle(cmd.Send(self.envelope()), _BOSS, self.now)
            self.now += 10

    def drain_one(self, worker: Caller) -> str:
        """Drain one message and return its id."""
        reply = self._ask(cmd.Drain(self.sessions[worker.agent], 1), worker)
        return str(reply.deliveries[0].signal_id)


def measure_rates(_: int) -> dict[str, float]:
    """Measure messages per second of each step of a cycle, and the cost of encoding."""
    bench = Bench()
    clock = time.perf_counter
    spent = dict.fromkeys(("parse", "send", "drain", "receipt", "ack", "encode"), 0.0)
    batch = 32
    handle = bench.exchange.handle
    for start in range(0, CYCLE, batch):
        worker = bench.workers[start // batch % AGENTS]
        bench.now += 1000
        raw = []
        for _index in range(batch):
            bench.serial += AGENTS - bench.serial % AGENTS + start // batch % AGENTS - 1
            raw.append(bench.bytes_of_next())
        began = clock()
        envelopes = [parse_envelope(data, 1 << 20) for data in raw]
        parsed = clock()
        outcomes = [handle(cmd.Send(envelope), _BOSS, bench.now) for envelope in envelopes]
        sent = clock()
        drained = handle(cmd.Drain(bench.sessions[worker.agent], batch), worker, bench.now)
        taken = clock()
        reply: Any = drained.reply
        ids = tuple(delivery.signal_id for delivery in reply.deliveries)
        confirmed = handle(cmd.Confirm(ids), worker, bench.now)
        received = clock()
        acks = [handle(cmd.Acknowledge(message_id), worker, bench.now) for message_id in ids]
        acked = clock()
        for outcome in (*outcomes, drained, confirmed, *acks):
            encode_events(outcome.events)
        encoded = clock()
        if len(ids) != batch:
            raise RuntimeError(f"drained {len(ids)} of {batch}")
        marks = (began, parsed, sent, taken, received, acked, encoded)
        for name, (a, b) in zip(spent, pairwise(marks), strict=True):
            spent[name] += b - a
    done = (CYCLE + batch - 1) // batch * batch
    rates = {f"{name}_per_s": done / seconds for name, seconds in spent.items()}
    rates["cycle_per_s"] = done / sum(spent[name] for name in ("send", "drain", "receipt", "ack"))
    rates["cycle_with_parse_and_encode_per_s"] = done / sum(spent.values())
    return rates


def control() -> dict[int, int]:
    """Do a fixed amount of computation, about as long as a decision, to measure the noise of the machine."""
    return {number: number * 2 for number in range(CONTROL_STEPS)}


def measure_decisions(pending: int) -> dict[str, float]:
    """Measure single decisions with a number of pending messages, and the memory of those messages."""
    bench = Bench()
    bench.fill(AGENTS)
    gc.collect()
    before = rss_bytes()
    bench.fill(pending)
    gc.collect()
    after = rss_bytes()
    gc.freeze()
    pauses: list[float] = []
    began = 0.0

    def watch(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            pauses.append(time.perf_counter() - began)

    gc.callbacks.append(watch)
    clock, handle = time.perf_counter, bench.exchange.handle
    sends: list[float] = []
    drains: list[float] = []
    controls: list[float] = []
    for _ in range(SAMPLES):
        start = clock()
        control()
        controls.append(clock() - start)
        command = cmd.Send(bench.envelope())
        worker = bench.workers[bench.serial % AGENTS]
        bench.now += 1000
        start = clock()
        handle(command, _BOSS, bench.now)
        sends.append(clock() - start)
        drain = cmd.Drain(bench.sessions[worker.agent], 1)
        start = clock()
        outcome = handle(drain, worker, bench.now)
        drains.append(clock() - start)
        reply: Any = outcome.reply
        handle(cmd.Acknowledge(reply.deliveries[0].signal_id), worker, bench.now)
    gc.collect()
    gc.callbacks.remove(watch)
    overhead = (after - before) / pending - (PADDING + 24)
    return {
        "send_p50_us": percentile(sends, 50) * 1e6,
        "send_p99_us": percentile(sends, 99) * 1e6,
        "send_p999_us": percentile(sends, 99.9) * 1e6,
        "drain_p50_us": percentile(drains, 50) * 1e6,
        "drain_p99_us": percentile(drains, 99) * 1e6,
        "drain_p999_us": percentile(drains, 99.9) * 1e6,
        "mean_us": statistics.fmean([*sends, *drains]) * 1e6,
        "control_p50_us": percentile(controls, 50) * 1e6,
        "control_p99_us": percentile(controls, 99) * 1e6,
        "gc_pause_max_ms": max(pauses, default=0.0) * 1e3,
        "gc_runs": float(len(pauses)),
        "bytes_per_pending": overhead,
    }


def _apart(measure: Any, argument: int) -> dict[str, float]:
    """Run a measurement in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result: dict[str, float] = pool.apply(measure, (argument,))
        return result


def _noise(figures: dict[str, float]) -> float:
    return round(figures["control_p99_us"] / figures["control_p50_us"], 2)


def _over_control(at: dict[str, dict[str, float]], percent: str) -> float:
    """Return a percentile of a send decision over the control's, the worst of all sizes."""
    return round(max(each[f"send_{percent}_us"] / each[f"control_{percent}_us"] for each in at.values()), 3)


def main() -> None:
    """Measure everything several times and print medians."""
    parser = options("bench-core", __doc__, rounds=ROUNDS)
    chosen = parser.parse_args()
    sizes = QUICK_SIZES if chosen.quick else SIZES
    rates: list[dict[str, float]] = []
    decisions: dict[str, list[dict[str, float]]] = {name: [] for name in sizes}
    with Run("bench-core", chosen, rounds=ROUNDS) as run:
        for number in range(run.rounds):
            print(f"round {number + 1} of {run.rounds} …", file=sys.stderr)
            rates.append(_apart(measure_rates, 0))
            for name, pending in sizes.items():
                decisions[name].append(_apart(measure_decisions, pending))
    rate = median_of(rates)
    at = {name: median_of(runs) for name, runs in decisions.items()}
    steps = table(["step", "messages/s"], [[name.removesuffix("_per_s"), f"{rate[name]:,.0f}"] for name in rate])
    names = ["send_p50_us", "send_p99_us", "send_p999_us", "drain_p50_us", "drain_p99_us", "drain_p999_us", "mean_us"]
    names += ["control_p50_us", "control_p99_us", "gc_pause_max_ms", "bytes_per_pending"]
    rows = [[name, *(f"{at[size][name]:,.1f}" for size in sizes)] for name in names]
    rows[-1][1] = "too few"
    text = (
        f"Messages per second on one core (batches of 32, one command per send and ACK)\n{steps}\n\n"
        f"One decision, by messages pending\n{table(['figure', *sizes], rows)}\n\n"
        "control is a fixed amount of work measured in between: its p99 divided by its p50 is the machine's noise"
    )
    summary = {
        "cycle_per_s": round(rate["cycle_per_s"]),
        "cycle_with_parse_and_encode_per_s": round(rate["cycle_with_parse_and_encode_per_s"]),
        "routing_p50_over_control": _over_control(at, "p50"),
        "routing_p99_over_control": _over_control(at, "p99"),
        **{f"routing_p50_us_{size}": round(at[size]["send_p50_us"], 1) for size in sizes},
        **{f"routing_p99_us_{size}": round(at[size]["send_p99_us"], 1) for size in sizes},
        **{f"routing_p999_us_{size}": round(at[size]["send_p999_us"], 1) for size in sizes},
        **{f"offer_p99_us_{size}": round(at[size]["drain_p99_us"], 1) for size in sizes},
        **{f"control_p99_over_p50_{size}": _noise(at[size]) for size in sizes},
        "growth_1m_over_100": round(at["1m"]["mean_us"] / at["100"]["mean_us"], 2),
        "gc_pause_max_ms_1m": round(max(each["gc_pause_max_ms"] for each in decisions["1m"]), 3),
        "bytes_per_pending": round(at["1m"]["bytes_per_pending"]),
    }
    run.finish(text, summary, AIMS)


if __name__ == "__main__":
    main()

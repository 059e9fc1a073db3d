"""Benchmark of durability: confirmed sends per second and their latency, for each store and the floor, in one run.

The same host, exchange and senders run on every store; only the journal differs. The floor is a file with one
`fdatasync` per group and no tables; the real stores do all their work: tables, search index, segments. Rounds are
interleaved, and figures are medians over the rounds, because other load on the machine varies. `bench.tables` then
measures what the tables cost; it also runs by itself.
"""

import argparse
import asyncio
import gc
import json
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop
from tests.postgres import Server

from bench.floor import FloorJournal
from bench.report import Aim, Run, options, table
from bench.tables import MESSAGES
from bench.tables import measure as measure_tables
from tocsin.core.commands import SYSTEM, AdoptPolicy, Caller, Receipt, RegisterAgent, Send
from tocsin.core.events import Event
from tocsin.core.policy import document_of
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.timestamps import iso
from tocsin.hub.hosting.host import Host
from tocsin.ids import RandomIds
from tocsin.journal.base import Journal
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.log import EventLog
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.projection import batch_of
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import parse_policy

POLICY = parse_policy(
    """
limits: {mailbox_depth_max: 10000000, mailbox_bytes_max: 1000000000000,
  sender_bytes_max: 1000000000000, project_bytes_max: 1000000000000}
bucket: {capacity: 1000000000000, refill_per_s: 1000000000}
gaming: {samples_max: 100}
"""
)
#: The floor has no tables.
FLOOR_POLICY = msgspec.structs.replace(
    POLICY,
    storage=msgspec.structs.replace(
        POLICY.storage,
        projection_interval_s=1e6,
        projection_events_max=10**9,
        projection_lag_max=10**9,
        projection_slice=10**9,
        search=False,
        segments=False,
    ),
)
SENDERS = (1, 64, 512)
MESSAGE_BYTES = 600
MILLION = 1_000_000
ROUNDS = 5
AIMS = (
    Aim("rate_over_floor", ">=", 0.7, "SQLite with fsync and 64 senders, over the floor's rate"),
    Aim("p99_over_floor", "<=", 1.5, "p99 of the same, over the floor's"),
    Aim("open_1m_s", "<", 15, "opening a project with a million pending messages, seconds"),
    Aim("rss_1m_mib", "<", 1536, "memory with a million pending messages, MiB"),
)


def template() -> bytes:
    """Return an envelope of 600 bytes with placeholders for ids and names."""
    document = {
        "version": "1.1.0",
        "messageId": "msg_%s_%d",
        "timestamp": iso(time.time_ns() // 1000),
        "sender": {"agentId": "agent%d", "type": "Manager"},
        "receiver": {"agentId": "agent%d", "type": "*"},
        "messageType": "TaskAssigned",
        "payload": {"text": ""},
    }
    filler = MESSAGE_BYTES - len(json.dumps(document)) - 12
    document["payload"] = {"text": ("lorem ipsum dolor sit amet " * 30)[:filler]}
    return json.dumps(document).encode()


class Measure(msgspec.Struct):
    """Result of one store with one number of senders, in one round."""

    per_s: float
    p50_ms: float
    p99_ms: float


async def measure(journal: Journal, segments: Path | None, senders: int, seconds: float) -> Measure:
    """Run senders for a time, each waiting for its receipt."""
    floor = isinstance(journal, FloorJournal)
    host = await Host.start(journal, FLOOR_POLICY if floor else POLICY, segments=None if floor else segments)
    callers = [Caller(f"agent{number}", "primary") for number in range(senders)]
    await asyncio.gather(*[host.submit(RegisterAgent("Manager", ("1.1.0",)), caller) for caller in callers])
    text, limit = template(), POLICY.limits.message_bytes_max
    latencies: list[float] = []
    clock = time.perf_counter
    gc.collect()
    begin = clock()
    end = begin + seconds

    async def send(number: int) -> None:
        caller, name, count = callers[number], f"{number}".encode(), 0
        receiver = (number + 1) % senders
        while (start := clock()) < end:
            count += 1
            envelope = parse_envelope(text % (name, count, number, receiver), limit)
            reply = await host.submit(Send(envelope), caller)
            if not isinstance(reply, Receipt):
                sys.exit(f"not confirmed: {reply}")
            latencies.append(clock() - start)

    await asyncio.gather(*[send(number) for number in range(senders)])
    elapsed = clock() - begin
    await host.close()
    latencies.sort()
    return Measure(
        len(latencies) / elapsed, latencies[len(latencies) // 2] * 1e3, latencies[int(len(latencies) * 0.99)] * 1e3
    )


class Bench:
    """The stores and their folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plain = Server(fsync=True, name="plain").create()
        self._primary = Server(fsync=True, name="primary").create()
        self._standby = self._primary.standby("standby1")
        self.stores: dict[str, Callable[[str], Journal]] = {
            "floor": lambda name: FloorJournal(folder / name),
            "sqlite_full": lambda name: self._sqlite(name, "FULL"),
            "sqlite_normal": lambda name: self._sqlite(name, "NORMAL"),
            "postgres": lambda name: PostgresJournal(self._plain.dsn, name),
            "postgres_sync": lambda name: PostgresJournal(self._primary.dsn, name),
        }

    def _sqlite(self, name: str, mode: str) -> Journal:
        checkpoint_bytes = POLICY.storage.checkpoint_bytes
        return SqliteJournal(self._folder / name, name, mode=mode, checkpoint_bytes=checkpoint_bytes)

    def run(self, store: str, senders: int, seconds: float) -> Measure:
        """Measure one store once, with a new project."""
        name = f"{store}_{senders}_{secrets.token_hex(4)}"
        journal = self.stores[store](name)
        return uvloop.run(measure(journal, self._folder / "segments", senders, seconds))

    def close(self) -> None:
        """Stop the servers."""
        for server in (self._standby, self._primary, self._plain):
            server.remove()


def fill(path: Path, count: int) -> None:
    """Create a project with this many pending messages, as a hub does."""
    journal = SqliteJournal(path, "million", checkpoint_bytes=POLICY.storage.checkpoint_bytes)
    tables, log = journal.tables(), EventLog(journal)
    exchange, text = ObservedExchange(RandomIds()), template()
    now = time.time_ns() // 1000
    events: list[Event] = list(exchange.handle(AdoptPolicy(document_of(POLICY), "bench"), SYSTEM, now).events)
    callers = [Caller(f"agent{number}", "primary") for number in range(100)]
    for caller in callers:
        events += exchange.handle(RegisterAgent("Manager", ("1.1.0",)), caller, now).events
    for number in range(count):
        now += 1
        sender = number % 100
        data = text % (b"m", number, sender, (sender + 1) % 100)
        events += exchange.handle(Send(parse_envelope(data, 1 << 20)), callers[sender], now).events
        if len(events) >= 2000:
            log.append(events)
            events = []
            if exchange.uncaptured >= 50_000:
                tables.write(batch_of(exchange.capture()))
    log.append(events)
    tables.write(batch_of(exchange.capture()))
    tables.close()
    journal.close()


def open_one(path: Path) -> None:
    """Open a project and print the time and memory that it takes."""
    begin = time.perf_counter()
    journal = SqliteJournal(path, "million", checkpoint_bytes=POLICY.storage.checkpoint_bytes)
    tables = journal.tables()
    exchange = reopen(journal, tables, RandomIds())
    seconds = time.perf_counter() - begin
    pending = sum(agent.mailbox.depth for agent in exchange.state.agents.values())
    status = Path("/proc/self/status").read_text()
    rss = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tables.close()
    journal.close()
    print(json.dumps({"seconds": seconds, "pending": pending, "rss_mib": rss, "peak_mib": peak}))


def child(*arguments: str) -> str:
    """Run a part in a separate process."""
    command = [sys.executable, "-m", "bench.journal", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def report(run: Run, seconds: float, million: int, messages: int) -> None:
    """Measure everything and print the results side by side."""
    found: dict[tuple[str, int], list[Measure]] = {}
    opened: dict[str, float] = {}
    with run, tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        bench = Bench(Path(name))
        try:
            for number in range(run.rounds):
                print(f"round {number + 1} of {run.rounds}", file=sys.stderr)
                for senders in SENDERS:
                    for store in bench.stores:
                        found.setdefault((store, senders), []).append(bench.run(store, senders, seconds))
        finally:
            bench.close()
        if million:
            path = Path(name) / "million"
            child("--fill", str(path), "--million", str(million))
            opened = json.loads(child("--open", str(path)))
        tables_text, tables_figures = measure_tables(run.rounds, messages)
    figures: dict[str, float] = {}
    rows = []
    for (store, senders), measures in sorted(found.items(), key=lambda item: [*bench.stores].index(item[0][0])):
        rate, p50, p99 = (
            statistics.median(getattr(measure, field) for measure in measures)
            for field in ("per_s", "p50_ms", "p99_ms")
        )
        floors = found["floor", senders]
        over = statistics.median(m.per_s / f.per_s for m, f in zip(measures, floors, strict=True))
        rows.append([store, f"{senders}", f"{rate:,.0f}", f"{p50:.2f}", f"{p99:.2f}", f"{over:.2f}"])
        figures[f"{store}_{senders}_per_s"] = round(rate, 1)
        figures[f"{store}_{senders}_p99_ms"] = round(p99, 3)
    pairs = list(zip(found["sqlite_full", 64], found["floor", 64], strict=True))
    figures["rate_over_floor"] = round(statistics.median(m.per_s / f.per_s for m, f in pairs), 3)
    figures["p99_over_floor"] = round(statistics.median(m.p99_ms / f.p99_ms for m, f in pairs), 3)
    text = f"confirmed sends of {MESSAGE_BYTES} bytes, rounds of {seconds:g} s\n\n"
    text += table(["store", "senders", "per second", "p50 ms", "p99 ms", "of floor"], rows)
    if opened:
        text += (
            f"\n\nopening a project with {opened['pending']:,} messages waiting: {opened['seconds']:.1f} s,"
            f" {opened['rss_mib']:.0f} MiB resident ({opened['peak_mib']:.0f} at most)"
        )
        figures["open_1m_s"] = round(opened["seconds"], 2)
        figures["rss_1m_mib"] = round(opened["rss_mib"], 1)
    run.finish(f"{text}\n\n{tables_text}", figures | tables_figures, AIMS)


def main() -> None:
    parser = options("bench-journal", __doc__, rounds=ROUNDS)
    parser.add_argument("--seconds", type=float, default=None, help="seconds of each measurement (default: 2)")
    parser.add_argument("--million", type=int, default=None, help="messages of the large project; 0 leaves it out")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    million = (10_000 if chosen.quick else MILLION) if chosen.million is None else chosen.million
    if chosen.fill is not None:
        fill(chosen.fill, million)
    elif chosen.open is not None:
        open_one(chosen.open)
    else:
        seconds = chosen.seconds or (0.3 if chosen.quick else 2.0)
        messages = 1000 if chosen.quick else MESSAGES
        report(Run("bench-journal", chosen, rounds=ROUNDS), seconds, million, messages)


if __name__ == "__main__":
    main()

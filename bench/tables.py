"""Benchmark of the tables: CPU per message of capturing changes and of writing them, for each store, and in a real run.

Hot: one thread plays the same traffic on the bare exchange, captures it as often as the policy says and writes each
capture; the best of the rounds counts, because other load on the machine only adds. Real: an embedded bus, 64 senders
that await each confirmation, 16 mailboxes whose consumers confirm; the CPU of each thread, divided by the messages.
"""

import asyncio
import gc
import json
import secrets
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from tests.postgres import Server

from bench.peers.peer import Letter
from bench.peers.tocsin_embedded import TocsinEmbedded
from bench.report import Run, options, table
from tocsin.core.commands import SYSTEM, AdoptPolicy, Caller, Confirm, OpenSession, RegisterAgent, Send
from tocsin.core.policy import document_of
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.timestamps import iso
from tocsin.ids import RandomIds
from tocsin.journal.base import Journal
from tocsin.journal.changes import Capture, ObservedExchange
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.projection import batch_of
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import parse_policy

__all__ = ["MESSAGES", "measure"]

POLICY = parse_policy(
    """
limits: {mailbox_depth_max: 10000000, mailbox_bytes_max: 1000000000000,
  sender_bytes_max: 1000000000000, project_bytes_max: 1000000000000}
bucket: {capacity: 1000000000000, refill_per_s: 1000000000}
gaming: {samples_max: 100}
"""
)
MESSAGES, QUICK_MESSAGES = 20_000, 2_000
ROUNDS = 5
SENDERS, MAILBOXES = 64, 16
BODY = "lorem ipsum dolor sit amet " * 20
#: Messages whose receipt comes later than the next send.
UNCONFIRMED = 64


def envelopes(count: int) -> Iterator[tuple[int, bytes]]:
    """Yield senders and envelopes of about 600 bytes."""
    ids = RandomIds()
    for number in range(count):
        now = time.time_ns() // 1000
        document = {
            "version": "1.1.0",
            "messageId": ids.fresh("msg", now),
            "timestamp": iso(now),
            "sender": {"agentId": f"sender{number % SENDERS}", "type": "Manager"},
            "receiver": {"agentId": f"mailbox{number % MAILBOXES}", "type": "*"},
            "messageType": "TaskAssigned",
            "payload": {"text": f"{number} {BODY}"},
        }
        yield number, json.dumps(document).encode()


def captures(count: int) -> tuple[list[Capture], float]:
    """Play the traffic and capture it; return the captures and the CPU per message that they took."""
    exchange, now = ObservedExchange(RandomIds()), time.time_ns() // 1000
    exchange.handle(AdoptPolicy(document_of(POLICY), "bench"), SYSTEM, now)
    senders = [Caller(f"sender{number}", "primary") for number in range(SENDERS)]
    mailboxes = [Caller(f"mailbox{number}", "primary") for number in range(MAILBOXES)]
    for caller in senders + mailboxes:
        exchange.handle(RegisterAgent("Manager", ("1.1.0",)), caller, now)
    for caller in mailboxes:
        exchange.handle(OpenSession("push", 500), caller, now)
    storage, found, spent, unconfirmed = POLICY.storage, [exchange.capture()], 0.0, []
    gather = getattr(exchange, "gather", None)
    for number, data in envelopes(count):
        envelope = parse_envelope(data, POLICY.limits.message_bytes_max)
        exchange.handle(Send(envelope), senders[number % SENDERS], now + number)
        unconfirmed.append((mailboxes[number % MAILBOXES], envelope.message_id))
        if len(unconfirmed) == 2 * UNCONFIRMED:
            for caller, name in unconfirmed[:UNCONFIRMED]:
                exchange.handle(Confirm((name,)), caller, now + number)
            del unconfirmed[:UNCONFIRMED]
            begin = time.thread_time()
            if gather is not None and exchange.ungathered >= storage.projection_slice:
                gather()
            if exchange.uncaptured >= storage.projection_events_max:
                found.append(exchange.capture())
            spent += time.thread_time() - begin
    return [*found, exchange.capture()], spent / count * 1e6


def written(journal: Journal, found: list[Capture], count: int) -> tuple[float, float]:
    """Write captures; return the CPU and the elapsed time per message."""
    tables = journal.tables()
    tables.write(batch_of(found[0]))
    gc.collect()
    begin, cpu = time.perf_counter(), time.thread_time()
    for capture in found[1:]:
        tables.write(batch_of(capture))
    spent = time.thread_time() - cpu, time.perf_counter() - begin
    tables.close()
    journal.close()
    return spent[0] / count * 1e6, spent[1] / count * 1e6


def thread_cpu() -> dict[str, float]:
    """Return the CPU seconds of each thread by the first word of its name."""
    found: dict[str, float] = {}
    for thread in threading.enumerate():
        if thread.ident is not None:
            name = thread.name.split()[0]
            used = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
            found[name] = found.get(name, 0.0) + used
    return found


class Bus(TocsinEmbedded):
    """An embedded bus whose tables can be waited for."""

    async def caught_up(self) -> None:
        """Wait until the tables include every event so far."""
        if self._bus is not None:
            await self._bus.project.reader.ask(lambda tables: tables.standing())


async def real(folder: Path, count: int) -> dict[str, float]:
    """Send messages through an embedded bus until all are confirmed and in the tables; return the CPU per message."""
    bus = Bus()
    await bus.start(folder, MAILBOXES)
    arrived, all_arrived = 0, asyncio.Event()

    async def consume(mailbox: int) -> None:
        nonlocal arrived
        async for _ in bus.consume(mailbox, 64):
            arrived += 1
            if arrived == count:
                all_arrived.set()

    consumers = [asyncio.create_task(consume(mailbox)) for mailbox in range(MAILBOXES)]
    numbers = iter(range(count))

    async def send() -> None:
        for number in numbers:
            await bus.send(Letter(number % MAILBOXES, 1, f"{number} {BODY}"))

    before, begin = thread_cpu(), time.perf_counter()
    await asyncio.gather(*[send() for _ in range(SENDERS)])
    await all_arrived.wait()
    elapsed = time.perf_counter() - begin
    await bus.caught_up()
    after = thread_cpu()
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    await bus.close()
    spent = {name: (after[name] - before.get(name, 0.0)) / count * 1e6 for name in after}
    return {"per_s": count / elapsed, "loop_us": spent["MainThread"], "projection_us": spent["projections"]}


@contextmanager
def stores(folder: Path) -> Iterator[dict[str, Callable[[], Journal]]]:
    """Start a PostgreSQL server; yield functions that make a new project in each store."""
    server = Server(fsync=True, name="tables").create()

    def sqlite() -> Journal:
        name = secrets.token_hex(4)
        return SqliteJournal(folder / name, name, checkpoint_bytes=POLICY.storage.checkpoint_bytes)

    try:
        yield {"sqlite": sqlite, "postgres": lambda: PostgresJournal(server.dsn, secrets.token_hex(4))}
    finally:
        server.remove()


def measure(rounds: int, count: int) -> tuple[str, dict[str, float]]:
    """Measure everything, round by round; return a text and the figures."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name, stores(Path(name)) as opened:
        for number in range(rounds):
            played, capture_us = captures(count)
            found.setdefault("tables_capture_us", []).append(capture_us)
            for store, make in opened.items():
                cpu, elapsed = written(make(), played, count)
                found.setdefault(f"tables_{store}_us", []).append(cpu)
                found.setdefault(f"tables_{store}_elapsed_us", []).append(elapsed)
            del played
            run = Path(name) / f"run{number}"
            for figure, value in uvloop.run(real(run, count)).items():
                found.setdefault(f"tables_real_{figure}", []).append(value)
            shutil.rmtree(run)
    rows = [
        [figure.removeprefix("tables_"), f"{min(values):.1f}", f"{statistics.median(values):.1f}"]
        for figure, values in found.items()
    ]
    text = f"CPU of the tables per message, µs, rounds of {count:,} messages\n\n"
    text += table(["figure", "least", "median"], rows)
    figures = {figure: round(statistics.median(values), 2) for figure, values in found.items()}
    return text, figures | {f"{figure}_least": round(min(values), 2) for figure, values in found.items()}


def main() -> None:
    parser = options("bench-tables", __doc__, rounds=ROUNDS)
    parser.add_argument("--messages", type=int, default=None, help=f"messages of each round (default: {MESSAGES})")
    chosen = parser.parse_args()
    with Run("bench-tables", chosen, rounds=ROUNDS) as run:
        count = chosen.messages or (QUICK_MESSAGES if run.quick else MESSAGES)
        text, figures = measure(run.rounds, count)
    run.finish(text, figures)


if __name__ == "__main__":
    main()

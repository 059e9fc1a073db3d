"""Budget of an ordinary message: processor time of each layer, with warm caches and on one thread.

Every layer is timed by itself, in batches, and the smallest of several rounds counts: what is left is the cost of the
code and not of the machine. A loaded bus takes about twice that, because caches are cold and threads take turns.

The tables of a busy bus are written in large batches (`projection_busy_events` and the bounds beside it in the policy).
They are timed twice: with all messages of a round in one batch, and with a batch for every 64, as a quiet bus has them.
"""

import gc
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.core import Bench
from bench.peers import work
from bench.report import Run, options, table
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.events import Event, encode_events
from tocsin.core.policy import document_of
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.ids import RandomIds
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.log import EventLog
from tocsin.journal.projection import batch_of
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import parse_policy
from tocsin.wire.drafts import Draft
from tocsin.wire.envelope_writer import EnvelopeWriter

ROUNDS = 15
COUNT = 2_000
GROUP = 64
_POLICY = """
limits: {mailbox_depth_max: 10000000, mailbox_bytes_max: 1000000000000,
  sender_bytes_max: 1000000000000, project_bytes_max: 1000000000000}
bucket: {capacity: 1000000000000, refill_per_s: 1000000000}
"""
#: Microseconds at commit 40cb87c, pure and compiled: the best of many rounds on one thread too, but of another program.
BEFORE = {
    "harness": (9.9, 9.9),
    "draft and envelope": (4.2, 4.2),
    "parse the envelope": (8.4, 7.7),
    "decide the send": (47.8, 27.0),
    "decide the receipt": (9.8, 6.1),
    "encode the events": (0.8, 0.7),
    "append to the journal": (6.6, 6.3),
    "capture for the tables": (3.0, 3.1),
    "rows and tables": (33.5, 36.8),
}
LABELS = {
    "harness": "make the body and read it: the bench itself",
    "draft and envelope": "SDK: draft and envelope",
    "parse the envelope": "parse the envelope",
    "decide the send": "exchange: accept and offer",
    "decide the receipt": "exchange: receipt",
    "encode the events": "encode the events",
    "append to the journal": "append to the journal, without fsync (its own thread)",
    "capture for the tables": "capture what has changed for the tables",
    "rows and tables": f"rows and tables, {COUNT:,} messages at a time (their own thread)",
}


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a call per message, in microseconds, and its result."""
    began = time.thread_time()
    result = function()
    return (time.thread_time() - began) / COUNT * 1e6, result


def measure(folder: Path, batch: int) -> dict[str, float]:
    """Carry messages through all layers, one layer after the other; the tables are written in batches of that many."""
    found: dict[str, float] = {}
    letters = work.Letters(1)
    found["harness"], bodies = timed(lambda: [letter.body for letter in letters.some(COUNT)])
    found["harness"] += timed(lambda: [work.number_of(body) for body in bodies])[0]
    writer = EnvelopeWriter(None)
    writer.introduce("boss", "Manager")
    drafts = [Draft(to="worker", type="TaskAssigned", payload={"text": body}) for body in bodies]
    found["draft and envelope"], written = timed(lambda: [writer.write(draft) for draft in drafts])
    raw = [bytes(one.envelope) for one in written]
    found["parse the envelope"], envelopes = timed(lambda: [parse_envelope(data, 1 << 20) for data in raw])

    exchange, boss, worker = ObservedExchange(RandomIds()), Caller("boss", "director"), Caller("worker", "primary")
    now = Bench().now
    setup: list[Event] = list(
        exchange.handle(cmd.AdoptPolicy(document_of(parse_policy(_POLICY)), "bench"), SYSTEM, now).events
    )
    for caller, kind in ((boss, "Manager"), (worker, "Implementation")):
        setup += exchange.handle(cmd.RegisterAgent(kind, ("1.1.0",)), caller, now).events
    opened = exchange.handle(cmd.OpenSession("push", GROUP * 2), worker, now)
    setup += opened.events
    journal = SqliteJournal(folder / secrets.token_hex(4), "budget", mode="NORMAL", checkpoint_bytes=1 << 26)
    tables, log = journal.tables(), EventLog(journal)
    log.append(setup)
    exchange.capture()
    sums = dict.fromkeys(
        ("decide the send", "decide the receipt", "encode the events", "append to the journal"), 0.0
    ) | {"capture for the tables": 0.0, "rows and tables": 0.0}
    handle, clock = exchange.handle, time.thread_time
    slice_events = exchange.state.policy.storage.projection_slice
    captured = 0
    try:
        for start in range(0, COUNT, GROUP):
            group = [cmd.Send(envelope) for envelope in envelopes[start : start + GROUP]]
            now += 1000
            marks = [clock()]
            outcomes = [handle(command, boss, now) for command in group]
            marks.append(clock())
            replies: list[Any] = [outcome.reply for outcome in outcomes]
            ids = tuple(reply.signal_id for reply in replies)
            marks.append(clock())
            receipts = handle(cmd.Confirm(ids), worker, now)
            marks.append(clock())
            for outcome in (*outcomes, receipts):
                encode_events(outcome.events)
            marks.append(clock())
            log.append([event for outcome in (*outcomes, receipts) for event in outcome.events])
            marks.append(clock())
            done = start + len(group)
            changes = None
            if exchange.ungathered >= slice_events:
                exchange.gather()
            if done - captured >= batch or done == COUNT:
                changes, captured = exchange.capture(), done
            marks.append(clock())
            if changes is not None:
                tables.write(batch_of(changes))
            marks.append(clock())
            spans = [last - first for first, last in pairwise(marks)]
            for name, span in zip(sums, [spans[0], *spans[2:]], strict=True):
                sums[name] += span
    finally:
        tables.close()
        journal.close()
    waiting = exchange.state.agents["worker"].mailbox.depth
    if waiting:
        sys.exit(f"{waiting} messages were not offered and confirmed")
    return found | {name: seconds / COUNT * 1e6 for name, seconds in sums.items()}


def main() -> None:
    parser = options("bench-budget", __doc__, rounds=ROUNDS)
    chosen = parser.parse_args()
    rounds: list[dict[str, float]] = []
    small: list[float] = []
    with (
        Run("bench-budget", chosen, rounds=ROUNDS) as run,
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder,
    ):
        for _ in range(run.rounds):
            gc.collect()
            rounds.append(measure(Path(folder), COUNT))
            gc.collect()
            small.append(measure(Path(folder), GROUP)["rows and tables"])
    best = {name: min(each[name] for each in rounds) for name in rounds[0]}
    before = {name: pair[run.form == "compiled"] for name, pair in BEFORE.items()}
    rows = [[LABELS[name], f"{before[name]:.1f}", f"{best[name]:.1f}"] for name in BEFORE]
    rows.append(["sum", f"{sum(before.values()):.1f}", f"{sum(best.values()):.1f}"])
    rows.append([f"rows and tables, {GROUP} messages at a time", "", f"{min(small):.1f}"])
    figures = {f"{name.replace(' ', '_')}_us": round(value, 2) for name, value in best.items()}
    figures["sum_us"] = round(sum(best.values()), 2)
    figures["rows_and_tables_small_us"] = round(min(small), 2)
    run.finish(table([f"µs per message, {run.form} form", "before", "now"], rows), figures)


if __name__ == "__main__":
    main()

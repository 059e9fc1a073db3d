"""A hub under load that expects to be killed: run as a process, it tells on its standard output what it has confirmed.

Each line is written after the reply that it tells of, so whatever the reader has seen is a promise that was made.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

import uvloop

from tests.envelopes import parsed
from tocsin.core.commands import (
    Acknowledge,
    Acknowledged,
    Caller,
    Confirm,
    Delivery,
    OpenSession,
    Receipt,
    RegisterAgent,
    Send,
)
from tocsin.core.errors import Problem
from tocsin.hub.hosting.host import Host
from tocsin.journal.base import Journal
from tocsin.policies import parse_policy

#: Small numbers, so that projections, checkpoints, segments and pruning are all under way when the end comes.
POLICY = """
bucket: {capacity: 1000000000, refill_per_s: 1000000000}
limits: {mailbox_depth_max: 1000000}
retention: {settled_max: 200, acknowledged_max: 200, batch: 50}
delivery: {window_default: 64, receipt_timeout_s: {push: 600, piggyback: 600, daemon: 600}}
storage:
  projection_interval_s: 0.02
  projection_events_max: 100
  checkpoint_bytes: 65536
  segment_age_s: 0.01
  journal_s: 0.2
  prune_interval_s: 0.05
  prune_batch: 20
contracts:
  TaskAssigned: {ack: required, timeout_s: 600, retries_max: 3, backoff_s: [1]}
"""
SENDERS = 8


def tell(text: str) -> None:
    os.write(1, text.encode() + b"\n")


async def consume(host: Host, name: str) -> None:
    """Acknowledge whatever comes, and tell of each acknowledgement that stands."""
    caller = Caller(name, "primary")
    inbox: asyncio.Queue[Delivery] = asyncio.Queue()
    await host.submit(OpenSession("push"), caller, inbox.put_nowait)
    while True:
        delivery = await inbox.get()
        tell(f"got {delivery.signal_id}")
        await host.submit(Confirm((delivery.signal_id,)), caller)
        reply = await host.submit(Acknowledge(delivery.signal_id, "processed"), caller)
        if isinstance(reply, Acknowledged):
            tell(f"acked {delivery.signal_id}")


async def produce(host: Host, name: str, run: int) -> None:
    """Send without end; every third message is to an agent that never reads."""
    caller, number = Caller(name, "primary"), 0
    while True:
        number += 1
        receiver = "hermit" if number % 3 == 0 else f"reader{number % 2}"
        message_id = f"msg_{run}_{name}_{number}"
        sent = parsed(
            message_id, name, receiver, messageType="TaskAssigned", priority=None, payload={"text": "x" * 200}
        )
        reply = await host.submit(Send(sent), caller)
        if isinstance(reply, Receipt):
            tell(f"sent {message_id}")
        elif isinstance(reply, Problem):
            await asyncio.sleep(0.001)


async def serve(journal: Journal, segments: Path, run: int) -> None:
    """Bring the project up and put it under load until the process is killed."""
    host = await Host.start(journal, parse_policy(POLICY), segments=segments)
    names = [f"sender{number}" for number in range(SENDERS)]
    for name in [*names, "reader0", "reader1", "hermit"]:
        await host.submit(RegisterAgent("Manager", ("1.1.0",)), Caller(name, "primary"))
    tell("ready")
    work = [produce(host, name, run) for name in names] + [consume(host, f"reader{n}") for n in range(2)]
    stopped = asyncio.create_task(host.stopped())
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            task.result()
    sys.exit(f"the host stopped: {host.reason}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["sqlite", "postgres"])
    parser.add_argument("where")
    parser.add_argument("segments", type=Path)
    parser.add_argument("run", type=int)
    options = parser.parse_args()
    if options.store == "sqlite":
        from tocsin.journal.sqlite import SqliteJournal

        journal: Journal = SqliteJournal(Path(options.where), "test", checkpoint_bytes=1 << 16)
    else:
        from tocsin.journal.postgres import PostgresJournal

        journal = PostgresJournal(options.where, "test", hub=f"victim {options.run}", wait_s=60)
    uvloop.run(serve(journal, options.segments, options.run))


if __name__ == "__main__":
    main()

"""Capacity benchmark: memory, decisions, heartbeats, opening a project and open sockets, for up to 100,000 agents.

*Agents*: a project with many registered agents, each with a session: memory per agent, cost of a send and of a
heartbeat, and time to open the project. *Sockets*: a hub with many WebSocket connections, one per agent, that only send
a heartbeat every `heartbeat_s`. Costs are processor time, which other load on the machine changes little; p50 and p99
are elapsed time, which it changes. docs/capacity.md explains how to plan with the figures.
"""

import asyncio
import gc
import json
import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
from websockets.asyncio.client import ClientConnection, connect

from bench.core import Ids
from bench.hub import POLICY, Hub
from bench.report import Run, options, percentile, rss_bytes, table
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.events import Event
from tocsin.core.policy import document_of
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.hub.config import load_config
from tocsin.ids import RandomIds
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.log import EventLog
from tocsin.journal.projection import batch_of
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import parse_policy

AGENTS = (1_000, 10_000, 100_000)
QUICK = (100,)
SOCKETS = (100, 1_000, 2_000)
SAMPLES = 5_000
_POLICY = parse_policy(POLICY.replace("{mailbox_depth_max", "{agents_max: 1000000, mailbox_depth_max"))
_START = 1_762_940_000_000_000
_CHECKPOINT_BYTES = _POLICY.storage.checkpoint_bytes


def name_of(number: int) -> str:
    return f"agent{number:06}"


def body_to(number: int, serial: int) -> bytes:
    """Return an envelope of about 600 bytes to an agent."""
    return json.dumps(
        {
            "version": "1.1.0",
            "messageId": f"msg_capacity_{serial}",
            "timestamp": "2025-11-12T10:00:00.000Z",
            "sender": {"agentId": name_of(0), "type": "Manager"},
            "receiver": {"agentId": name_of(number), "type": "Manager"},
            "messageType": "TaskAssigned",
            "priority": "Info",
            "payload": {"text": "x" * 320},
        }
    ).encode()


def measure_agents(task: tuple[int, str]) -> dict[str, float]:
    """Register agents with a session each, write them to a journal, and measure their commands."""
    agents, folder = task
    journal = SqliteJournal(Path(folder), "capacity", checkpoint_bytes=_CHECKPOINT_BYTES)
    tables, log = journal.tables(), EventLog(journal)
    exchange, now = ObservedExchange(Ids()), _START
    events: list[Event] = list(exchange.handle(cmd.AdoptPolicy(document_of(_POLICY), "bench"), SYSTEM, now).events)
    callers = [Caller(name_of(number), "primary") for number in range(agents)]
    gc.collect()
    before, sessions, spent = rss_bytes(), [], 0.0
    for caller in callers:
        now += 10
        began = time.process_time()
        registered = exchange.handle(cmd.RegisterAgent("Manager", ("1.1.0",)), caller, now)
        opened = exchange.handle(cmd.OpenSession("piggyback", 32), caller, now)
        spent += time.process_time() - began
        reply: Any = opened.reply
        sessions.append(reply.session)
        events += [*registered.events, *opened.events]
        if len(events) >= 2000:
            log.append(events)
            events = []
            tables.write(batch_of(exchange.capture()))
    gc.collect()
    per_agent = (rss_bytes() - before) / agents
    chosen = random.Random(1)
    sends, beats, cpu_s = [], [], [0.0, 0.0]
    for serial in range(SAMPLES):
        now += 10
        envelope = parse_envelope(body_to(chosen.randrange(agents), serial), 1 << 20)
        used, began = time.process_time(), time.perf_counter()
        outcome = exchange.handle(cmd.Send(envelope), callers[0], now)
        sends.append(time.perf_counter() - began)
        cpu_s[0] += time.process_time() - used
        events += outcome.events
        number = chosen.randrange(agents)
        used, began = time.process_time(), time.perf_counter()
        outcome = exchange.handle(cmd.Heartbeat(sessions[number]), callers[number], now)
        beats.append(time.perf_counter() - began)
        cpu_s[1] += time.process_time() - used
        events += outcome.events
    log.append(events)
    tables.write(batch_of(exchange.capture()))
    tables.close()
    journal.close()
    return {
        "bytes_per_agent": per_agent,
        "register_cpu_us": spent / agents * 1e6,
        "send_cpu_us": cpu_s[0] / SAMPLES * 1e6,
        "send_p50_us": percentile(sends, 50) * 1e6,
        "send_p99_us": percentile(sends, 99) * 1e6,
        "heartbeat_cpu_us": cpu_s[1] / SAMPLES * 1e6,
        "heartbeat_p50_us": percentile(beats, 50) * 1e6,
        "heartbeat_p99_us": percentile(beats, 99) * 1e6,
    }


def measure_opening(task: tuple[int, str]) -> dict[str, float]:
    """Measure opening an existing project, as a hub does."""
    agents, folder = task
    used, began = time.process_time(), time.perf_counter()
    journal = SqliteJournal(Path(folder), "capacity", checkpoint_bytes=_CHECKPOINT_BYTES)
    tables = journal.tables()
    exchange = reopen(journal, tables, RandomIds())
    opened_s, opened_cpu_s = time.perf_counter() - began, time.process_time() - used
    if len(exchange.state.agents) != agents:
        sys.exit(f"{len(exchange.state.agents)} agents of {agents} were restored")
    found = {"open_cpu_s": opened_cpu_s, "open_s": opened_s, "rss_mib": rss_bytes() / 2**20}
    tables.close()
    journal.close()
    return found


class Crowd:
    """Many idle WebSocket connections, one per agent."""

    def __init__(self) -> None:
        self._lines: list[ClientConnection] = []

    async def join(self, hub: Hub, numbers: range) -> None:
        """Open more connections."""
        tokens = [await asyncio.to_thread(hub.token, name_of(number)) for number in numbers]
        for begin in range(0, len(tokens), 50):
            self._lines += await asyncio.gather(*(self._connect(hub, token) for token in tokens[begin : begin + 50]))

    async def keep_alive(self, seconds: float) -> list[float]:
        """Send one heartbeat per connection, evenly over a time; return the response times."""
        waits, start = [], time.perf_counter()
        for number, line in enumerate(self._lines):
            await asyncio.sleep(max(0.0, start + seconds * number / len(self._lines) - time.perf_counter()))
            began = time.perf_counter()
            await line.send('[{"op":"ping","id":2}]')
            await line.recv()
            waits.append(time.perf_counter() - began)
        return waits

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(line.close() for line in self._lines))

    @staticmethod
    async def _connect(hub: Hub, token: str) -> ClientConnection:
        line = await connect(
            hub.url.replace("http", "ws") + "/v1/socket",
            subprotocols=["tocsin.v1"],  # type: ignore[list-item]
            additional_headers={"Authorization": f"Bearer {token}"},
            compression=None,
            open_timeout=60,
        )
        await line.send('[{"op":"hello","id":1,"window":32,"type":"Manager"}]')
        await line.recv()
        return line


async def measure_sockets(counts: list[int], folder: Path, heartbeat_s: float) -> dict[int, dict[str, float]]:
    """Open more and more connections to one hub, and measure their cost."""
    hub = await asyncio.to_thread(Hub, folder / "hub")
    crowd, found, open_now = Crowd(), {}, 0
    empty = hub_rss_bytes(hub)
    try:
        for count in counts:
            began = time.perf_counter()
            await crowd.join(hub, range(open_now, count))
            joined_s, open_now = time.perf_counter() - began, count
            cpu, began = hub.cpu_s(), time.perf_counter()
            waits = await crowd.keep_alive(heartbeat_s)
            busy = (hub.cpu_s() - cpu) / (time.perf_counter() - began)
            found[count] = {
                "kib_per_socket": (hub_rss_bytes(hub) - empty) / count / 1024,
                "idle_cpu_percent": busy * 100,
                "ping_p50_ms": percentile(waits, 50) * 1e3,
                "ping_p99_ms": percentile(waits, 99) * 1e3,
                "join_s": joined_s,
            }
    finally:
        await crowd.close()
        await asyncio.to_thread(hub.close)
    return found


def hub_rss_bytes(hub: Hub) -> int:
    """Return the resident memory of a hub's process."""
    for line in Path(f"/proc/{hub.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the memory of the hub's process cannot be read")


def _apart(measure: Any, task: tuple[int, str]) -> dict[str, float]:
    """Run a measurement in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: dict[str, float] = pool.apply(measure, (task,))
        return found


def main() -> None:
    """Measure everything once and print the results."""
    parser = options("bench-capacity", __doc__, rounds=1)
    parser.add_argument("--agents", type=int, nargs="*", default=None)
    parser.add_argument("--sockets", type=int, nargs="*", default=None)
    chosen = parser.parse_args()
    agents: dict[int, dict[str, float]] = {}
    agent_counts = [*(QUICK if chosen.quick else AGENTS)] if chosen.agents is None else chosen.agents
    socket_counts = [*(QUICK if chosen.quick else SOCKETS)] if chosen.sockets is None else chosen.sockets
    with (
        Run("bench-capacity", chosen, rounds=1, rounds_min=1) as run,
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder,
    ):
        for count in agent_counts:
            print(f"{count:,} agents …", file=sys.stderr)
            task = (count, f"{folder}/{count}")
            agents[count] = {**_apart(measure_agents, task), **_apart(measure_opening, task)}
        print(f"{socket_counts} sockets …", file=sys.stderr)
        heartbeat_s, counts = load_config().socket.heartbeat_s, sorted(socket_counts)
        sockets = uvloop.run(measure_sockets(counts, Path(folder), heartbeat_s)) if counts else {}
    figures: dict[str, Any] = {"heartbeat_s": heartbeat_s}
    tables = []
    for title, found in (("agents", agents), ("sockets", sockets)):
        if found:
            names = [*next(iter(found.values()))]
            rows = [[name, *(f"{each[name]:,.1f}" for each in found.values())] for name in names]
            tables.append(f"by number of {title}\n" + table(["figure", *map("{:,}".format, found)], rows))
            figures |= {f"{name}_{count}_{title}": round(found[count][name], 2) for count in found for name in names}
    run.finish("\n\n".join(tables), figures)


if __name__ == "__main__":
    main()

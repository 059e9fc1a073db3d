"""Benchmark of many projects behind one address: idle projects, first calls, workers, noisy neighbours, handovers.

- Idle projects: the memory of a hub process with and without closed projects, and the time of the first call that opens
  one, through HTTP.
- Workers: the same load over two projects with one and with two worker processes. The load generator runs on the same
  machine; its share of the processors is printed. Where it takes what the second worker would need, messages per second
  say nothing about the workers, and only the processor time per message does.
- Neighbours: sends of a quiet project, alone and beside a saturated one in the same worker.
- Handovers: a rolling restart of two hubs that share the projects of one PostgreSQL, under load (`bench.handover`).
"""

import asyncio
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from bench.handover import handovers
from bench.hub import POLICY
from bench.report import Aim, Run, median_of, options, percentile, table
from tocsin.cli.remote import Remote, Unreachable
from tocsin.client import Agent
from tocsin.fleet.worker import Share

ROUNDS = 5
IDLE, IDLE_QUICK = 1000, 50
SECONDS, SECONDS_QUICK = 6.0, 1.0
SENDERS = 32
AIMS = (
    Aim("idle_1000_mib", "<=", 512, "memory of a hub with 1,000 idle projects, MiB"),
    Aim("first_call_ms", "<=", 150, "first call of a closed project, milliseconds"),
    Aim("workers_2_over_1", ">=", 1.0, "messages per second with two workers, over one"),
    Aim("workers_2_over_1_cpu", "<=", 1.2, "processor time per message with two workers, over one"),
    Aim("lost", "<=", 0, "messages lost in a rolling restart under load"),
    Aim("failed_calls", "<=", 0, "calls that failed in a rolling restart, after the SDK's own reconnection"),
    Aim("neighbour_p99_ratio", "<=", 3, "p99 of a quiet project beside a saturated one, over its own alone"),
)
_TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A hub process with its workers."""

    def __init__(self, data: Path, workers: int) -> None:
        self.data = data
        self._process = subprocess.Popen(  # noqa: S603
            [
                *(sys.executable, "-m", "tocsin", "serve", "--data", str(data), "--port", "0"),
                *("--workers", str(workers), "--log-level", "error"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        output = self._process.stdout
        while output is not None and " at http://" not in (line := output.readline()):
            if not line:
                raise RuntimeError("the hub did not start")
        self.url = line.split(" at ")[1].split()[0]
        self.admin = Remote(self.url, (data / "admin.token").read_text().strip())
        self._wait()

    def _wait(self) -> None:
        for _ in range(200):
            try:
                self.admin.ask("get_status")
                return
            except Unreachable:
                time.sleep(0.05)
        raise RuntimeError("the hub does not answer")

    @property
    def processes(self) -> list[int]:
        """Return the processes that serve."""
        pid = self._process.pid
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return children or [pid]

    def memory_kib(self) -> int:
        """Return the resident memory of the processes that serve."""
        return sum(_memory_kib(pid) for pid in self.processes)

    def cpu_s(self) -> float:
        """Return the processor time of the processes that serve."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.processes]
        return sum(int(one[11]) + int(one[12]) for one in fields) / _TICKS

    def add(self, project: str) -> str:
        """Add a project with an agent, and return the agent's token."""
        token = self.admin.ask("add_project", {"project": project}).token
        remote = Remote(self.url, token)
        remote.ask("adopt_policy", {"policy": yaml.safe_load(POLICY), "reason": "bench"})
        issued = remote.ask("issue_token", {"agent": "ada", "role": "primary", "type": "AdHoc"})
        return str(issued.token)

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()


def _memory_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


def idle(root: Path, projects: int, calls: int) -> dict[str, float]:
    """Measure closed projects: memory, and first calls."""
    data = root / "idle"
    data.mkdir()
    (data / "server.yaml").write_text("projects: {quiet_s: 2}\n", encoding="utf-8")
    served = Served(data, 1)
    for number in range(projects):
        served.admin.ask("add_project", {"project": f"p{number}"})
    served.close()
    shutil.move(data / "projects", root / "aside")
    served = Served(data, 1)
    before = served.memory_kib()
    served.close()
    shutil.move(root / "aside", data / "projects")
    served = Served(data, 1)
    try:
        _settle(served)
        memory = served.memory_kib()
        took: list[float] = []
        for number in range(calls):
            remote = Remote(served.url, served.admin.token, headers={"Tocsin-Project": f"p{number}"})
            started = time.perf_counter()
            remote.ask("get_status")
            took.append((time.perf_counter() - started) * 1000)
    finally:
        served.close()
    return {
        "idle_project_kib": (memory - before) / projects,
        "idle_1000_mib": (before + (memory - before) / projects * 1000) / 1024,
        "first_call_ms": percentile(took, 50),
        "first_call_ms_p99": percentile(took, 99),
    }


def _settle(served: Served) -> None:
    """Wait until the projects that were opened to look at their timers are closed."""
    while any(one.state == "open" and not one.home for one in served.admin.list("list_projects")):
        time.sleep(0.5)


def _load(url: str, token: str, seconds: float, senders: int, results: Any) -> None:
    """Send to oneself with several senders that each wait for their confirmation; report count, times and CPU."""

    async def run() -> None:
        took: list[float] = []
        payload = {"text": "x" * 560}
        async with Agent.connect(url, token=token) as agent:

            async def consume() -> None:
                async for _ in agent.inbox():
                    pass

            async def send(until: float) -> None:
                while (started := time.perf_counter()) < until:
                    await agent.send(to="ada", type="CUSTOM_LOAD", payload=payload)
                    took.append(time.perf_counter() - started)

            consuming = asyncio.create_task(consume())
            until = time.perf_counter() + seconds
            await asyncio.gather(*(send(until) for _ in range(senders)))
            consuming.cancel()
        results.put((len(took), percentile(took, 50) * 1000, percentile(took, 99) * 1000, time.process_time()))

    asyncio.run(run())


def load(url: str, rows: list[tuple[str, float, int]]) -> list[tuple[int, float, float, float]]:
    """Run load generators at the same time, each a process; return their results in order."""
    context = multiprocessing.get_context("spawn")
    queues = [context.Queue() for _ in rows]
    processes = [
        context.Process(target=_load, args=(url, *row, queue)) for row, queue in zip(rows, queues, strict=True)
    ]
    for process in processes:
        process.start()
    found = [queue.get(timeout=60 + 10 * row[1]) for queue, row in zip(queues, rows, strict=True)]
    for process in processes:
        process.join()
    return found


def workers(root: Path, count: int, seconds: float) -> dict[str, float]:
    """Measure the same load over two projects with a number of workers."""
    share = Share(0, 2, "default")
    names = {share.worker_of(name): name for name in ("a", "b", "c", "d", "e", "f", "g", "h")}
    served = Served(root / f"workers-{count}-{time.monotonic_ns()}", count)
    try:
        tokens = [served.add(name) for name in names.values()]
        before, started = served.cpu_s(), time.perf_counter()
        found = load(served.url, [(token, seconds, SENDERS) for token in tokens])
        elapsed = time.perf_counter() - started
        messages = sum(one[0] for one in found)
        cpu = served.cpu_s() - before
        return {
            f"messages_per_s_{count}": messages / seconds,
            f"hub_us_per_message_{count}": cpu / messages * 1e6,
            f"load_share_{count}": sum(one[3] for one in found) / (elapsed * len(os.sched_getaffinity(0))),
        }
    finally:
        served.close()


def neighbours(root: Path, seconds: float) -> dict[str, float]:
    """Measure a quiet project alone, and beside a saturated one in the same worker."""
    served = Served(root / f"neighbours-{time.monotonic_ns()}", 1)
    try:
        quiet, loud = served.add("quiet"), served.add("loud")
        (alone,) = load(served.url, [(quiet, seconds, 1)])
        beside, _ = load(served.url, [(quiet, seconds, 1), (loud, seconds * 1.5, SENDERS)])
        return {
            "quiet_alone_p99_ms": alone[2],
            "quiet_beside_p99_ms": beside[2],
            "neighbour_p99_ratio": beside[2] / alone[2],
        }
    finally:
        served.close()


def main() -> None:
    parser = options("bench-fleet", __doc__, rounds=ROUNDS)
    chosen = parser.parse_args()
    seconds = SECONDS_QUICK if chosen.quick else SECONDS
    rounds: list[dict[str, float]] = []
    with Run("bench-fleet", chosen, rounds=ROUNDS) as run, tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        root = Path(name)
        still = idle(root, IDLE_QUICK if chosen.quick else IDLE, 10 if chosen.quick else 50)
        still |= handovers(root, 1 if chosen.quick else ROUNDS)
        for _ in range(run.rounds):
            one = workers(root, 1, seconds) | workers(root, 2, seconds) | neighbours(root, seconds)
            one["workers_2_over_1"] = one["messages_per_s_2"] / one["messages_per_s_1"]
            one["workers_2_over_1_cpu"] = one["hub_us_per_message_2"] / one["hub_us_per_message_1"]
            rounds.append(one)
    figures = still | median_of(rounds)
    labels = {
        "idle_project_kib": "memory per closed project, KiB",
        "idle_1000_mib": "memory of a hub with 1,000 closed projects, MiB",
        "first_call_ms": "first call of a closed project, p50, ms",
        "first_call_ms_p99": "first call of a closed project, p99, ms",
        "messages_per_s_1": "two projects, one worker, messages/s",
        "messages_per_s_2": "two projects, two workers, messages/s",
        "workers_2_over_1": "two workers over one, messages/s",
        "hub_us_per_message_1": "processor time of one worker per message, µs",
        "hub_us_per_message_2": "processor time of two workers per message, µs",
        "workers_2_over_1_cpu": "two workers over one, processor time per message",
        "load_share_1": "share of the load generator in the processors, one worker",
        "load_share_2": "share of the load generator in the processors, two workers",
        "quiet_alone_p99_ms": "a quiet project alone, p99 of a send, ms",
        "quiet_beside_p99_ms": "beside a saturated one, p99 of a send, ms",
        "neighbour_p99_ratio": "ratio of the two",
        "handover_ms_p50": "pause of a project that moves to another hub under load, p50, ms",
        "handover_ms_p99": "pause of a project that moves to another hub under load, p99, ms",
        "handovers": "handovers in that rolling restart",
        "handover_messages": "messages confirmed in that rolling restart",
        "lost": "of these lost",
        "failed_calls": "calls that failed",
    }
    text = table(["", "figure"], [[label, f"{figures[key]:,.2f}"] for key, label in labels.items()])
    run.finish(text, {key: round(figures[key], 3) for key in labels}, AIMS)


if __name__ == "__main__":
    main()

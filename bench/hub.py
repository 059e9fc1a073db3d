"""Benchmark of the hub's gateways: `tocsin serve` on loopback, fsync before every reply, a real client of each kind.

The hub is one process and the load another, so that on two cores they do not compete. A send is confirmed when its
receipt arrived, and is then durable. End to end is the time from sending until the recipient's connection has the
message: pushed over WebSocket, requested right after the send's reply over HTTP and MCP. Rounds are interleaved and
figures are medians over them, because other load on the machine varies. The last row measures a Critical message while
a hundred connections send Info as fast as the hub accepts it; its sender and recipient are a separate process.

The floor is a bare file with one `fdatasync` per group, in each round: with 64 senders for throughput and for the time
of a commit, with one sender for the time of a send. Its messages are delivered and acknowledged in memory; it is
compared with the row of the hub whose messages are delivered and confirmed too.
"""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench import stations, wake
from bench.report import Aim, Run, median_of, options, table

#: Policy without rate limits and expiry, so that only the gateways are measured.
POLICY = """
limits: {mailbox_depth_max: 10000000, mailbox_bytes_max: 1000000000000,
  sender_bytes_max: 1000000000000, project_bytes_max: 1000000000000}
bucket: {capacity: 1000000000000, refill_per_s: 1000000000}
quotas: {critical: {cap: 1000000, refill_per_s: 100000}, blocking: {cap: 1000000, refill_per_s: 100000}}
gaming: {high_priority_ratio: 1.0, messages_min: 5, samples_max: 100}
"""
CONNECTIONS = 100
BATCH = 32
#: Time before measuring under load, seconds.
RING_AFTER_S = 1.5
ROUNDS = 5
SECONDS = 4.0
QUICK_SECONDS = 0.5
#: Messages of the floor, by the number of its senders.
FLOOR_MESSAGES = {64: 20_000, 1: 500}

#: Measurements by name, with the task of the load.
ROWS: dict[str, dict[str, Any]] = {
    "floor_64": {"kind": "floor", "connections": 64},
    "floor_1": {"kind": "floor", "connections": 1},
    "ws_single": {"kind": "ws", "connections": 1, "batch": 1, "deliver": True},
    "ws_single_batched": {"kind": "ws", "connections": 1, "batch": BATCH, "window": 4},
    "ws_single_batched_delivered": {"kind": "ws", "connections": 1, "batch": BATCH, "deliver": True},
    "ws_100": {"kind": "ws", "connections": CONNECTIONS, "batch": 1},
    "ws_100_delivered": {"kind": "ws", "connections": CONNECTIONS, "batch": 1, "deliver": True},
    "ws_batched": {"kind": "ws", "connections": CONNECTIONS, "batch": BATCH},
    "ws_batched_delivered": {"kind": "ws", "connections": CONNECTIONS, "batch": BATCH, "deliver": True},
    "http_send": {"kind": "http", "connections": 1},
    "http_delivered": {"kind": "http", "connections": 1, "deliver": True},
    "http_16": {"kind": "http", "connections": 16},
    "mcp_send": {"kind": "mcp", "connections": 1},
    "mcp_delivered": {"kind": "mcp", "connections": 1, "deliver": True},
    "critical_saturated": {"kind": "critical", "connections": CONNECTIONS, "batch": BATCH},
    "wake_start": {"kind": "wake", "connections": wake.MESSAGES, "deliver": True},
    "channel_notify": {"kind": "channel", "connections": 1, "deliver": True},
}
LABELS = {
    "floor_64": "floor: bare file, fdatasync, 64 senders",
    "floor_1": "floor: bare file, fdatasync, 1 sender",
    "ws_single": "WebSocket, 1 connection, one at a time",
    "ws_single_batched": f"WebSocket, 1 connection, batches of {BATCH}",
    "ws_single_batched_delivered": f"WebSocket, 1 connection, batches of {BATCH}, delivered",
    "ws_100": f"WebSocket, {CONNECTIONS} connections, one at a time",
    "ws_100_delivered": f"WebSocket, {CONNECTIONS} connections, one at a time, delivered",
    "ws_batched": f"WebSocket, {CONNECTIONS} connections, batches of {BATCH}",
    "ws_batched_delivered": f"WebSocket, {CONNECTIONS} connections, batches of {BATCH}, delivered",
    "http_send": "HTTP, 1 connection",
    "http_delivered": "HTTP, 1 connection, requested by its recipient",
    "http_16": "HTTP, 16 connections",
    "mcp_send": "MCP, 1 client",
    "mcp_delivered": "MCP, 1 client, fetched by its recipient",
    "critical_saturated": f"Critical, with {CONNECTIONS} connections sending Info",
    "wake_start": "wake: from a send to the start of the waker",
    "channel_notify": "channel: from a send to the notification",
}
#: Rows that are measured by default: those that the aims need, and one sender over WebSocket.
USUAL = (
    *("floor_64", "floor_1", "ws_single", "ws_100_delivered", "ws_batched", "ws_batched_delivered", "http_send"),
    *("mcp_send", "critical_saturated", "wake_start", "channel_notify"),
)
AIMS = (
    Aim("ws_batched_over_floor", ">=", 0.8, "delivered messages over WebSocket, batched, over the floor's"),
    Aim("critical_p99_over_commit_p99", "<=", 3, "a Critical message under load, over a commit of the floor"),
    Aim(
        "critical_p99_ms_saturated",
        "<",
        10,
        "in milliseconds; applies where `floor_commit_p99_ms` is under 2",
        where=("floor_commit_p99_ms", 2.0),
    ),
    Aim("http_send_p50_over_floor", "<=", 2.5, "one HTTP client, p50 of a send, over the floor's"),
    Aim("mcp_send_p50_over_floor", "<=", 5, "one MCP client, p50 of a send, over the floor's"),
    Aim("wake_start_ms_p50", "<", 100, "from a send to the start of a waker, `wake.after_s: 0`, milliseconds"),
    Aim("channel_notify_ms_p50", "<", 10, "from a send to the notification of an idle agent, milliseconds"),
)


class Hub:
    """A hub process, with an agent for every connection."""

    def __init__(self, data: Path, policy: str = POLICY, server: str = "", *, stations: Path | None = None) -> None:
        self.data = data
        data.mkdir(parents=True)
        (data / "server.yaml").write_text(server, encoding="utf-8")
        (data / "tocsin.yaml").write_text(policy, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            *(["tocsin"] if stations is None else ["bench.stations", str(stations)]),
            "serve",
            "--data",
            str(data),
            "--port",
            "0",
            "--log-level",
            "warning",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        if self._process.stdout is None:
            raise RuntimeError("the hub has no standard output")
        line = self._process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            sys.exit(f"the hub did not start: {line}")
        self.url = found[0]
        self._admin = (data / "admin.token").read_text(encoding="utf-8").strip()
        self.pid = self._process.pid

    def token(self, agent: str) -> str:
        """Issue a token for an agent."""
        body = json.dumps({"agent": agent, "role": "primary", "type": "Manager"}).encode()
        headers = {"Authorization": f"Bearer {self._admin}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/v1/admin/tokens", body, headers)  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return str(json.loads(answer.read())["token"])

    def cpu_s(self) -> float:
        """Return the processor time of the hub in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Stop the hub with SIGTERM."""
        self._process.terminate()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._process.wait(60):
            sys.exit(f"the hub ended with {self._process.returncode}")


class Load:
    """A process that creates load and measures."""

    def __init__(self, task: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "bench.load"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)  # noqa: S603
        self._task = task
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(task))
            self._process.stdin.close()
            self._process.stdin = None

    def figures(self) -> dict[str, Any]:
        """Wait for its results."""
        output, trouble = self._process.communicate()
        if self._process.returncode:
            sys.exit(f"the load failed:\n{trouble}")
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
        return found


def _under_load(task: dict[str, Any]) -> dict[str, Any]:
    """Measure Critical messages from a separate process, so that the load's own delays are not included."""
    flood = Load({**task, "kind": "ws", "deliver": True, "seconds": task["seconds"] + RING_AFTER_S})
    time.sleep(RING_AFTER_S)
    urgent = Load({**task, "kind": "ring"}).figures()
    calm = flood.figures()
    return {**urgent, "per_s": calm["per_s"], "messages": calm["messages"]}


def measure(
    row: dict[str, Any], root: Path, seconds: float, steps: list[dict[str, float]] | None = None
) -> dict[str, float]:
    """Run one measurement against a new hub, or one of the floor; those of Critical messages are added to `steps`."""
    if row["kind"] == "floor":
        return Load({**row, "folder": str(root)}).figures()
    wakes = row["kind"] in ("wake", "channel")
    data = root / secrets.token_hex(4)
    traced = data / "stations.json" if row["kind"] == "critical" else None
    hub = Hub(data, POLICY + wake.POLICY, wake.SERVER) if wakes else Hub(data, stations=traced)
    sent: dict[str, list[float]] = {}
    try:
        agents = row["connections"] + (2 if row["kind"] == "critical" else 1)
        tokens = [hub.token(f"agent{number}") for number in range(agents)]
        task = {**row, "url": hub.url, "tokens": tokens, "seconds": seconds}
        before = hub.cpu_s()
        if wakes:
            (data / "tokens").mkdir(exist_ok=True)
            (data / "tokens" / "bench.token").write_text(tokens[0], encoding="ascii")
            woken = wake.measure(row["kind"], hub.url, data, tokens)
            return woken | {"hub_cpu_us": (hub.cpu_s() - before) / woken["messages"] * 1e6}
        found = _under_load(task) if row["kind"] == "critical" else Load(task).figures()
        found["hub_cpu_us"] = (hub.cpu_s() - before) / max(1.0, found["messages"]) * 1e6
        sent = found.pop("stamps", sent)
        return found
    finally:
        hub.close()
        if traced is not None and steps is not None:
            steps += stations.steps_of(sent, json.loads(traced.read_text(encoding="ascii")))


def main() -> None:
    parser = options("bench-hub", __doc__, rounds=ROUNDS)
    parser.add_argument("--seconds", type=float, default=None, help=f"seconds of each measurement ({SECONDS:g})")
    parser.add_argument("--only", nargs="*", choices=[*ROWS], default=[*USUAL], help=f"rows (default: {USUAL})")
    parser.add_argument("--all", action="store_true", help="all rows")
    parser.add_argument(
        "--connections", type=int, default=CONNECTIONS, help="number of connections in the rows with many"
    )
    chosen = parser.parse_args()
    names = [*ROWS] if chosen.all else chosen.only
    seconds = chosen.seconds or (QUICK_SECONDS if chosen.quick else SECONDS)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    steps: list[dict[str, float]] = []
    with (
        Run("bench-hub", chosen, rounds=ROUNDS) as run,
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as root,
    ):
        for number in range(run.rounds):
            for name in names:
                print(f"round {number + 1} of {run.rounds}: {name}", file=sys.stderr)
                rounds[name].append(measure(_row(name, chosen.connections, run.quick), Path(root), seconds, steps))
    found = {name: median_of(measured) for name, measured in rounds.items()}
    head = ["", "confirmed/s", "send p50 ms", "send p99 ms", "end to end p50", "p99 ms", "hub µs each"]
    text = table(head, [[LABELS[name], *_cells(figures)] for name, figures in found.items()])
    if floor := found.get("floor_64"):
        text += f"\n\ncommit of the floor: p50 {floor['commit_p50_ms']:.2f} ms, p99 {floor['commit_p99_ms']:.2f}"
    if urgent := found.get("critical_saturated"):
        late = f"{urgent['late_p50_ms']:.2f} ms late (p99 {urgent['late_p99_ms']:.2f})"
        text += f"\nscheduling delay of the process that sends Critical messages: {late}"
        text += f"\n\n{stations.breakdown(steps)}"
    run.finish(text, figures_of(found), AIMS)


def _row(name: str, connections: int, quick: bool) -> dict[str, Any]:
    """Return the task of a row, with no more connections than are asked for."""
    row = ROWS[name]
    if row["kind"] == "floor":
        messages = FLOOR_MESSAGES[row["connections"]]
        return {**row, "messages": messages // 10 if quick else messages}
    return {**row, "connections": min(row["connections"], connections)}


def _cells(figures: dict[str, float]) -> list[str]:
    latencies = [
        f"{figures[name]:.2f}" if figures.get(name) else ""
        for name in ("send_p50_ms", "send_p99_ms", "end_p50_ms", "end_p99_ms")
    ]
    return [f"{figures['per_s']:,.0f}", *latencies, f"{figures['hub_cpu_us']:.0f}"]


def figures_of(found: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the figures for the last line; a ratio is that of the medians."""
    wanted = {
        "ws_batched_per_s": ("ws_batched", "per_s"),
        "ws_batched_delivered_per_s": ("ws_batched_delivered", "per_s"),
        "ws_100_per_s": ("ws_100", "per_s"),
        "ws_single_batched_per_s": ("ws_single_batched", "per_s"),
        "ws_single_p50_ms": ("ws_single", "send_p50_ms"),
        "ws_single_end_p50_ms": ("ws_single", "end_p50_ms"),
        "http_send_p50_ms": ("http_send", "send_p50_ms"),
        "http_end_p50_ms": ("http_delivered", "end_p50_ms"),
        "http_16_per_s": ("http_16", "per_s"),
        "mcp_send_p50_ms": ("mcp_send", "send_p50_ms"),
        "mcp_end_p50_ms": ("mcp_delivered", "end_p50_ms"),
        "critical_p50_ms_saturated": ("critical_saturated", "end_p50_ms"),
        "critical_p99_ms_saturated": ("critical_saturated", "end_p99_ms"),
        "info_per_s_saturated": ("critical_saturated", "per_s"),
        "woken_late_p99_ms_saturated": ("critical_saturated", "late_p99_ms"),
        "wake_start_ms_p50": ("wake_start", "end_p50_ms"),
        "channel_notify_ms_p50": ("channel_notify", "end_p50_ms"),
        "floor_64_per_s": ("floor_64", "per_s"),
        "floor_commit_p50_ms": ("floor_64", "commit_p50_ms"),
        "floor_commit_p99_ms": ("floor_64", "commit_p99_ms"),
        "floor_1_p50_ms": ("floor_1", "send_p50_ms"),
    }
    said = {name: round(found[row][key], 3) for name, (row, key) in wanted.items() if row in found}
    ratios = {
        "ws_batched_over_floor": (("ws_batched_delivered", "per_s"), ("floor_64", "per_s")),
        "ws_batched_confirmed_over_floor": (("ws_batched", "per_s"), ("floor_64", "per_s")),
        "ws_single_p50_over_floor": (("ws_single", "send_p50_ms"), ("floor_1", "send_p50_ms")),
        "http_send_p50_over_floor": (("http_send", "send_p50_ms"), ("floor_1", "send_p50_ms")),
        "mcp_send_p50_over_floor": (("mcp_send", "send_p50_ms"), ("floor_1", "send_p50_ms")),
        "critical_p99_over_commit_p99": (("critical_saturated", "end_p99_ms"), ("floor_64", "commit_p99_ms")),
    }
    for name, ((row, key), (floor, floor_key)) in ratios.items():
        if row in found and floor in found:
            said[name] = round(found[row][key] / found[floor][floor_key], 3)
    return said


if __name__ == "__main__":
    main()

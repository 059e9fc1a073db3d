"""Benchmark of the hub's gateways: `tocsin serve` on loopback, fsync before every reply, a real client of each kind.

The hub is one process and the load another, so that on two cores they do not compete. A send is confirmed when its
receipt arrived, and is then durable. End to end is the time from sending until the recipient's connection has the
message: pushed over WebSocket, requested right after the send's reply over HTTP and MCP. Rounds are interleaved and
figures are medians over them, because other load on the machine varies. The last row measures a Critical message while
a hundred connections send Info as fast as the hub accepts it; its sender and recipient are a separate process.
"""

import argparse
import json
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench.report import form, table

#: Policy without rate limits and expiry, so that only the gateways are measured.
POLICY = """
limits: {mailbox_depth_max: 10000000}
bucket: {capacity: 1000000000000, refill_per_s: 1000000000}
quotas: {critical: {cap: 1000000, refill_per_s: 100000}, blocking: {cap: 1000000, refill_per_s: 100000}}
gaming: {high_priority_ratio: 1.0, messages_min: 5, samples_max: 100}
"""
CONNECTIONS = 100
BATCH = 32
#: Time before measuring under load, seconds.
RING_AFTER_S = 1.5

#: Measurements by name, with the task of the load.
ROWS: dict[str, dict[str, Any]] = {
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
}
LABELS = {
    "ws_single": "WebSocket, 1 connection, one at a time",
    "ws_single_batched": f"WebSocket, 1 connection, batches of {BATCH}",
    "ws_single_batched_delivered": "  … one batch at a time, pushed to its recipient",
    "ws_100": f"WebSocket, {CONNECTIONS} connections, one at a time",
    "ws_100_delivered": "  … and pushed to their recipients",
    "ws_batched": f"WebSocket, {CONNECTIONS} connections, batches of {BATCH}",
    "ws_batched_delivered": "  … and pushed to their recipients",
    "http_send": "HTTP, 1 connection",
    "http_delivered": "  … and asked for by its recipient",
    "http_16": "HTTP, 16 connections",
    "mcp_send": "MCP, 1 client",
    "mcp_delivered": "  … and fetched by its recipient",
    "critical_saturated": f"Critical, with {CONNECTIONS} connections sending Info",
}


class Hub:
    """A hub process, with an agent for every connection."""

    def __init__(self, data: Path, policy: str = POLICY) -> None:
        self.data = data
        data.mkdir(parents=True)
        (data / "tocsin.yaml").write_text(policy, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "tocsin",
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

    def figures(self) -> dict[str, float]:
        """Wait for its results."""
        output, trouble = self._process.communicate()
        if self._process.returncode:
            sys.exit(f"the load failed:\n{trouble}")
        found: dict[str, float] = json.loads(output.splitlines()[-1])
        return found


def _under_load(task: dict[str, Any]) -> dict[str, float]:
    """Measure Critical messages from a separate process, so that the load's own delays are not included."""
    flood = Load({**task, "kind": "ws", "deliver": True, "seconds": task["seconds"] + RING_AFTER_S})
    time.sleep(RING_AFTER_S)
    urgent = Load({**task, "kind": "ring"}).figures()
    calm = flood.figures()
    return {**urgent, "per_s": calm["per_s"], "messages": calm["messages"]}


def measure(row: dict[str, Any], root: Path, seconds: float) -> dict[str, float]:
    """Run one measurement against a new hub."""
    hub = Hub(root / secrets.token_hex(4))
    try:
        agents = row["connections"] + (2 if row["kind"] == "critical" else 1)
        tokens = [hub.token(f"agent{number}") for number in range(agents)]
        task = {**row, "url": hub.url, "tokens": tokens, "seconds": seconds}
        before = hub.cpu_s()
        found = _under_load(task) if row["kind"] == "critical" else Load(task).figures()
        found["hub_cpu_us"] = (hub.cpu_s() - before) / max(1.0, found["messages"]) * 1e6
        return found
    finally:
        hub.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-hub", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", choices=[*ROWS], default=[*ROWS])
    parser.add_argument(
        "--connections", type=int, default=CONNECTIONS, help="number of connections in the rows with many"
    )
    chosen = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in chosen.only}
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as root:
        for number in range(chosen.rounds):
            for name in chosen.only:
                print(f"round {number + 1} of {chosen.rounds}: {name}", file=sys.stderr)
                row = {**ROWS[name], "connections": min(ROWS[name]["connections"], chosen.connections)}
                rounds[name].append(measure(row, Path(root), chosen.seconds))
    found = {
        name: {key: statistics.median(each[key] for each in measured) for key in measured[0]}
        for name, measured in rounds.items()
    }
    head = ["", "confirmed/s", "send p50 ms", "send p99 ms", "end to end p50", "p99 ms", "hub µs each"]
    print(table(head, [[LABELS[name], *_cells(figures)] for name, figures in found.items()]))
    if urgent := found.get("critical_saturated"):
        late = f"{urgent['late_p50_ms']:.2f} ms late (p99 {urgent['late_p99_ms']:.2f})"
        print(f"\nscheduling delay of the process that sends Critical messages: {late}")
    print(json.dumps({"form": form(), **_figures(found)}))


def _cells(figures: dict[str, float]) -> list[str]:
    latencies = [
        f"{figures[name]:.2f}" if figures.get(name) else ""
        for name in ("send_p50_ms", "send_p99_ms", "end_p50_ms", "end_p99_ms")
    ]
    return [f"{figures['per_s']:,.0f}", *latencies, f"{figures['hub_cpu_us']:.0f}"]


def _figures(found: dict[str, dict[str, float]]) -> dict[str, float]:
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
    }
    return {name: round(found[row][key], 3) for name, (row, key) in wanted.items() if row in found}


if __name__ == "__main__":
    main()

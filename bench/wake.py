"""Measurements of wakes for `bench.hub`: from a send to the start of a waker, and to the notification of a channel.

Both are measured from before the send, so they include it: a process of `tocsin serve`, fsync before the reply. The
waker is `date`, which writes the time of its start into the log of its wake. The channel is a real `tocsin mcp
--channel`, whose standard output is read as a coding agent reads it.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench.report import percentile

__all__ = ["POLICY", "SERVER", "measure"]

POLICY = """
wake: {level: Blocking, after_s: 0, per_hour_max: 1000000, processes_max: 1000000}
"""
SERVER = """
wakers: {roles: {primary: {command: [date, "+%s%N"], token_file: tokens/bench.token}}}
"""
#: Messages of one measurement, and time for each to have its effect, seconds.
MESSAGES = 30
WAIT_S = 30.0
_HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class _Sender:
    """Sends Blocking messages over HTTP."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:  # noqa: S310
            return json.loads(answer.read())

    def send(self, to: str, number: int) -> None:
        envelope = {
            "version": "1.1.0",
            "messageId": f"msg_{number}_{to}",
            "timestamp": "2025-11-12T10:30:45.000Z",
            "sender": {"agentId": "agent0", "type": "Manager"},
            "receiver": {"agentId": to, "type": "*"},
            "messageType": "StatusUpdate",
            "priority": "Blocking",
            "payload": {"text": f"number {number}"},
        }
        self.call("/v1/messages", envelope)


def measure(kind: str, url: str, data: Path, tokens: list[str]) -> dict[str, float]:
    """Measure `wake` or `channel` against a hub; the first token is the sender's, the others are its recipients'."""
    sender = _Sender(url, tokens[0])
    began = time.perf_counter()
    times = _starts(sender, data, len(tokens) - 1) if kind == "wake" else _notifications(sender, url, data, tokens[1])
    found = {"end_p50_ms": percentile(times, 50), "end_p99_ms": percentile(times, 99), "messages": float(len(times))}
    return found | {"per_s": len(times) / (time.perf_counter() - began)}


def _starts(sender: _Sender, data: Path, agents: int) -> list[float]:
    """Return the times from a send to the start of a process, in milliseconds, each for another agent."""
    times = []
    for number in range(1, agents + 1):
        sent_ns = time.time_ns()
        sender.send(f"agent{number}", number)
        times.append((int(_log_of(data / "wakes" / f"agent{number}")) - sent_ns) / 1e6)
    return times


def _log_of(folder: Path) -> str:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        for path in folder.glob("*.log"):
            if (text := path.read_text(encoding="ascii").strip()) != "":
                return text
        time.sleep(0.002)
    sys.exit(f"no process was started for {folder.name}")


def _notifications(sender: _Sender, url: str, data: Path, token: str) -> list[float]:
    """Return the times from a send to its notification, in milliseconds."""
    command = [sys.executable, "-m", "tocsin", "--url", url, "--data", str(data), "mcp", "--channel"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603
        command, stdin=pipe, stdout=pipe, text=True, env=os.environ | {"TOCSIN_TOKEN": token}
    )
    try:
        if process.stdin is None or process.stdout is None:
            sys.exit("the channel has no standard input or output")
        for message in (
            {"id": 1, "method": "initialize", "params": _HANDSHAKE},
            {"method": "notifications/initialized", "params": {}},
        ):
            process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
            process.stdin.flush()
        process.stdout.readline()
        until = time.monotonic() + WAIT_S
        while sender.call("/v1/agents/agent1")["reach"] != "channel":
            if time.monotonic() > until:
                sys.exit("the channel did not connect")
            time.sleep(0.02)
        times = []
        for number in range(MESSAGES):
            began = time.perf_counter()
            sender.send("agent1", number)
            while f"msg_{number}_agent1" not in process.stdout.readline():
                pass
            times.append((time.perf_counter() - began) * 1000)
        return times
    finally:
        process.terminate()
        process.wait(WAIT_S)

"""Benchmark of the start of commands: processor time of `tocsin --help`, `send`, `inbox` and `mcp`.

`send` and `inbox` talk to a real hub, so their imports for requests and replies are included. Python alone and a bare
import of the base package are measured in between, for comparison. `mcp` is measured until it
has answered the handshake, and until it has listed the tools.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import IO, Any, cast

from bench.hub import Hub
from bench.report import Aim, Run, median_of, options, table

ROUNDS = 15
AIMS = (
    Aim("help_cpu_s", "<=", 0.15, "`tocsin --help`, seconds of processor time"),
    Aim("send_cpu_s", "<=", 0.15, "`tocsin send`, seconds of processor time"),
    Aim("mcp_handshake_cpu_s", "<=", 0.25, "`tocsin mcp` up to the handshake, seconds of processor time"),
)


#: What a coding agent sends first.
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_ASKED = ({"id": 1, "method": "initialize", "params": _HELLO}, {"id": 2, "method": "tools/list"})


def cpu_s(command: list[str], environment: dict[str, str], asked: Sequence[dict[str, Any]] = ()) -> float:
    """Run a command, with requests of JSON-RPC that it answers, and return its processor time, user and system."""
    before = getrusage(RUSAGE_CHILDREN)
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        for request in asked:
            stdin.write(json.dumps({"jsonrpc": "2.0"} | request).encode() + b"\n")
            stdin.flush()
            if b"result" not in stdout.readline():
                raise RuntimeError(f"{command} has not answered {request}")
        process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command} has ended with {process.returncode}")
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = options("bench-startup", __doc__, rounds=ROUNDS)
    chosen = parser.parse_args()
    rounds: list[dict[str, float]] = []
    with (
        Run("bench-startup", chosen, rounds=ROUNDS) as run,
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as root,
    ):
        hub = Hub(Path(root) / "data")
        try:
            environment = {**os.environ, "TOCSIN_URL": hub.url, "TOCSIN_TOKEN": hub.token("ada")}
            tocsin = [sys.executable, "-m", "tocsin"]
            commands = {
                "python": [sys.executable, "-c", "pass"],
                "help": [*tocsin, "--help"],
                "send_help": [*tocsin, "send", "--help"],
                "send": [*tocsin, "send", "ada", "hello"],
                "inbox": [*tocsin, "inbox"],
                "mcp_handshake": [*tocsin, "mcp"],
                "mcp_tools": [*tocsin, "mcp"],
            }
            asked = {"mcp_handshake": _ASKED[:1], "mcp_tools": _ASKED}
            for number in range(run.rounds + 1):
                found = {name: cpu_s(command, environment, asked.get(name, ())) for name, command in commands.items()}
                if number:  # The first round compiled to bytecode, and registered an agent.
                    rounds.append(found)
        finally:
            hub.close()
    medians = median_of(rounds)
    labels = {
        "python": "Python alone",
        "help": "tocsin --help",
        "send_help": "tocsin send --help",
        "send": "tocsin send ada hello",
        "inbox": "tocsin inbox",
        "mcp_handshake": "tocsin mcp, handshake",
        "mcp_tools": "tocsin mcp, handshake and list of tools",
    }
    text = table(["", "processor s"], [[labels[name], f"{value:.3f}"] for name, value in medians.items()])
    run.finish(text, {f"{name}_cpu_s": round(value, 3) for name, value in medians.items()}, AIMS)


if __name__ == "__main__":
    main()

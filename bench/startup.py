"""Benchmark of the command line's start: processor time of `tocsin --help`, `tocsin send` and `tocsin inbox`.

`send` and `inbox` talk to a real hub, so their imports for requests and replies are included. Python alone and a bare
import of the base package are measured in between, for comparison.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench.hub import Hub
from bench.report import Aim, Run, median_of, options, table

ROUNDS = 15
AIMS = (
    Aim("help_cpu_s", "<=", 0.15, "`tocsin --help`, seconds of processor time"),
    Aim("send_cpu_s", "<=", 0.15, "`tocsin send`, seconds of processor time"),
)


def cpu_s(command: list[str], environment: dict[str, str]) -> float:
    """Run a command and return its processor time, user and system."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
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
            }
            for command in commands.values():  # Compiled to bytecode, and registered as an agent.
                cpu_s(command, environment)
            for _ in range(run.rounds):
                rounds.append({name: cpu_s(command, environment) for name, command in commands.items()})
        finally:
            hub.close()
    medians = median_of(rounds)
    labels = {
        "python": "Python alone",
        "help": "tocsin --help",
        "send_help": "tocsin send --help",
        "send": "tocsin send ada hello",
        "inbox": "tocsin inbox",
    }
    text = table(["", "processor s"], [[labels[name], f"{value:.3f}"] for name, value in medians.items()])
    run.finish(text, {f"{name}_cpu_s": round(value, 3) for name, value in medians.items()}, AIMS)


if __name__ == "__main__":
    main()

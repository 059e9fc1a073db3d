"""Real hubs in processes of their own, and the command line run against them, as a process or within this one."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from typer.main import get_command

from tests import forks
from tests.patience import PATIENCE_S
from tocsin.cli.commands import app

#: The commands, made once: that takes longer than to run one of them.
COMMANDS = get_command(app)
COMMAND = [sys.executable, "-W", "error", "-m", "tocsin"]


class RunningHub:
    """`tocsin serve` on a free port, in a process that has imported some modules when it starts."""

    def __init__(self, data: Path, *options: str, imported: tuple[str, ...] = forks.HUB) -> None:
        self.data = data
        self.log = data.parent / f"{data.name}.log"
        with self.log.open("wb") as log:
            words = ["tocsin", "serve", "--data", str(data), "--port", "0", *options]
            self.process = forks.Forked(words, stderr=log, cwd=data.parent, imported=imported)
        self.said: list[str] = []
        self.url = ""

    def __enter__(self) -> "RunningHub":
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        while line.startswith("admin token"):  # With workers, one of them tells it before all of them serve.
            line = self.process.stdout.readline()
        assert line.startswith("serving"), line + self.log.read_text()
        self.said.append(line)
        self.url = line.split(" at ")[1].split()[0]
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Tell it to stop, and return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(timeout=PATIENCE_S)
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            with self.process.stdout as out:
                self.said += out.read().splitlines()
        return code

    def run(self, *arguments: str, agent: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run the command line against it in a process of its own."""
        options = ["--url", self.url, "--data", str(self.data), *(["--as", agent] if agent else [])]
        return run(*options, *arguments, cwd=self.data.parent)

    def tell(self, *arguments: str, agent: str | None = None) -> "Told":
        """Run the command line against it within this process, which is quicker."""
        who = ("--as", agent) if agent else ()
        return asked("--url", self.url, "--data", str(self.data), *who, *arguments)

    def ask(self, *arguments: str, agent: str | None = None) -> Any:
        """Run the command line within this process, and return its answer."""
        told = self.tell(*arguments, "--json", agent=agent)
        assert told.exit_code == 0, told.stderr
        return json.loads(told.stdout)

    def json(self, *arguments: str, agent: str | None = None) -> Any:
        """Run the command line in a process of its own, and return its answer."""
        done = self.run(*arguments, "--json", agent=agent)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def run(*arguments: str, cwd: Path, timeout_s: float = PATIENCE_S) -> "subprocess.CompletedProcess[str]":
    """Run the command line in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    return forks.run(["tocsin", *arguments], cwd=cwd, env=environment, timeout_s=timeout_s)


class Told(NamedTuple):
    """How a command ended, and what it said."""

    exit_code: int
    stdout: str
    stderr: str


def asked(*words: str) -> Told:
    """Run the command line within this process."""
    code = 0
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            COMMANDS.main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return Told(code, out.getvalue(), err.getvalue())

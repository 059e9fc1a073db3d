"""Python processes that are forked from one that has imported Tocsin: to import it takes most of what a start costs.

A process is like `python -W error -m MODULE WORDS`, without what Python does before the first line of a module. Tests
of how a command starts need a real one.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import IO

from tests.fork_client import request

__all__ = ["HUB", "MCP", "Forked", "run", "stand_in", "templates"]

_ROOT = Path(__file__).resolve().parent.parent
_STAND_IN = Path(__file__).with_name("fork_client.py")
#: What a hub and most commands import.
HUB = ("tocsin.cli.serve", "tocsin.cli.commands", "uvloop")
#: What `tocsin mcp` imports, and a hub that MCP clients call.
MCP = (*HUB, "tocsin.cli.programs.mcp", "tocsin.cli.programs.bridge", "tocsin.gateways.mcp.library")


#: Processes to fork with the paths of their sockets, by what they have imported.
templates: dict[tuple[str, ...], tuple[str, subprocess.Popen[bytes]]] = {}
_starting = Lock()


def _template(imported: tuple[str, ...]) -> str:
    """Start a process to fork, once, and return the path of its socket; it ends with this process."""
    with _starting:
        if imported not in templates:
            templates[imported] = _start(imported)
        return templates[imported][0]


def _start(imported: tuple[str, ...]) -> tuple[str, subprocess.Popen[bytes]]:
    path = Path(tempfile.mkdtemp(prefix="tocsin-forks-")) / "socket"
    command = [sys.executable, "-W", "error", "-m", "tests.template", str(path), *imported]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=_ROOT, start_new_session=True)  # noqa: S603
    while not path.exists():
        if process.poll() is not None:
            raise RuntimeError("the process to fork has ended")
        time.sleep(0.01)
    return str(path), process


def stand_in(words: Sequence[str], imported: tuple[str, ...] = HUB) -> list[str]:
    """Return a command that a library can start: it gives its files to a forked process and ends with it."""
    return [sys.executable, "-I", "-S", str(_STAND_IN), _template(imported), *words]


class Forked:
    """A process, with what tests use of `subprocess.Popen`. Its output is text, in a pipe unless a file is given."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        imported: tuple[str, ...] = HUB,
    ) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        output, writing = os.pipe() if stdout is None else (None, os.dup(stdout.fileno()))
        with Path(os.devnull).open("rb") as nothing, os.fdopen(writing, "wb") as out:
            files = [nothing.fileno(), out.fileno(), 2 if stderr is None else stderr.fileno()]
            environment = dict(os.environ if env is None else env)
            caller = request(_template(imported), self.args, str(cwd or Path.cwd()), environment, files)
        with caller:
            self._answer = caller.makefile("rb", buffering=0)
        self.stdout: IO[str] | None = None if output is None else os.fdopen(output)
        self.pid = int(self._answer.readline())

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._answer], [], [], timeout)[0]:
            with self._answer:
                self.returncode = int(self._answer.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without warning."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Read the rest of the output, and wait for the end."""
        said = ""
        if self.stdout is not None:
            with self.stdout as out:
                said = out.read()
        self.wait(timeout)
        return said, None


def run(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run a process to its end, and return its output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Forked(words, stdout=out, stderr=err, cwd=cwd, env=env)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(process.args, code, *said)

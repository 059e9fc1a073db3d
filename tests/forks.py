"""Python processes that are forked from one that has imported Tocsin: to import it takes most of what a start costs.

A process is like `python -W error -m MODULE WORDS`, without what Python does before the first line of a module. Tests
of how a command starts need a real one.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

__all__ = ["Forked", "run"]

_ROOT = Path(__file__).resolve().parent.parent
#: What a hub and most commands import.
_IMPORTED = ("tocsin.cli.serve", "tocsin.cli.commands", "uvloop")


@cache
def _template() -> socket.socket:
    """Start the process to fork, once, and return the socket for requests; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-W", "error", "-m", "tests.template", *_IMPORTED]
        process = subprocess.Popen(command, stdin=theirs.fileno(), cwd=_ROOT, start_new_session=True)  # noqa: S603
    process.returncode = 0  # Nobody waits for it.
    return ours


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
    ) -> None:
        self.args = list(words)
        self.returncode: int | None = None
        folder, environment = str(cwd or Path.cwd()), dict(os.environ if env is None else env)
        request = json.dumps({"words": self.args, "folder": folder, "environment": environment})
        report, reporting = os.pipe()
        output, writing = os.pipe() if stdout is None else (None, os.dup(stdout.fileno()))
        with Path(os.devnull).open("rb") as nothing:
            standard = [nothing.fileno(), writing, 2 if stderr is None else stderr.fileno()]
            socket.send_fds(_template(), [request.encode()], [*standard, reporting])
        os.close(reporting)
        os.close(writing)
        self._report = os.fdopen(report, "rb", buffering=0)
        self.stdout: IO[str] | None = None if output is None else os.fdopen(output)
        self.pid = int(self._report.readline())

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
        if self.returncode is None and select.select([self._report], [], [], timeout)[0]:
            with self._report:
                self.returncode = int(self._report.readline())
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

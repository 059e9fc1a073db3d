"""Ends the process groups of commands whose worker has died: a program of its own, which reads the groups from a pipe.

A command registers its group itself, between fork and `exec`, and the worker withdraws it when the group has ended. The
pipe ends with the worker, also when that was killed; what is still registered is killed then. `PR_SET_PDEATHSIG` would
reach the leader of a group only, and exists on Linux only.

This program is started with `python -I -S`, so it imports nothing but the standard library.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable

__all__ = ["Guard"]


class Guard:
    """The guard of a worker's commands, as the worker sees it; it is started with the first command."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def registration(self) -> Callable[[], None]:
        """Return what a command calls between fork and `exec`, when it leads its group.

        It makes a few bytes and writes them, no more: other threads of the worker do not exist after the fork, and what
        they have locked stays locked.
        """
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = _start()
            for group in self._groups:
                self._write(b"+%d\n" % group)
        pipe, number, write = _input(self._process), os.getpid, os.write

        def register() -> None:
            write(pipe, b"+%d\n" % number())

        return register

    def registered(self, group: int) -> None:
        """Note that a command has started."""
        self._groups.add(group)

    def withdraw(self, group: int) -> None:
        """Forget a group that has ended, because its number may be another's soon; 0 is of one that did not start."""
        self._groups.discard(group)
        self._write(b"-%d\n" % group)

    def close(self) -> None:
        """End the program, which kills the groups that were not withdrawn."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()

    def _write(self, line: bytes) -> None:
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(_input(self._process), line)


def _start() -> "subprocess.Popen[bytes]":
    """Start the program, in a session of its own: what ends the worker by its group or terminal must not end it."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        bufsize=0,
        start_new_session=True,
    )


def _input(process: "subprocess.Popen[bytes]") -> int:
    if process.stdin is None:
        raise ValueError("the guard has no standard input")
    return process.stdin.fileno()


def _watch() -> None:
    """Read groups until the worker has died or closed the pipe; kill those that are left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        # A command that could not be executed has registered itself and is not withdrawn.
        groups = {group for group in groups if _signalled(group, 0)}
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    for group in groups:
        _signalled(group, signal.SIGKILL)


def _signalled(group: int, number: int) -> bool:
    """Send a signal to a group; return whether it exists."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    _watch()

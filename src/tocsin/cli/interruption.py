"""Ctrl-C and SIGTERM in commands that take long: they end with one line, at any moment.

Theory of operation. The command runs in a thread, and the main thread waits for it, because Python handles signals in
the main thread only. So a signal never interrupts an import, a database or Spark's start in the middle, where libraries
turn it into other errors, print it or lose it. On a signal the processes of the command are killed and this process
ends as if it had been killed, which commits are made for.
"""

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, ParamSpec

__all__ = ["interruptible", "on_interrupt"]

Parameters = ParamSpec("Parameters")
#: What a shell adds to the number of the signal that ended a program.
_SIGNALLED = 128
_SHOW_CURSOR = "\r\x1b[2K\x1b[?25h"


class _Interrupted(BaseException):
    """A signal to end."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Work:
    """A command in its thread."""

    def __init__(self, command: Callable[[], None]) -> None:
        self._command = command
        self._over = threading.Event()
        self._error: BaseException | None = None
        self.actions: list[Callable[[], None]] = []

    def _run(self) -> None:
        try:
            self._command()
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def wait(self) -> None:
        """Run the command, and raise its error."""
        threading.Thread(target=self._run, name="command", daemon=True).start()
        self._over.wait()
        if self._error is not None:
            raise self._error


_work: _Work | None = None


def on_interrupt(action: Callable[[], None]) -> None:
    """Call an action when the running command is interrupted."""
    if _work is not None:
        _work.actions.append(action)


def interruptible(line: str) -> Callable[[Callable[Parameters, None]], Callable[Parameters, None]]:
    """Let a command end on Ctrl-C with a line and exit code 130, on SIGTERM with 143."""

    def decorated(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
        @functools.wraps(command)
        def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
            _run(functools.partial(command, *args, **kwargs), line)

        return run

    return decorated


def _run(command: Callable[[], None], line: str) -> None:
    global _work
    if _work is not None or threading.current_thread() is not threading.main_thread():
        command()
        return
    _work = work = _Work(command)

    def handle(number: int, _frame: FrameType | None) -> None:
        raise _Interrupted(number)

    before: dict[signal.Signals, Any] = {}
    for one in (signal.SIGINT, signal.SIGTERM):
        # A shell starts programs in the background with SIGINT ignored.
        if signal.getsignal(one) is not signal.SIG_IGN:
            before[one] = signal.signal(one, handle)
    try:
        work.wait()
    except _Interrupted as signalled:
        _end(work, signalled.number, line)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        _work = None


def _end(work: _Work, number: int, line: str) -> None:
    """End this process and those that the command started."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    # The command's threads go on until this process ends; nothing that they print now is of interest.
    terminal = sys.stderr.isatty()
    told, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for action in work.actions:
        # Whatever fails, the command ends.
        with suppress(Exception):
            action()
    os.write(told, ((_SHOW_CURSOR if terminal else "") + line + "\n").encode())
    os._exit(_SIGNALLED + number)
